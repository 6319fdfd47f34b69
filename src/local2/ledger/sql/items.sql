-- name: item_state
SELECT item.record, record.content AS text, record.session_id, item.updated_at FROM item
LEFT JOIN record ON record.tenant = :tenant AND record.id = item.record AND record.superseded_by IS NULL
WHERE item.tenant = :tenant AND item.owner = :owner AND item.collection = :collection
  AND item.namespace = :namespace AND item.key = :key;

-- name: put_item
INSERT INTO item (tenant, owner, collection, namespace, key, value, data, record, session_id,
                  created_at, updated_at)
VALUES (:tenant, :owner, :collection, :namespace, :key, :value, :data, :record, :session_id,
        :created_at, :updated_at)
ON CONFLICT (tenant, owner, collection, namespace, key) DO UPDATE
SET value = excluded.value, data = excluded.data, record = excluded.record,
    session_id = excluded.session_id, created_at = min(item.created_at, excluded.created_at),
    updated_at = excluded.updated_at;

-- name: item_at
SELECT namespace, key, value, data, record, created_at, updated_at FROM item
WHERE tenant = :tenant AND owner = :owner AND collection = :collection
  AND namespace = :namespace AND key = :key;

-- name: items_within
SELECT namespace, key, value, data, record, created_at, updated_at FROM item INDEXED BY item_key
WHERE tenant = :tenant AND owner = :owner AND collection = :collection
  AND namespace >= :namespace AND namespace < :beyond
ORDER BY updated_at DESC, row DESC;

-- name: items_in
SELECT namespace, key, value, data, record, created_at, updated_at FROM item INDEXED BY item_key
WHERE tenant = :tenant AND owner = :owner AND collection = :collection
  AND namespace = :namespace AND (:before IS NULL OR key < :before)
ORDER BY key DESC;

-- name: items_of_records
SELECT item.namespace, item.key, item.value, item.data, item.record, item.created_at, item.updated_at
FROM json_each(:ids) AS wanted
CROSS JOIN item INDEXED BY item_record ON item.tenant = :tenant AND item.record = wanted.value
WHERE item.owner = :owner AND item.collection = :collection;

-- Takes one index lookup per namespace, however many items it has.
-- name: item_namespaces
WITH RECURSIVE found (namespace) AS (
    SELECT min(namespace) FROM item
    WHERE tenant = :tenant AND owner = :owner AND collection = :collection
      AND namespace >= :namespace AND namespace < :beyond
    UNION ALL
    SELECT (SELECT min(item.namespace) FROM item
            WHERE item.tenant = :tenant AND item.owner = :owner AND item.collection = :collection
              AND item.namespace > found.namespace AND item.namespace < :beyond)
    FROM found WHERE found.namespace IS NOT NULL
)
SELECT namespace FROM found WHERE namespace IS NOT NULL;

-- name: drop_item
DELETE FROM item WHERE tenant = :tenant AND owner = :owner AND collection = :collection
  AND namespace = :namespace AND key = :key;

-- name: drop_items_within
DELETE FROM item WHERE tenant = :tenant AND owner = :owner AND collection = :collection
  AND namespace >= :namespace AND namespace < :beyond
RETURNING record;

-- name: drop_items_of
DELETE FROM item WHERE tenant = :tenant AND row IN (
    SELECT row FROM item
    WHERE tenant = :tenant AND owner = :owner AND (:session_id IS NULL OR session_id = :session_id)
    LIMIT :limit);

-- name: drop_items_found_by
DELETE FROM item
WHERE tenant = :tenant AND record IS NOT NULL AND record IN (SELECT value FROM json_each(:ids));
