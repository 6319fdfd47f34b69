-- Statements about the whole ledger, with all its tenants.

-- name: data_version
PRAGMA data_version

-- name: count_rows
SELECT count(*) AS there, ifnull(max(row), 0) AS last FROM record NOT INDEXED;

-- name: count_shells
SELECT count(*) FROM record INDEXED BY record_erased WHERE retired_why = 'erased';

-- name: erasure_key
SELECT key FROM erasure;

-- name: every_tombstone
SELECT tenant, digest, chosen, erased_at FROM tombstone;
