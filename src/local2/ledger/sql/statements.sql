-- name: used
SELECT records, bytes FROM usage WHERE tenant = :tenant;

-- Looks at a few of the tenant's records only, however many there are.
-- name: some_said
SELECT substr(content, 1, 300) AS content FROM (
     SELECT content, kind, role, superseded_by FROM record WHERE tenant = :tenant
     ORDER BY id DESC LIMIT :limit) AS few
WHERE kind = 'chat_message' AND role = 'user' AND superseded_by IS NULL;

-- name: active_topic
SELECT record.* FROM record
WHERE tenant = :tenant AND scope = :scope AND owner = :owner
  AND folded_topic = :topic AND superseded_by IS NULL;

-- name: topics_beginning_with
SELECT topic FROM record
WHERE tenant = :tenant AND scope = :scope AND owner = :owner
  AND folded_topic >= :beginning AND folded_topic < :beyond AND superseded_by IS NULL
ORDER BY folded_topic LIMIT :limit;

-- name: topic_as_written
SELECT topic FROM record
WHERE tenant = :tenant AND scope = :scope AND owner = :owner AND folded_topic = :topic
ORDER BY row LIMIT 1;

-- What one user stated under a key belongs to everybody, and also to the agent that heard it.
-- name: copies_of_fact
SELECT copy.* FROM record AS fact
CROSS JOIN record AS copy INDEXED BY record_topic
     ON copy.tenant = :tenant AND copy.folded_topic = fact.folded_topic
WHERE fact.tenant = :tenant AND fact.id = :id AND fact.scope IN ('agent', 'tenant')
  AND copy.folded_topic IS NOT NULL AND copy.scope IN ('agent', 'tenant') AND copy.kind = 'fact'
  AND copy.superseded_by IS NULL AND copy.id <> fact.id
  AND copy.content = fact.content AND copy.stated_by = fact.stated_by;

-- name: same_fact
SELECT id, folded_topic FROM record
WHERE tenant = :tenant AND scope = :scope AND owner = :owner AND content = :content
  AND kind = 'fact' AND superseded_by IS NULL
  AND (:topic IS NULL OR folded_topic IS NULL OR folded_topic = :topic)
ORDER BY folded_topic IS NULL LIMIT 1;

-- name: record_state
SELECT row, superseded_by FROM record WHERE tenant = :tenant AND id = :id;

-- name: topic_history
SELECT record.* FROM record
WHERE tenant = :tenant AND scope = :scope AND owner = :owner AND folded_topic = :topic
ORDER BY row DESC;

-- The answers of a turn are ordered by their times, all other versions by row.
-- name: chain
WITH RECURSIVE newer (id) AS (
    SELECT value FROM json_each(:ids) UNION
    SELECT superseded_by FROM record JOIN newer USING (id)
    WHERE tenant = :tenant AND superseded_by != ''
), versions (id) AS (
    SELECT id FROM newer UNION
    SELECT record.id FROM record JOIN versions ON record.superseded_by = versions.id
    WHERE record.tenant = :tenant AND versions.id != ''
)
SELECT record.* FROM record JOIN versions USING (id)
WHERE tenant = :tenant ORDER BY superseded_by IS NOT NULL,
         CASE WHEN turn IS NULL THEN '' ELSE event_time END DESC, row DESC;

-- name: supersede
UPDATE record SET superseded_by = :superseded_by, retired_at = :retired_at, retired_why = :why,
                  retired_noted_at = :noted_at
WHERE tenant = :tenant AND id = :id AND superseded_by IS NULL
RETURNING row, kind;

-- The parts of a long output.
-- name: parts_of
SELECT part.id FROM relation INDEXED BY relation_target
CROSS JOIN record AS part ON part.tenant = :tenant AND part.id = relation.source
     AND part.kind = 'output_part'
WHERE relation.tenant = :tenant AND relation.target = :id AND relation.type = 'derived_from';

-- name: set_pinned
UPDATE record SET pinned = :pinned
WHERE tenant = :tenant AND id = :id AND superseded_by IS NULL AND pinned IS NOT :pinned;

-- A newer version of what is pinned is pinned, too.
-- name: keep_pinned
UPDATE record SET pinned = 1
WHERE tenant = :tenant AND id = :newer AND EXISTS (
    SELECT 1 FROM record AS older
    WHERE older.tenant = :tenant AND older.id = :older AND older.pinned = 1);

-- name: insert_audit
INSERT INTO audit (tenant, action, record_id, agent, "user", reason, run, detail, event_time)
VALUES (:tenant, :action, :record_id, :agent, :user, :reason, :run, :detail, :event_time)
RETURNING row;

-- name: name_in_audit
INSERT OR IGNORE INTO audit_name (tenant, id, audit)
SELECT :tenant, value, :row FROM json_each(:ids);

-- name: active_chunks
SELECT row, id, source_ref, label, content FROM record
WHERE tenant = :tenant AND kind = 'document_chunk' AND superseded_by IS NULL
  AND source_ref BETWEEN :first AND :last;

-- name: relate
INSERT INTO relation (tenant, source, type, target) VALUES (:tenant, :source, :type, :target)
ON CONFLICT DO NOTHING;

-- name: counts
SELECT records, records - unsearched - waiting - aside AS indexed, waiting FROM (
    SELECT ifnull((SELECT records FROM usage WHERE tenant = :tenant), 0) AS records,
           (SELECT count(*) FROM record INDEXED BY record_unsearched
            WHERE tenant = :tenant AND (superseded_by IS NOT NULL OR kind = 'transcript'
                                      OR memory_type = 'task'))
           - (SELECT count(*) FROM record INDEXED BY record_erased
              WHERE tenant = :tenant AND retired_why = 'erased') AS unsearched,
           (SELECT count(*) FROM task INDEXED BY task_turn
            WHERE tenant = :tenant AND kind = 'index' AND state IN ('waits', 'later')) AS waiting,
           (SELECT count(*) FROM task INDEXED BY task_turn
            WHERE tenant = :tenant AND kind = 'index' AND state = 'aside') AS aside);

-- name: next_chunk
SELECT source_ref, label FROM record INDEXED BY record_chunk
WHERE tenant = :tenant AND kind = 'document_chunk' AND superseded_by IS NULL
  AND source_ref > :after
ORDER BY source_ref LIMIT 1;

-- name: count_chunks
SELECT count(*) AS chunks, max(event_time) AS newest FROM record INDEXED BY record_chunk
WHERE tenant = :tenant AND kind = 'document_chunk' AND superseded_by IS NULL
  AND source_ref >= :first AND source_ref < :last;
