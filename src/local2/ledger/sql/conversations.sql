-- name: known_messages
WITH RECURSIVE version (asked, id) AS (
    SELECT value, value FROM json_each(:ids)
    UNION
    SELECT version.asked, record.superseded_by FROM version
    CROSS JOIN record ON record.tenant = :tenant AND record.id = version.id
    WHERE record.superseded_by IS NOT NULL
)
SELECT version.asked, record.id, record.kind, record.content, record.metadata
FROM version CROSS JOIN record ON record.tenant = :tenant AND record.id = version.id
WHERE record.superseded_by IS NULL
UNION ALL
SELECT record.alias, record.id, record.kind, record.content, record.metadata
FROM json_each(:ids) AS wanted
CROSS JOIN record INDEXED BY record_alias
     ON record.tenant = :tenant AND record.alias = wanted.value
WHERE record.superseded_by IS NULL;

-- name: position_of
SELECT ifnull(stands_at, row) AS position FROM record WHERE tenant = :tenant AND id = :id;

-- name: known_as
SELECT id FROM record WHERE tenant = :tenant AND alias = :id AND superseded_by IS NULL LIMIT 1;

-- name: known_result
SELECT id, metadata FROM record WHERE tenant = :tenant AND id = :id
UNION ALL
SELECT id, metadata FROM record INDEXED BY record_alias WHERE tenant = :tenant AND alias = :id;

-- name: pending_result
SELECT id, content, metadata FROM record INDEXED BY record_pending
WHERE tenant = :tenant AND owner = :owner AND session_id = :session_id AND pending = 1
  AND kind = 'tool_output' AND label = :label
  AND (content = :content OR (:long = 1 AND length(content) >= :compared))
ORDER BY content = :content DESC, query_id IS :query_id DESC, row LIMIT :limit;

-- name: pending_results
SELECT id, content, metadata FROM record INDEXED BY record_pending
WHERE tenant = :tenant AND owner = :owner AND session_id = :session_id AND pending = 1
  AND kind = 'tool_output' AND label = :label
ORDER BY query_id IS :query_id DESC, row LIMIT :limit;

-- name: report_result
UPDATE record SET pending = 0, alias = :alias, source_ref = ifnull(:source_ref, source_ref),
       query_id = ifnull(:query_id, query_id), turn = ifnull(:turn, turn), metadata = :metadata,
       stands_at = ifnull(:stands_at, stands_at), pairs = ifnull(:pairs, pairs)
WHERE tenant = :tenant AND id = :id;

-- name: renew_features
UPDATE feature SET stems = :stems, length = :length, density = :density, firsthand = :firsthand,
                   timed = :timed, wish = :wish
WHERE record IN (SELECT row FROM record WHERE tenant = :tenant AND row = :record);

-- name: reported_result
SELECT id, content, metadata FROM record INDEXED BY record_by_query
WHERE tenant = :tenant AND owner = :owner AND query_id = :query_id AND session_id = :session_id
  AND kind = 'tool_output' AND label = :label AND pending IS NULL AND superseded_by IS NULL
  AND (content = :content OR (:long = 1 AND length(content) >= :compared))
ORDER BY content = :content DESC, row LIMIT :limit;

-- name: received
UPDATE record SET pending = 0, alias = ifnull(alias, :alias)
WHERE tenant = :tenant AND id = :id AND pending IS NULL;

-- name: reported
UPDATE record SET pending = 0, metadata = json_remove(metadata, '$.unnamed')
WHERE tenant = :tenant AND id = :id AND pending = 1;

-- name: pending_question
SELECT id FROM record INDEXED BY record_pending
WHERE tenant = :tenant AND owner = :owner AND (session_id IS :session_id OR session_id IS NULL)
  AND pending = 1 AND kind = 'chat_message' AND content = :content
  AND (query_id IS NULL OR json_type(metadata, '$.unnamed') = 'true')
ORDER BY session_id IS NULL, row DESC LIMIT 1;

-- name: adopt_question
UPDATE record SET pending = 0, session_id = :session_id, query_id = :query_id, source_ref = :source_ref,
       alias = :alias, turn = id, metadata = json_remove(metadata, '$.unnamed')
WHERE tenant = :tenant AND id = :id;
