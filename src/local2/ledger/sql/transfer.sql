-- Exports read every table by row, some thousand rows at a time; `until` bounds the rows that are
-- read, whoever owns them. Without `places`, everything of the tenant is exported.

-- name: last_rows
SELECT (SELECT max(row) FROM record) AS record, (SELECT max(row) FROM feedback) AS feedback,
       (SELECT max(row) FROM note) AS note, (SELECT max(rowid) FROM tool_output) AS output,
       (SELECT max(row) FROM audit) AS audit, (SELECT max(row) FROM item) AS item,
       (SELECT max(row) FROM showing) AS showing;

-- name: count_exported
SELECT count(*) AS records FROM record INDEXED BY record_revision
WHERE tenant = :tenant
  AND (:places IS NULL OR +place IN (SELECT value FROM json_each(:places)))
  AND (:session_id IS NULL OR session_id = :session_id);

-- name: export_record
SELECT record.*, vector.embedder, vector.data AS vector FROM record
LEFT JOIN vector ON :vectors = 1 AND vector.record = record.row AND vector.rowid = (
     SELECT min(rowid) FROM vector WHERE vector.record = record.row)
WHERE record.row > :after AND record.row <= :until AND +record.tenant = :tenant
  AND (:places IS NULL OR +record.place IN (SELECT value FROM json_each(:places)))
  AND (:session_id IS NULL OR record.session_id = :session_id)
ORDER BY record.row;

-- name: export_place
SELECT record.row, record.id, record.owner, record.session_id, record.stands_at FROM record
WHERE record.row > :after AND record.row <= :until AND record.stands_at IS NOT NULL
  AND +record.tenant = :tenant
  AND (:places IS NULL OR +record.place IN (SELECT value FROM json_each(:places)))
  AND (:session_id IS NULL OR record.session_id = :session_id)
ORDER BY record.row;

-- The record at a position of the session, or the nearest one to it.
-- name: record_at
SELECT id, row FROM (
    SELECT id, row FROM record
    WHERE +tenant = :tenant AND row IN (:below, :below + 1) AND owner = :owner
      AND session_id IS :session_id
    UNION ALL
    SELECT id, row FROM (
        SELECT id, row FROM record INDEXED BY record_standing
        WHERE tenant = :tenant AND owner = :owner AND session_id = :session_id
          AND kind IN ('chat_message', 'tool_output', 'transcript') AND superseded_by IS NULL
          AND ifnull(stands_at, row) <= :below
        ORDER BY ifnull(stands_at, row) DESC LIMIT 1))
ORDER BY abs(row - :at), row LIMIT 1;

-- name: export_relation
SELECT source, type AS relation, target,
       :places IS NULL OR EXISTS (
           SELECT 1 FROM record
           WHERE record.tenant = :tenant AND record.id = relation.source
             AND +record.place IN (SELECT value FROM json_each(:places))
             AND (:session_id IS NULL OR record.session_id = :session_id)) AS wanted
FROM relation
WHERE tenant = :tenant AND (source, type, target) > (:source, :relation, :target)
ORDER BY source, type, target LIMIT :limit;

-- name: export_feedback
SELECT row, owner, query_id, session_id, answer, score, comment, event_time FROM feedback
WHERE row > :after AND row <= :until AND +tenant = :tenant
  AND (:places IS NULL OR owner = :owner)
  AND (:session_id IS NULL OR session_id = :session_id OR EXISTS (
       SELECT 1 FROM record
       WHERE record.tenant = :tenant AND record.id = feedback.answer
         AND record.session_id = :session_id))
ORDER BY row;

-- name: export_note
SELECT row, owner, session_id, position, role, content, event_time, merges, merged FROM note
WHERE row > :after AND row <= :until AND +tenant = :tenant
  AND (:places IS NULL OR owner = :owner)
  AND (:session_id IS NULL OR session_id = :session_id)
ORDER BY row;

-- The tool outputs of a session are those that its records mention.
-- name: export_output
SELECT rowid AS row, owner, key, first, until, last, kept_at, text FROM tool_output
WHERE rowid > :after AND rowid <= :until AND +tenant = :tenant
  AND (:places IS NULL OR owner = :owner)
  AND (:session_id IS NULL OR EXISTS (
       SELECT 1 FROM record INDEXED BY record_standing
       WHERE record.tenant = :tenant AND record.owner = :owner AND record.session_id = :session_id
         AND record.kind IN ('chat_message', 'tool_output', 'transcript')
         AND record.superseded_by IS NULL AND instr(record.metadata, tool_output.key) > 0)
       OR EXISTS (
       SELECT 1 FROM record INDEXED BY record_past
       WHERE record.tenant = :tenant AND record.place IN (SELECT value FROM json_each(:places))
         AND record.session_id = :session_id
         AND record.superseded_by IS NOT NULL AND instr(record.metadata, tool_output.key) > 0))
ORDER BY rowid;

-- name: export_audit
SELECT row, action, record_id, agent, "user", reason, run, detail, event_time FROM audit
WHERE row > :after AND row <= :until AND +tenant = :tenant
  AND (:places IS NULL OR EXISTS (
       SELECT 1 FROM record
       WHERE record.tenant = :tenant AND record.id = audit.record_id
         AND +record.place IN (SELECT value FROM json_each(:places))
         AND (:session_id IS NULL OR record.session_id = :session_id)))
ORDER BY row;

-- name: export_access
SELECT record.row, record.id AS record, access.times, access.last, access.weighed
FROM access
CROSS JOIN record ON record.row = access.record
WHERE access.record > :after AND access.record <= :until AND +access.tenant = :tenant
  AND +record.tenant = :tenant
  AND (:places IS NULL OR +record.place IN (SELECT value FROM json_each(:places)))
  AND (:session_id IS NULL OR record.session_id = :session_id)
