-- name: record_by_id
SELECT * FROM record WHERE tenant = :tenant AND id = :id;

-- name: relations_of
SELECT relation.type AS relation_type, 0 AS incoming, record.* FROM relation
CROSS JOIN record ON record.tenant = :tenant AND record.id = relation.target
WHERE relation.tenant = :tenant AND relation.source = :id
  AND relation.type IN (SELECT value FROM json_each(:types))
UNION ALL
SELECT relation.type AS relation_type, 1 AS incoming, record.*
FROM relation INDEXED BY relation_target
CROSS JOIN record ON record.tenant = :tenant AND record.id = relation.source
WHERE relation.tenant = :tenant AND relation.target = :id
  AND +relation.type IN (SELECT value FROM json_each(:types));

-- name: unrelate
DELETE FROM relation
WHERE tenant = :tenant AND source = :source AND type = :type AND target = :target;
