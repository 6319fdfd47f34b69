-- name: newest_audit_rows
SELECT row FROM audit WHERE +tenant = :tenant AND row < :before ORDER BY row DESC LIMIT :limit;

-- name: audit_rows_of_record
SELECT row FROM audit INDEXED BY audit_by_record
WHERE tenant = :tenant AND record_id = :record AND row < :before ORDER BY row DESC LIMIT :limit;

-- name: audit_rows_of_run
SELECT row FROM audit INDEXED BY audit_by_run
WHERE tenant = :tenant AND run = :run AND row < :before ORDER BY row DESC LIMIT :limit;

-- name: withdrawals
SELECT record_id, reason FROM audit INDEXED BY audit_by_record
WHERE tenant = :tenant AND record_id IN (SELECT value FROM json_each(:ids))
  AND action IN ('edited', 'withdrawn', 'hidden', 'contradicted') AND reason IS NOT NULL
ORDER BY row;

-- name: audit_entries
SELECT audit.row, audit.action, audit.record_id, audit.event_time, audit.agent, audit."user",
       audit.reason, audit.run, audit.detail, record.kind, record.topic, record.memory_type,
       record.scope, record.owner
FROM json_each(:rows) AS wanted
CROSS JOIN audit ON audit.row = wanted.value
LEFT JOIN record ON record.tenant = audit.tenant AND record.id = audit.record_id
WHERE +audit.tenant = :tenant
ORDER BY wanted.key;

-- name: retired_record
SELECT row, id, kind, scope, owner, folded_topic, source_ref FROM record
WHERE tenant = :tenant AND id = :id AND superseded_by = :superseded_by
  AND retired_why = :why AND retired_at = :retired_at;

-- name: restore
UPDATE record SET superseded_by = NULL, retired_at = NULL, retired_why = NULL
WHERE tenant = :tenant AND id = :id;
