-- name: stating
SELECT record.id FROM relation INDEXED BY relation_target
CROSS JOIN record ON record.tenant = relation.tenant AND record.id = relation.source
WHERE relation.tenant = :tenant AND relation.target = :triplet AND record.superseded_by IS NULL
LIMIT 1;

-- Only links to facts of the same owner count towards the limit.
-- name: naming
SELECT record.id FROM relation INDEXED BY relation_target
CROSS JOIN record ON record.tenant = relation.tenant AND record.id = relation.source
WHERE relation.tenant = :tenant AND relation.target = :entity AND relation.source != :id
  AND record.superseded_by IS NULL
  AND (SELECT count(*) FROM (
       SELECT 1 FROM relation AS link INDEXED BY relation_target
       CROSS JOIN record AS newer ON newer.tenant = link.tenant AND newer.id = link.source
            AND newer.scope = :scope AND newer.owner = :owner
       WHERE link.tenant = :tenant AND link.target = record.id LIMIT :most)) < :most
ORDER BY relation.source DESC LIMIT :limit;

-- The names in the oldest fact that names each entity, which determines the spelling.
-- name: spellings
SELECT wanted.value AS entity, json_extract(record.metadata, '$.triplet.subject') AS subject,
       json_extract(record.metadata, '$.triplet.object') AS object
FROM json_each(:entities) AS wanted
CROSS JOIN record ON record.tenant = :tenant AND record.id = (
     SELECT relation.source FROM relation INDEXED BY relation_target
     CROSS JOIN record AS naming ON naming.tenant = :tenant AND naming.id = relation.source
     WHERE relation.tenant = :tenant AND relation.target = wanted.value
       AND naming.superseded_by IS NULL
       AND json_type(naming.metadata, '$.triplet.subject') IS NOT NULL
     ORDER BY relation.source LIMIT 1);

-- name: stated_aliases
SELECT wanted.value AS alias FROM json_each(:aliases) AS wanted
WHERE EXISTS (SELECT 1 FROM relation INDEXED BY relation_target
              WHERE relation.tenant = :tenant AND relation.target = wanted.value);

-- name: aliases
SELECT json_extract(record.metadata, '$.triplet.subject') AS subject,
       json_extract(record.metadata, '$.triplet.object') AS object
FROM relation INDEXED BY relation_target
CROSS JOIN record ON record.tenant = relation.tenant AND record.id = relation.source
WHERE relation.tenant = :tenant AND relation.target = :alias AND record.superseded_by IS NULL
  AND json_type(record.metadata, '$.triplet.subject') IS NOT NULL
ORDER BY relation.source DESC LIMIT :limit;

-- name: facts_naming
SELECT record.* FROM record
WHERE tenant = :tenant AND superseded_by IS NULL
  AND json_type(metadata, '$.triplet.subject') IS NOT NULL
  AND id IN (
      SELECT relation.source FROM json_each(:entities) AS wanted
      CROSS JOIN relation INDEXED BY relation_target
           ON relation.tenant = :tenant AND relation.target = wanted.value)
ORDER BY row DESC LIMIT :limit;

-- name: latest_stated
SELECT record.* FROM json_each(:places) AS wanted
CROSS JOIN record ON record.row IN (
     SELECT row FROM record INDEXED BY record_place
     WHERE tenant = :tenant AND place = wanted.value AND superseded_by IS NULL
     ORDER BY event_time DESC, row DESC LIMIT :most)
WHERE +record.tenant = :tenant AND json_type(record.metadata, '$.triplet.subject') IS NOT NULL
ORDER BY record.row DESC LIMIT :limit;
