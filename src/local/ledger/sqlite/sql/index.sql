-- name: waiting_places
WITH RECURSIVE waits (place) AS (
    SELECT min(place) FROM record INDEXED BY record_waiting
    WHERE tenant = :tenant AND index_state = 0 AND place > :after
    UNION ALL
    SELECT (SELECT min(place) FROM record INDEXED BY record_waiting
            WHERE tenant = :tenant AND index_state = 0 AND place > waits.place)
    FROM waits WHERE waits.place IS NOT NULL
)
SELECT place FROM waits WHERE place IS NOT NULL LIMIT :limit;

-- name: waiting_rows
SELECT row FROM record INDEXED BY record_waiting
WHERE tenant = :tenant AND index_state = 0 AND place = :place
  AND row NOT IN (SELECT value FROM json_each(:but))
ORDER BY row DESC LIMIT :limit;

-- name: waiting
SELECT record.id, record.row, record.kind, record.topic, record.label,
       substr(record.content, 1, 1000) AS content,
       before.label AS before_label, substr(before.content, -300) AS before,
       CASE WHEN vector.embedder = :embedder THEN vector.data END AS vector
FROM json_each(:rows) AS wanted
CROSS JOIN record ON record.row = wanted.value
LEFT JOIN vector ON vector.record = record.row
LEFT JOIN record AS before ON before.row = CASE WHEN vector.embedder IS NOT :embedder THEN (
     SELECT max(earlier.row) FROM record AS earlier INDEXED BY record_session
     WHERE earlier.tenant = record.tenant AND earlier.owner = record.owner
       AND earlier.session_id = record.session_id
       AND earlier.row < ifnull(record.stands_at, record.row)
       AND earlier.kind IN ('chat_message', 'tool_output')) END
WHERE +record.tenant = :tenant
ORDER BY wanted.key;

-- name: to_remove
SELECT id FROM record INDEXED BY record_removing
WHERE tenant = :tenant AND index_state = 2 LIMIT :limit;

-- name: mark_indexed
UPDATE record SET index_state = 1 WHERE tenant = :tenant AND row = :row AND index_state = 0;

-- name: mark_removed
UPDATE record SET index_state = 3 WHERE tenant = :tenant AND id = :id AND index_state = 2;

-- name: keep_vector
INSERT INTO vector (record, embedder, data) VALUES (:row, :embedder, :data)
ON CONFLICT (record) DO UPDATE SET embedder = excluded.embedder, data = excluded.data;

-- name: all_waiting
UPDATE record SET index_state = 0
WHERE +tenant = :tenant AND superseded_by IS NULL AND index_state = 1
  AND row BETWEEN :first AND :last;

-- name: last_row
SELECT coalesce(max(row), 0) AS last FROM record;

-- name: wait_again
UPDATE record SET index_state = 0 WHERE tenant = :tenant AND id = :id AND index_state = 1;

-- name: indexed_ids
SELECT id FROM record WHERE tenant = :tenant AND index_state = 1;

-- name: sample_indexed
SELECT record.id, record.row, record.kind, record.topic, record.label, '' AS content,
       NULL AS before, vector.data AS vector
FROM record JOIN vector ON vector.record = record.row
WHERE record.row IN (SELECT row FROM record WHERE tenant = :tenant AND index_state = 1
                     ORDER BY random() LIMIT :limit);

-- name: count_indexed
SELECT count(*)
       - (SELECT count(*) FROM record INDEXED BY record_queue
          WHERE tenant = :tenant AND index_state = 0)
       - (SELECT count(*) FROM record INDEXED BY record_removing
          WHERE tenant = :tenant AND index_state = 2)
       - (SELECT count(*) FROM record INDEXED BY record_out
          WHERE tenant = :tenant AND index_state = 3) AS indexed
FROM record WHERE tenant = :tenant;
