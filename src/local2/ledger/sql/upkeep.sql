-- name: add_access
INSERT INTO access (record, tenant, times, last)
SELECT row, tenant, :times, :last FROM record WHERE +tenant = :tenant AND row = :row
ON CONFLICT (record) DO UPDATE SET times = access.times + excluded.times, last = max(access.last, excluded.last);

-- name: next_place_of_facts
SELECT scope, owner FROM record INDEXED BY record_facts
WHERE tenant = :tenant AND place > :after AND kind = 'fact' AND superseded_by IS NULL
ORDER BY place LIMIT 1;

-- name: count_facts
SELECT count(*) AS facts FROM record INDEXED BY record_facts
WHERE tenant = :tenant AND place = :place AND kind = 'fact' AND superseded_by IS NULL;

-- name: rows_of_facts
SELECT row FROM record INDEXED BY record_facts
WHERE tenant = :tenant AND place = :place AND kind = 'fact' AND superseded_by IS NULL AND row > :after
  AND pinned IS NOT 1
ORDER BY row LIMIT :limit;

-- name: facts_at
SELECT record.row, record.id, record.scope, record.owner, record.folded_topic AS topic,
       CASE WHEN length(record.content) <= :longest THEN record.content ELSE '' END AS content,
       record.memory_type, record.durability, record.importance, record.source_class, record.stated_by,
       record.agent, record.session_id, record.event_time,
       json_type(record.metadata, '$.extracted_from') IS NOT NULL AS extracted,
       ifnull(access.times - access.weighed, 0) AS recalls, access.last AS recalled_at
FROM json_each(:rows) AS wanted
CROSS JOIN record ON record.row = wanted.value
LEFT JOIN access ON access.record = record.row AND +access.tenant = :tenant
WHERE +record.tenant = :tenant AND record.kind = 'fact' AND record.superseded_by IS NULL
ORDER BY wanted.key;

-- name: contradictions
SELECT wanted.value AS newer, record.row AS older FROM json_each(:ids) AS wanted
CROSS JOIN relation ON relation.tenant = :tenant AND relation.source = wanted.value
     AND relation.type = 'contradicts'
CROSS JOIN record ON record.tenant = relation.tenant AND record.id = relation.target
WHERE record.kind = 'fact' AND record.superseded_by IS NULL
ORDER BY wanted.key, record.row;

-- name: vectors_at
SELECT record.row, vector.embedder, vector.data FROM json_each(:rows) AS wanted
CROSS JOIN record ON record.row = wanted.value
CROSS JOIN vector ON vector.record = record.row
WHERE +record.tenant = :tenant;

-- name: change_importance
UPDATE record SET importance = :after
WHERE tenant = :tenant AND id = :id AND superseded_by IS NULL AND importance = :before;

-- name: weigh_recalls
UPDATE access SET weighed = min(times, weighed + :recalls)
WHERE record = :row AND +tenant = :tenant;

-- name: sources_of
SELECT ifnull(json_extract(metadata, '$.extracted_from'), '[]') AS messages FROM record
WHERE tenant = :tenant AND id = :id;

-- name: keep_sources
UPDATE record SET metadata = json_set(metadata, '$.extracted_from', json(:messages))
WHERE tenant = :tenant AND id = :id;

-- name: targets_of
SELECT target FROM relation WHERE tenant = :tenant AND source = :id AND type = :type;

-- name: begin_consolidation
INSERT INTO consolidation (tenant, run, began_at) VALUES (:tenant, :run, :began_at);

-- name: end_consolidation
UPDATE consolidation SET ended_at = :ended_at, changed = :changed, failed = :failed
WHERE tenant = :tenant AND run = :run;

-- name: last_consolidation
SELECT run, began_at, ended_at, changed, failed FROM consolidation INDEXED BY consolidation_begun
WHERE tenant = :tenant AND began_at <= :now ORDER BY began_at DESC LIMIT 1;
