-- name: notes
SELECT position, role, content, event_time, merges FROM note
WHERE tenant = :tenant AND owner = :owner AND session_id = :session_id AND merged = 0
ORDER BY position;

-- name: insert_note
INSERT INTO note (tenant, owner, session_id, position, role, content, event_time, merges)
VALUES (:tenant, :owner, :session_id, :position, :role, :content, :event_time, :merges);

-- name: merge_notes
UPDATE note SET merged = 1
WHERE tenant = :tenant AND owner = :owner AND session_id = :session_id AND merged = 0
  AND position <= :position;

-- name: session_messages
SELECT id, kind, role, label, source_ref, query_id, turn, content, metadata, event_time
FROM record INDEXED BY record_standing
WHERE tenant = :tenant AND owner = :owner AND session_id = :session_id
  AND kind IN ('chat_message', 'tool_output', 'transcript') AND superseded_by IS NULL
ORDER BY ifnull(stands_at, row) DESC LIMIT :limit;

-- Whatever their types, and whatever their importance.
-- name: pinned_facts
SELECT record.* FROM json_each(:places) AS wanted
CROSS JOIN record INDEXED BY record_pinned
     ON record.tenant = :tenant AND record.place = wanted.value
WHERE record.pinned = 1 AND record.kind = 'fact' AND record.superseded_by IS NULL
ORDER BY record.importance DESC, record.row DESC LIMIT :limit;

-- No other memory is stated to supersede it, but for one that it has replaced since, nor has its
-- user said otherwise since.
-- part: not_outdated
NOT EXISTS (
           SELECT 1 FROM relation INDEXED BY relation_target
           CROSS JOIN record AS newer ON newer.tenant = :tenant AND newer.id = relation.source
           WHERE relation.tenant = :tenant AND relation.target = fact.id
             AND (+relation.type = 'supersedes' AND newer.superseded_by IS NOT fact.id
                  OR +relation.type = 'contradicts'
                  AND newer.kind = 'chat_message' AND newer.role = 'user'
                  AND newer.stated_by = fact.stated_by AND newer.superseded_by IS NULL))

-- Core facts are important enough. Facts that another record supersedes are outdated, even if that
-- one has ended since, and so are those that their user has denied in a message.
-- name: important_facts
SELECT record.* FROM json_each(:places) AS wanted
CROSS JOIN record ON record.row IN (
     SELECT row FROM (
         SELECT importance, row, id, memory_type, stated_by FROM record INDEXED BY record_important
         WHERE tenant = :tenant AND place = wanted.value AND importance >= :importance
           AND kind = 'fact' AND superseded_by IS NULL
         UNION ALL
         SELECT importance, row, id, memory_type, stated_by FROM record INDEXED BY record_core
         WHERE tenant = :tenant AND place = wanted.value AND importance < :importance
           AND durability = 'core' AND kind = 'fact' AND superseded_by IS NULL
         ORDER BY importance DESC, row DESC) AS fact
     WHERE (memory_type IS NULL OR memory_type IN (SELECT value FROM json_each(:types)))
       AND {not_outdated}
     LIMIT :limit)
WHERE +record.tenant = :tenant
ORDER BY record.importance DESC, record.row DESC LIMIT :limit;

-- The less important facts that have a key.
-- name: standing_facts
SELECT record.* FROM json_each(:places) AS wanted
CROSS JOIN record ON record.row IN (
     SELECT row FROM record AS fact INDEXED BY record_keyed
     WHERE tenant = :tenant AND place = wanted.value AND importance < :importance
       AND folded_topic IS NOT NULL AND kind = 'fact' AND superseded_by IS NULL
       AND durability <> 'core'
       AND (memory_type IS NULL OR memory_type IN (SELECT value FROM json_each(:types)))
       AND {not_outdated}
     ORDER BY importance DESC, row DESC LIMIT :limit)
WHERE +record.tenant = :tenant
ORDER BY record.importance DESC, record.row DESC LIMIT :limit;
