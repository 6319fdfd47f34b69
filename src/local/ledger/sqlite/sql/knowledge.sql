-- name: stating
SELECT record.id FROM relation INDEXED BY relation_target
CROSS JOIN record ON record.tenant = relation.tenant AND record.id = relation.source
WHERE relation.tenant = :tenant AND relation.target = :triplet AND record.superseded_by IS NULL
LIMIT 1;

-- Links of the caller's own count: those of others use up nothing.
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
