-- The records that were shown, the other records of their turns, and the sources of the former.
-- name: shown
SELECT id, substr(content, 1, :characters) AS content FROM record
WHERE tenant = :tenant AND (:turn IS NULL OR turn IS NOT :turn) AND id IN (
    SELECT value FROM json_each(:ids)
    UNION
    SELECT relation.target FROM json_each(:ids) AS wanted
    CROSS JOIN relation ON relation.tenant = :tenant AND relation.source = wanted.value
         AND relation.type = :derived_from
    UNION
    SELECT other.id FROM json_each(:ids) AS wanted
    CROSS JOIN record AS one ON one.tenant = :tenant AND one.id = wanted.value
    CROSS JOIN record AS other INDEXED BY record_turn
         ON other.tenant = :tenant AND other.turn = one.turn
);

-- name: annotate
UPDATE record
SET metadata = json_patch(json_remove(metadata, '$.recalled', '$.unanswered'), :metadata)
WHERE tenant = :tenant AND id = :id;