ORDER BY access.record;

-- name: export_item
SELECT row, owner, collection, namespace, key, value, data, record, session_id, created_at, updated_at
FROM item
WHERE row > :after AND row <= :until AND +tenant = :tenant
  AND (:places IS NULL OR owner = :owner)
  AND (:session_id IS NULL OR session_id = :session_id)
ORDER BY row;

-- name: export_showing
SELECT row, owner, agent, session_id, query_id, question, answer, shown_at FROM showing
WHERE row > :after AND row <= :until AND +tenant = :tenant
  AND (:places IS NULL OR owner = :owner)
  AND (:session_id IS NULL OR session_id = :session_id)
ORDER BY row;

-- name: active_chunk
SELECT record.* FROM record INDEXED BY record_chunk
WHERE tenant = :tenant AND source_ref = :source_ref AND kind = 'document_chunk'
  AND superseded_by IS NULL;

-- Whether a record would, over others, stand behind itself if `newer` replaced or superseded it: only
-- if it replaces or supersedes one already.
-- name: replaced_in_turn
WITH RECURSIVE later (id) AS (
    SELECT :newer
    WHERE EXISTS (SELECT 1 FROM record INDEXED BY record_replaced
                  WHERE tenant = :tenant AND superseded_by = :id)
       OR EXISTS (SELECT 1 FROM relation
                  WHERE tenant = :tenant AND source = :id AND type = 'supersedes')
    UNION
    SELECT record.superseded_by FROM later
    CROSS JOIN record ON record.tenant = :tenant AND record.id = later.id
    WHERE record.superseded_by <> ''
    UNION
    SELECT relation.source FROM later
    CROSS JOIN relation INDEXED BY relation_target
         ON relation.tenant = :tenant AND relation.target = later.id
    WHERE +relation.type = 'supersedes')
SELECT 1 FROM later WHERE id = :id LIMIT 1;

-- The records of which an action in the audit names one of these.
-- name: named_in_audit
SELECT audit_name.id, audit.record_id FROM json_each(:ids) AS wanted
CROSS JOIN audit_name ON audit_name.tenant = :tenant AND audit_name.id = wanted.value
CROSS JOIN audit ON audit.row = audit_name.audit
WHERE audit.action = :action AND +audit.tenant = :tenant
ORDER BY audit.row;

-- name: retire_as
UPDATE record SET retired_why = :why, retired_at = :retired_at
WHERE tenant = :tenant AND id = :id AND superseded_by = :superseded_by
  AND retired_why = 'superseded' AND EXISTS (
    SELECT 1 FROM audit INDEXED BY audit_by_record
    WHERE tenant = :tenant AND record_id = :id AND action = 'superseded' AND reason = 'import');

-- name: set_place
UPDATE record
SET stands_at = (SELECT row FROM record WHERE tenant = :tenant AND id = :at) + :offset
WHERE tenant = :tenant AND id = :record AND stands_at IS NULL
  AND EXISTS (SELECT 1 FROM record WHERE tenant = :tenant AND id = :at);

-- name: scored_otherwise
SELECT 1 FROM record WHERE tenant = :tenant AND id = :answer AND score IS NOT :score;

-- name: import_note
INSERT INTO note (tenant, owner, session_id, position, role, content, event_time, merges, merged)
SELECT :tenant, :owner, :session_id,
       CASE WHEN :merged = 1 OR NOT EXISTS (
                SELECT 1 FROM note
                WHERE tenant = :tenant AND owner = :owner AND session_id = :session_id
                  AND position = :position AND merged = 0)
            THEN :position
            ELSE (SELECT 1 + max(position) FROM note
                  WHERE tenant = :tenant AND owner = :owner AND session_id = :session_id
                    AND merged = 0) END,
       :role, :content, :event_time, :merges, :merged
WHERE NOT EXISTS (
    SELECT 1 FROM note INDEXED BY note_of_session
    WHERE tenant = :tenant AND owner = :owner AND session_id = :session_id
      AND event_time = :event_time AND role = :role AND content = :content AND merges = :merges);

-- name: import_output
INSERT INTO tool_output (tenant, owner, key, first, until, last, kept_at, text)
VALUES (:tenant, :owner, :key, :first, :until, :last, :kept_at, :text)
ON CONFLICT DO NOTHING;

-- name: import_audit
INSERT INTO audit (tenant, action, record_id, agent, "user", reason, run, detail, event_time)
SELECT :tenant, :action, :record_id, :agent, :user, :reason, :run, :detail, :event_time
WHERE NOT EXISTS (
    SELECT 1 FROM audit INDEXED BY audit_by_record
    WHERE tenant = :tenant AND record_id = :record_id AND action = :action
      AND event_time = :event_time AND detail = :detail
      AND agent IS :agent AND "user" IS :user AND reason IS :reason AND run IS :run)
RETURNING row;

-- name: import_access
INSERT INTO access (record, tenant, times, last, weighed)
SELECT row, tenant, :times, :last, :weighed FROM record WHERE tenant = :tenant AND id = :record
ON CONFLICT (record) DO UPDATE SET times = max(access.times, excluded.times),
                                   last = max(access.last, excluded.last),
                                   weighed = max(access.weighed, excluded.weighed)
WHERE (excluded.times > access.times OR excluded.last > access.last);

-- name: known_showing
SELECT 1 FROM showing INDEXED BY showing_session
WHERE tenant = :tenant AND owner = :owner AND session_id IS :session_id AND shown_at = :shown_at
  AND question IS :question AND answer IS :answer LIMIT 1;
