-- OR IGNORE, because a statement that may abort runs in a savepoint, at which FTS5 writes its index.
-- name: add_task
INSERT OR IGNORE INTO task (tenant, kind, record, place)
SELECT tenant, :kind, row, place FROM record WHERE +tenant = :tenant AND row = :row;

-- name: task_places
WITH RECURSIVE waits (place) AS (
    SELECT min(place) FROM task INDEXED BY task_turn
    WHERE tenant = :tenant AND kind = :kind AND state = 'waits' AND place > :after
    UNION ALL
    SELECT (SELECT min(place) FROM task INDEXED BY task_turn
            WHERE tenant = :tenant AND kind = :kind AND state = 'waits' AND place > waits.place)
    FROM waits WHERE waits.place IS NOT NULL
)
SELECT place FROM waits
WHERE place IS NOT NULL AND EXISTS (
    SELECT 1 FROM task INDEXED BY task_turn
    WHERE tenant = :tenant AND kind = :kind AND state = 'waits' AND place = waits.place
      AND record NOT IN (SELECT value FROM json_each(:exclude)))
LIMIT :limit;

-- part: waiting_tasks
SELECT record FROM task INDEXED BY task_turn
WHERE tenant = :tenant AND kind = :kind AND state = 'waits' AND place = :place
  AND record NOT IN (SELECT value FROM json_each(:exclude))

-- name: newest_tasks
{waiting_tasks}
ORDER BY record DESC LIMIT :limit;

-- name: oldest_tasks
{waiting_tasks}
ORDER BY record LIMIT :limit;

-- name: due_task
SELECT record FROM task INDEXED BY task_due
WHERE tenant = :tenant AND kind = :kind AND state = 'later'
  AND NOT (not_before > :now AND not_before <= :latest)
  AND record NOT IN (SELECT value FROM json_each(:exclude))
ORDER BY not_before LIMIT 1;

-- name: next_due
SELECT min(not_before) AS due FROM task INDEXED BY task_due
WHERE tenant = :tenant AND kind = :kind AND state = 'later';

-- name: tasks
SELECT task.record, ifnull(task.id, record.id) AS id, task.attempts FROM json_each(:rows) AS wanted
CROSS JOIN task ON task.tenant = :tenant AND task.kind = :kind AND task.record = wanted.value
CROSS JOIN record ON record.row = task.record AND +record.tenant = :tenant
ORDER BY wanted.key;

-- name: finish_task
DELETE FROM task WHERE tenant = :tenant AND kind = :kind AND record = :row;

-- name: active_row
SELECT row FROM record WHERE row = :row AND +tenant = :tenant AND superseded_by IS NULL;

-- name: drop_tasks
DELETE FROM task
WHERE tenant = :tenant AND kind IN (SELECT value FROM json_each(:kinds))
  AND record IN (SELECT value FROM json_each(:rows));

-- name: fail_task
UPDATE task SET state = :state, attempts = attempts + 1, not_before = :not_before, error = :error
WHERE tenant = :tenant AND kind = :kind AND record = :row;

-- name: try_again
UPDATE task SET state = 'waits', attempts = attempts - 1
WHERE tenant = :tenant AND kind = :kind AND record IN (
    SELECT record FROM task INDEXED BY task_turn
    WHERE tenant = :tenant AND kind = :kind AND state = 'aside'
      AND (:rows IS NULL OR record IN (SELECT value FROM json_each(:rows)))
    LIMIT :limit);

-- name: discard_tasks
DELETE FROM task
WHERE tenant = :tenant AND kind = :kind AND record IN (
    SELECT record FROM task INDEXED BY task_turn
    WHERE tenant = :tenant AND kind = :kind AND state = 'aside'
      AND (:rows IS NULL OR record IN (SELECT value FROM json_each(:rows)))
    LIMIT :limit);

-- name: rows_with_ids
SELECT record.row FROM json_each(:ids) AS wanted
CROSS JOIN record ON record.tenant = :tenant AND record.id = wanted.value;

-- name: failed_tasks
SELECT task.kind, ifnull(task.id, record.id) AS id, record.kind AS record_kind, task.attempts,
       task.not_before AS due, task.error
FROM task INDEXED BY task_turn
CROSS JOIN record ON record.row = task.record AND +record.tenant = :tenant
WHERE task.tenant = :tenant AND task.kind = :kind AND task.state = :state
ORDER BY task.place, task.record LIMIT :limit;

-- name: count_tasks
SELECT kind, count(*) AS tasks, count(*) FILTER (WHERE state = 'aside') AS aside FROM task INDEXED BY task_turn
WHERE tenant = :tenant GROUP BY kind;

-- name: errors_of_tasks
SELECT DISTINCT error FROM (
    SELECT error FROM task INDEXED BY task_turn
    WHERE tenant = :tenant AND kind = :kind AND state = 'aside' LIMIT :read)
LIMIT :limit;
