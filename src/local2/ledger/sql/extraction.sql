-- name: messages_before
SELECT record.* FROM record
WHERE +tenant = :tenant AND row IN (
    SELECT row FROM record AS earlier INDEXED BY record_standing
    WHERE earlier.tenant = :tenant AND earlier.owner = :owner AND earlier.session_id = :session_id
      AND earlier.kind IN ('chat_message', 'tool_output', 'transcript')
      AND earlier.kind = 'chat_message' AND earlier.superseded_by IS NULL
      AND ifnull(earlier.stands_at, earlier.row) < :position
    ORDER BY ifnull(earlier.stands_at, earlier.row) DESC LIMIT :limit)
ORDER BY ifnull(stands_at, row);

-- name: messages_from
SELECT record.* FROM record INDEXED BY record_standing
WHERE tenant = :tenant AND owner = :owner AND session_id = :session_id
  AND kind IN ('chat_message', 'tool_output', 'transcript')
  AND kind = 'chat_message' AND superseded_by IS NULL
  AND ifnull(stands_at, row) >= :position
ORDER BY ifnull(stands_at, row) LIMIT :limit;

-- Of all older versions: one that was edited at once was never read.
-- name: extracted_from_older
WITH RECURSIVE older (id) AS (
    SELECT id FROM record INDEXED BY record_replaced
    WHERE tenant = :tenant AND superseded_by = :message
    UNION
    SELECT record.id FROM older
    CROSS JOIN record INDEXED BY record_replaced
         ON record.tenant = :tenant AND record.superseded_by = older.id)
SELECT fact.id FROM older
CROSS JOIN relation INDEXED BY relation_target
     ON relation.tenant = :tenant AND relation.target = older.id AND relation.type = 'derived_from'
CROSS JOIN record AS fact ON fact.tenant = :tenant AND fact.id = relation.source
WHERE fact.kind = 'fact' AND fact.superseded_by IS NULL
  AND NOT EXISTS (
      SELECT 1 FROM relation AS other
      CROSS JOIN record AS source ON source.tenant = :tenant AND source.id = other.target
      WHERE other.tenant = :tenant AND other.source = fact.id AND other.type = 'derived_from'
        AND source.superseded_by IS NULL);
