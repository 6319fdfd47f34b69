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

-- The end of a new relation that has as many as it may have.
-- name: full_end
SELECT ends.id FROM (SELECT :source AS id, 1 AS turn UNION ALL SELECT :target, 2) AS ends
WHERE NOT EXISTS (SELECT 1 FROM relation WHERE tenant = :tenant AND source = :source AND type = :type
                  AND target = :target)
  AND (SELECT count(*) FROM relation WHERE tenant = :tenant AND source = ends.id
       AND type IN (SELECT value FROM json_each(:types)))
    + (SELECT count(*) FROM relation INDEXED BY relation_target WHERE tenant = :tenant AND target = ends.id
       AND +type IN (SELECT value FROM json_each(:types))) >= :most
ORDER BY ends.turn LIMIT 1;

-- name: unrelate
DELETE FROM relation
WHERE tenant = :tenant AND source = :source AND type = :type AND target = :target;

-- name: forget_denials
DELETE FROM relation WHERE tenant = :tenant AND target = :id AND +type = 'contradicts' AND EXISTS (
    SELECT 1 FROM record
    WHERE record.tenant = :tenant AND record.id = relation.source AND record.kind = 'chat_message');
