-- name: to_index
SELECT record.id, record.row, record.kind, record.topic, record.label, record.queries,
       substr(record.content, 1, 1000) AS content,
       before.label AS before_label, substr(before.content, -300) AS before,
       vector.data AS vector
FROM json_each(:rows) AS wanted
CROSS JOIN task ON task.tenant = :tenant AND task.kind = :kind AND task.record = wanted.value
CROSS JOIN record ON record.row = wanted.value
LEFT JOIN vector ON vector.record = record.row AND vector.embedder = :embedder
LEFT JOIN record AS before ON +before.tenant = :tenant AND before.row = CASE WHEN vector.embedder IS NULL THEN (
     SELECT earlier.row FROM record AS earlier INDEXED BY record_standing
     WHERE earlier.tenant = record.tenant AND earlier.owner = record.owner
       AND earlier.session_id = record.session_id AND earlier.superseded_by IS NULL
       AND earlier.kind IN ('chat_message', 'tool_output', 'transcript')
       AND earlier.kind != 'transcript'
       AND ifnull(earlier.stands_at, earlier.row) < ifnull(record.stands_at, record.row)
     ORDER BY ifnull(earlier.stands_at, earlier.row) DESC LIMIT 1) END
WHERE +record.tenant = :tenant
ORDER BY wanted.key;

-- name: keep_vector
INSERT INTO vector (record, embedder, data)
SELECT row, :embedder, :data FROM record WHERE +tenant = :tenant AND row = :row AND id = :id
ON CONFLICT (record, embedder) DO UPDATE SET data = excluded.data;

-- Examines a few of the tenant's own vectors; those of other tenants do not count.
-- name: vector_size
SELECT length(data) AS size FROM vector
WHERE embedder = :embedder AND record IN (
      SELECT row FROM record WHERE tenant = :tenant ORDER BY id DESC LIMIT 100)
LIMIT 1;

-- name: vectors_of_others
SELECT max(record) AS last FROM vector
WHERE embedder NOT IN (SELECT value FROM json_each(:embedders));

-- name: drop_vectors_of_others
DELETE FROM vector
WHERE record IN (SELECT value FROM json_each(:rows))
  AND embedder NOT IN (SELECT value FROM json_each(:embedders))
  AND EXISTS (SELECT 1 FROM record WHERE record.row = vector.record AND +record.tenant = :tenant);

-- name: withdraw_kind
DELETE FROM task
WHERE tenant = :tenant AND kind = :kind AND record IN (
    SELECT record FROM task INDEXED BY task_turn
    WHERE tenant = :tenant AND kind = :kind AND state = :state LIMIT :limit);

-- name: index_aside
INSERT OR IGNORE INTO task (tenant, kind, record, place)
SELECT tenant, 'index', row, place FROM record
WHERE +tenant = :tenant AND superseded_by IS NULL AND row IN (
    SELECT record FROM task INDEXED BY task_turn
    WHERE tenant = :tenant AND kind = 'embed' AND state = 'aside' LIMIT :limit);

-- name: count_kind
SELECT count(*) AS waiting FROM task INDEXED BY task_turn
WHERE tenant = :tenant AND kind = :kind AND state IN ('waits', 'later');

-- name: unindex_superseded
INSERT OR IGNORE INTO task (tenant, kind, record, place, id)
SELECT tenant, 'unindex', row, place, :id FROM record
WHERE +tenant = :tenant AND row = :row AND superseded_by IS NOT NULL;

-- part: searched
superseded_by IS NULL AND kind != 'transcript' AND memory_type IS NOT 'task'

-- name: index_active
INSERT OR IGNORE INTO task (tenant, kind, record, place)
SELECT tenant, 'index', row, place FROM record
WHERE +tenant = :tenant AND row = :row AND {searched};

-- name: queue_all
INSERT INTO task (tenant, kind, record, place)
SELECT tenant, 'index', row, place FROM record
WHERE +tenant = :tenant AND {searched}
  AND row BETWEEN :first AND :last
ON CONFLICT (tenant, kind, record) DO UPDATE
SET state = 'waits', attempts = 0, not_before = NULL, error = NULL WHERE task.state != 'waits';

-- name: last_row
SELECT coalesce(max(row), 0) AS last FROM record;

-- name: queue_one
INSERT OR IGNORE INTO task (tenant, kind, record, place)
SELECT tenant, :kind, row, place FROM record
WHERE tenant = :tenant AND id = :id AND {searched};

-- What the index should hold.
-- part: indexed
record WHERE tenant = :tenant AND {searched} AND NOT EXISTS (
      SELECT 1 FROM task
      WHERE task.tenant = :tenant AND task.kind = 'index' AND task.record = record.row)

-- name: indexed_ids
SELECT id FROM {indexed};

-- name: sample_indexed
SELECT record.id, record.row, record.kind, record.topic, record.label, '' AS content, '[]' AS queries,
       NULL AS before, vector.data AS vector
FROM record JOIN vector ON vector.record = record.row AND vector.embedder = :embedder
WHERE +record.tenant = :tenant AND record.row IN (
      SELECT row FROM {indexed} ORDER BY random() LIMIT :limit);
