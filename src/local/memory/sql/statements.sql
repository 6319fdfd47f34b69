-- name: insert_record
INSERT INTO record (tenant, id, kind, owner, topic, content, metadata, agent, session_id, query_id,
                    event_time)
VALUES (:tenant, :id, :kind, :owner, :topic, :content, :metadata, :agent, :session_id, :query_id,
        :event_time)
ON CONFLICT (tenant, id) DO NOTHING;

-- name: active_topic
SELECT record.*, NULL AS score FROM record
WHERE tenant = :tenant AND owner = :owner AND topic = :topic AND superseded_by IS NULL;

-- name: topic_history
SELECT record.*, NULL AS score FROM record
WHERE tenant = :tenant AND owner = :owner AND topic = :topic ORDER BY row DESC;

-- name: supersede
UPDATE record SET superseded_by = :superseded_by, index_state = 2
WHERE tenant = :tenant AND id = :id;

-- name: insert_audit
INSERT INTO audit (tenant, action, record_id, agent, detail, event_time)
VALUES (:tenant, :action, :record_id, :agent, :detail, :event_time);

-- name: rate
INSERT INTO feedback (tenant, query_id, score, comment, event_time)
VALUES (:tenant, :query_id, :score, :comment, :event_time)
ON CONFLICT (tenant, query_id) DO UPDATE
SET score = excluded.score, comment = excluded.comment, event_time = excluded.event_time;

-- name: active_by_ids
SELECT record.*, feedback.score FROM record
LEFT JOIN feedback ON feedback.tenant = record.tenant AND feedback.query_id = record.query_id
WHERE record.tenant = :tenant AND record.owner = :owner AND record.kind = :kind
  AND record.superseded_by IS NULL
  AND record.id IN (SELECT value FROM json_each(:ids));

-- name: search_text
SELECT record.*, feedback.score FROM (
    SELECT record.row, bm25(record_text) AS bm25 FROM record_text
    JOIN record ON record.row = record_text.rowid
    WHERE record_text MATCH :match AND record.tenant = :tenant AND record.owner = :owner
      AND record.kind = :kind AND record.superseded_by IS NULL
    ORDER BY bm25 LIMIT :limit
) AS best
JOIN record ON record.row = best.row
LEFT JOIN feedback ON feedback.tenant = record.tenant AND feedback.query_id = record.query_id
ORDER BY best.bm25;

-- name: search_waiting_text
SELECT record.*, feedback.score FROM record_text
JOIN record ON record.row = record_text.rowid
LEFT JOIN feedback ON feedback.tenant = record.tenant AND feedback.query_id = record.query_id
WHERE record_text MATCH :match AND record.tenant = :tenant AND record.owner = :owner
  AND record.kind = :kind AND record.superseded_by IS NULL AND record.index_state = 0
  AND record_text.rowid >= (SELECT min(row) FROM record
                            WHERE tenant = :tenant AND index_state = 0)
ORDER BY bm25(record_text) LIMIT :limit;

-- name: has_waiting
SELECT EXISTS (SELECT 1 FROM record WHERE tenant = :tenant AND index_state = 0 AND kind = :kind
               AND owner = :owner);

-- name: waiting
SELECT record.id, record.row, record.topic, record.content,
       CASE WHEN vector.embedder = :embedder THEN vector.data END AS vector
FROM record LEFT JOIN vector ON vector.record = record.row
WHERE record.tenant = :tenant AND record.index_state = 0
ORDER BY record.row LIMIT :limit;

-- name: to_remove
SELECT id FROM record WHERE tenant = :tenant AND index_state = 2 LIMIT :limit;

-- name: mark_indexed
UPDATE record SET index_state = 1 WHERE tenant = :tenant AND row = :row AND index_state = 0;

-- name: mark_removed
UPDATE record SET index_state = 3 WHERE tenant = :tenant AND id = :id AND index_state = 2;

-- name: keep_vector
INSERT INTO vector (record, embedder, data) VALUES (:row, :embedder, :data)
ON CONFLICT (record) DO UPDATE SET embedder = excluded.embedder, data = excluded.data;

-- name: all_waiting
UPDATE record SET index_state = 0
WHERE tenant = :tenant AND superseded_by IS NULL AND index_state = 1
  AND row BETWEEN :first AND :last;

-- name: last_row
SELECT coalesce(max(row), 0) FROM record;

-- name: wait_again
UPDATE record SET index_state = 0 WHERE tenant = :tenant AND id = :id AND index_state = 1;

-- name: indexed_ids
SELECT id FROM record WHERE tenant = :tenant AND index_state = 1;

-- name: sample_indexed
SELECT record.id, record.row, record.topic, record.content, vector.data AS vector
FROM record JOIN vector ON vector.record = record.row
WHERE record.row IN (SELECT row FROM record WHERE tenant = :tenant AND index_state = 1
                     ORDER BY random() LIMIT :limit);

-- name: counts
SELECT (SELECT count(*) FROM record WHERE tenant = :tenant) AS records,
       (SELECT count(*) FROM record WHERE tenant = :tenant AND index_state = 0) AS waiting,
       (SELECT count(*) FROM record WHERE tenant = :tenant AND index_state = 2)
         + (SELECT count(*) FROM record WHERE tenant = :tenant AND index_state = 3) AS out;
