-- name: append_output
INSERT INTO tool_output (tenant, owner, key, first, until, last, text)
SELECT :tenant, :owner, :key, :first, :until, :last, :text
WHERE (:first, 0) = (SELECT coalesce(max(until), 0), coalesce(max(last), 0) FROM tool_output
                     WHERE tenant = :tenant AND owner = :owner AND key = :key);

-- name: same_part
SELECT 1 FROM tool_output
WHERE tenant = :tenant AND owner = :owner AND key = :key
  AND first = :first AND last = :last AND text = :text;

-- name: output_size
SELECT max(until) AS total, max(last) AS complete FROM tool_output
WHERE tenant = :tenant AND owner = :owner AND key = :key
GROUP BY key;

-- name: output_parts
SELECT first, text FROM tool_output
WHERE tenant = :tenant AND owner = :owner AND key = :key AND first < :until AND until > :first
ORDER BY first;
