-- Candidates are found by rowid or vector alone; what the caller may see is decided here.

-- name: search_text
SELECT rowid AS row, -bm25(record_text, 1, 1, 1, 1, 0) AS bm25 FROM record_text
WHERE record_text MATCH :match ORDER BY bm25(record_text, 1, 1, 1, 1, 0) LIMIT :limit;

-- name: search_text_in_time
SELECT record.row, -bm25(record_text, 1, 1, 1, 1, 0) AS bm25 FROM record_text
CROSS JOIN record ON record.row = record_text.rowid
WHERE record_text MATCH :match AND +record.tenant = :tenant
  AND +record.place IN (SELECT value FROM json_each(:places))
  AND record.event_time >= ifnull(:since, '') AND record.event_time <= ifnull(:until, '9')
ORDER BY bm25(record_text, 1, 1, 1, 1, 0) LIMIT :limit;

-- name: count_text
SELECT count(*), min(rowid) FROM (
    SELECT rowid FROM record_text WHERE record_text MATCH :match ORDER BY rowid DESC LIMIT :probe);

-- name: visible
SELECT record.row, record.id, record.scope, record.session_id, record.role, record.label,
       record.importance, record.durability, record.event_time, length(record.content) AS length,
       json_extract(record.metadata, '$.recalled') AS recalled, record.score, vector.embedder,
       vector.data,
       substr(ifnull(record.topic || ': ', '') || ifnull(record.label || ': ', '') || record.content,
              1, 800) || ' ' || record.said AS text,
       CASE WHEN record.kind IN ('chat_message', 'tool_output') THEN (
            SELECT before.row FROM record AS before INDEXED BY record_standing
            WHERE before.tenant = record.tenant AND before.owner = record.owner
              AND before.session_id = record.session_id AND before.superseded_by IS NULL
              AND before.kind IN ('chat_message', 'tool_output')
              AND ifnull(before.stands_at, before.row) < ifnull(record.stands_at, record.row)
            ORDER BY ifnull(before.stands_at, before.row) DESC LIMIT 1) END,
       CASE WHEN record.kind IN ('chat_message', 'tool_output') THEN (
            SELECT after.row FROM record AS after INDEXED BY record_standing
            WHERE after.tenant = record.tenant AND after.owner = record.owner
              AND after.session_id = record.session_id AND after.superseded_by IS NULL
              AND after.kind IN ('chat_message', 'tool_output')
              AND ifnull(after.stands_at, after.row) > ifnull(record.stands_at, record.row)
            ORDER BY ifnull(after.stands_at, after.row) LIMIT 1) END
FROM (SELECT value AS row FROM json_each(:rows)
      UNION ALL
      SELECT found.row FROM json_each(:ids) AS id
      CROSS JOIN record AS found ON found.tenant = :tenant AND found.id = id.value) AS wanted
CROSS JOIN record ON record.row = wanted.row
LEFT JOIN vector ON vector.record = record.row
WHERE +record.tenant = :tenant AND record.superseded_by IS NULL
  AND +record.place IN (SELECT value FROM json_each(:places))
  AND (record.scope != 'session' OR (
       (:only_session IS NULL OR record.session_id = :only_session)
       AND (:but_session IS NULL OR record.session_id IS NOT :but_session)))
  AND (:since IS NULL OR record.event_time >= :since)
  AND (:until IS NULL OR record.event_time <= :until)
LIMIT :limit;

-- name: own_rows
SELECT row FROM record INDEXED BY record_place
WHERE tenant = :tenant AND place IN (SELECT value FROM json_each(:places))
  AND superseded_by IS NULL
  AND event_time >= ifnull(:since, '') AND event_time <= ifnull(:until, '9')
  AND (scope != 'session' OR (
       (:only_session IS NULL OR session_id = :only_session)
       AND (:but_session IS NULL OR session_id IS NOT :but_session)))
LIMIT :limit;

-- name: own_vectors
SELECT record.row, vector.data FROM json_each(:rows) AS wanted
CROSS JOIN record ON record.row = wanted.value
CROSS JOIN vector ON vector.record = record.row AND vector.embedder = :embedder
WHERE +record.tenant = :tenant AND record.superseded_by IS NULL
  AND +record.place IN (SELECT value FROM json_each(:places))
  AND (record.scope != 'session' OR (
       (:only_session IS NULL OR record.session_id = :only_session)
       AND (:but_session IS NULL OR record.session_id IS NOT :but_session)))
  AND (:since IS NULL OR record.event_time >= :since)
  AND (:until IS NULL OR record.event_time <= :until);

-- name: has_waiting
SELECT EXISTS (
    SELECT 1 FROM record INDEXED BY record_waiting
    WHERE tenant = :tenant AND index_state = 0
      AND place IN (SELECT value FROM json_each(:places))
      AND (scope != 'session' OR (
           (:only_session IS NULL OR session_id = :only_session)
           AND (:but_session IS NULL OR session_id IS NOT :but_session)))
) AS waiting;

-- name: topic_rows
SELECT record.row FROM json_each(:topics) AS wanted
CROSS JOIN record INDEXED BY record_topic
     ON record.tenant = :tenant AND record.folded_topic = wanted.value
WHERE +record.place IN (SELECT value FROM json_each(:places));

-- name: related
SELECT wanted.value AS of, record.row FROM json_each(:ids) AS wanted
CROSS JOIN relation ON relation.tenant = :tenant AND relation.source = wanted.value
JOIN record ON record.tenant = :tenant AND record.id = relation.target
UNION ALL
SELECT wanted.value AS of, record.row FROM json_each(:ids) AS wanted
CROSS JOIN relation INDEXED BY relation_target
     ON relation.tenant = :tenant AND relation.target = wanted.value
JOIN record ON record.tenant = :tenant AND record.id = relation.source;

-- name: records
SELECT record.* FROM json_each(:rows) AS wanted
CROSS JOIN record ON +record.tenant = :tenant AND record.row = wanted.value;
