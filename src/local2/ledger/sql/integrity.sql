-- Statements about the whole ledger, with all its tenants.

-- name: check_full_text
INSERT INTO record_text (record_text, rank) VALUES ('integrity-check', 1);

-- name: count_rows
SELECT count(*) AS there, ifnull(max(row), 0) AS last FROM record NOT INDEXED;

-- name: count_shells
SELECT count(*) FROM record INDEXED BY record_erased WHERE retired_why = 'erased';

-- name: erasure_key
SELECT key FROM erasure;

-- name: every_tombstone
SELECT tenant, digest, chosen, erased_at FROM tombstone;
