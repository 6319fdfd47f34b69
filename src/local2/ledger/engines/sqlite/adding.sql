-- part: columns
id, kind, scope, owner, topic, folded_topic, label, role, source_ref, memory_type, durability,
    importance, content, metadata, agent, session_id, query_id, turn, stands_at, alias, pending,
    source_class, stated_by, summary, keywords, queries, confidence, event_time, score,
    superseded_by, retired_at, retired_why, pairs, stored_at, pinned

-- part: values
:id, :kind, :scope, :owner, :topic, :folded_topic, :label, :role, :source_ref, :memory_type,
    :durability, :importance, :content, :metadata, :agent, :session_id, :query_id, :turn,
    :stands_at, :alias, :pending, :source_class, :stated_by, :summary, :keywords, :queries,
    :confidence, :event_time, :score, :superseded_by, :retired_at, :retired_why, :pairs,
    :stored_at, :pinned

-- name: insert_record
INSERT INTO record (tenant, {columns}, revision)
VALUES (:tenant, {values},
        (SELECT 1 + ifnull(max(revision), 0) FROM record
         WHERE tenant = :tenant AND place = 'p' || hex(:tenant) || 'x' || substr(:scope, 1, 1)
               || hex(:owner) || substr(:kind, 1, 2) || 'x'))
ON CONFLICT (tenant, id) DO NOTHING;

-- Several records are staged in memory and added by one statement: before each statement that inserts
-- records, FTS5 writes the words of the previous ones to its index.
-- name: staging
CREATE TEMP TABLE IF NOT EXISTS new_record ({columns});

-- name: stage_record
INSERT INTO temp.new_record ({columns}) VALUES ({values});

-- Records of a place that are added together get one revision, so a reader sees all or none of them.
-- name: insert_records
INSERT INTO record (tenant, {columns}, revision)
SELECT :tenant, new_record.*,
       (SELECT 1 + ifnull(max(revision), 0) FROM record
        WHERE tenant = :tenant AND place = 'p' || hex(:tenant) || 'x' || substr(new_record.scope, 1, 1)
              || hex(new_record.owner) || substr(new_record.kind, 1, 2) || 'x')
FROM temp.new_record WHERE true
ON CONFLICT (tenant, id) DO NOTHING;

-- name: clear_staging
DELETE FROM temp.new_record;

-- One writer adds all rows, and this costs less than RETURNING.
-- name: rows_added
SELECT id, row FROM record WHERE +tenant = :tenant AND row > :last;

-- name: keep_features
INSERT INTO feature (record, stems, length, density, firsthand, timed, wish)
SELECT row, :stems, :length, :density, :firsthand, :timed, :wish FROM record
WHERE tenant = :tenant AND row = :record
ON CONFLICT DO NOTHING;

-- OR IGNORE, because a statement that may abort runs in a savepoint, at which FTS5 writes its index.
-- name: add_tasks
INSERT OR IGNORE INTO task (tenant, kind, record, place)
SELECT tenant, :kind, row, place FROM json_each(:rows) AS new
CROSS JOIN record ON record.row = new.value AND +record.tenant = :tenant;
