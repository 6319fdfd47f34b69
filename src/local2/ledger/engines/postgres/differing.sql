-- Statements of the ledger's operations that PostgreSQL reads otherwise than SQLite, or would carry
-- out badly; all others are translated (dialect.py).

-- What others have committed since, whose transactions have all ended, and what left its place.
-- name: version
SELECT pg_current_snapshot()::text AS number,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS settled,
       (SELECT count(*) FROM departure WHERE tenant = :tenant) AS departures;

-- name: used
SELECT coalesce(sum(records), 0)::bigint AS records, coalesce(sum(bytes), 0)::bigint AS bytes
FROM usage WHERE tenant = :tenant;

-- Adds up what changes have added to the usage, of all tenants; see `usage` in schema.sql.
-- name: add_up_usage
WITH changes AS (DELETE FROM usage RETURNING tenant, records, bytes)
INSERT INTO usage (tenant, records, bytes)
SELECT tenant, sum(records), sum(bytes) FROM changes GROUP BY tenant;

-- name: lock_tenant
SELECT pg_advisory_xact_lock(hashtextextended(:tenant, 0));

-- A key that only readers of this ledger know, and which database it is: copies have the same key.
-- name: identity
SELECT key, system_identifier::text || ' ' || pg_database.oid::text AS here
FROM erasure, pg_control_system(), pg_database WHERE datname = current_database();

-- name: database_size
SELECT pg_database_size(current_database()) AS bytes;

-- name: outcome
SELECT pg_xact_status(:transaction::xid8) AS outcome;

-- Says that a stack lives, and forgets those that have been dead for long; see `stack` in schema.sql.
-- name: say_alive
DELETE FROM stack WHERE seen_at < clock_timestamp() - interval '1 hour';
INSERT INTO stack (id, name) VALUES (:stack, :name)
ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp();

-- name: say_goodbye
DELETE FROM stack WHERE id = :stack;

-- name: stacks
SELECT name, began_at, extract(epoch FROM clock_timestamp() - seen_at)::float8 AS silent FROM stack
WHERE NOT is_free(id, NULL) ORDER BY began_at, id;

-- The tables that have twice as many rows as PostgreSQL plans with: it counts them once a minute.
-- name: grown
SELECT relid::regclass::text AS name FROM pg_stat_user_tables JOIN pg_class ON oid = relid
WHERE schemaname = current_schema() AND n_live_tup > greatest(2 * reltuples, 100);

-- The tasks of all tenants that nobody does.
-- name: unclaimed
SELECT DISTINCT tenant, kind FROM task
WHERE (state = 'waits' OR state = 'later' AND not_before <= :now) AND is_free(claimed_by, NULL);

-- Claims the tasks that no other stack claims at the same time.
-- name: tasks
WITH wanted AS (
    SELECT * FROM unnest(translate(:rows, '[]', '{}')::bigint[]) WITH ORDINALITY AS wanted (value, key)
), free AS (
    SELECT task.record FROM wanted
    JOIN task ON task.tenant = :tenant AND task.kind = :kind AND task.record = wanted.value
    WHERE is_free(task.claimed_by, :stack)
    FOR UPDATE OF task SKIP LOCKED
), claimed AS (
    UPDATE task SET claimed_by = :stack FROM free
    WHERE task.tenant = :tenant AND task.kind = :kind AND task.record = free.record
    RETURNING task.record, task.id, task.attempts
)
SELECT claimed.record, coalesce(claimed.id, record.id) AS id, claimed.attempts FROM wanted
JOIN claimed ON claimed.record = wanted.value
JOIN record ON record.row = claimed.record AND record.tenant = :tenant
ORDER BY wanted.key;

-- Chosen once: PostgreSQL would choose again for each task, since it takes thousands for one.
-- name: try_again
WITH chosen AS MATERIALIZED (
    SELECT record FROM task
    WHERE tenant = :tenant AND kind = :kind AND state = 'aside' AND (:rows::text IS NULL
          OR record IN (SELECT * FROM unnest(translate(:rows, '[]', '{}')::bigint[])))
    LIMIT nullif(:limit, -1))
UPDATE task SET state = 'waits', attempts = attempts - 1
WHERE tenant = :tenant AND kind = :kind AND record IN (SELECT record FROM chosen);

-- name: discard_tasks
WITH chosen AS MATERIALIZED (
    SELECT record FROM task
    WHERE tenant = :tenant AND kind = :kind AND state = 'aside' AND (:rows::text IS NULL
          OR record IN (SELECT * FROM unnest(translate(:rows, '[]', '{}')::bigint[])))
    LIMIT nullif(:limit, -1))
DELETE FROM task
WHERE tenant = :tenant AND kind = :kind AND record IN (SELECT record FROM chosen);

-- Another stack may have begun to make vectors, or have let others serve, since the caller asked.
-- name: drop_vectors_of_others
DELETE FROM vector
WHERE vector.tenant = :tenant AND record = ANY(CAST(translate(:rows, '[]', '{}') AS bigint[]))
  AND embedder NOT IN (SELECT jsonb_array_elements_text(CAST(:embedders AS jsonb)))
  AND embedder NOT IN (SELECT name FROM embedder WHERE tenant = :tenant);

-- name: withdraw_kind
WITH chosen AS MATERIALIZED (
    SELECT record FROM task
    WHERE tenant = :tenant AND kind = :kind AND state = :state LIMIT nullif(:limit, -1))
DELETE FROM task
WHERE tenant = :tenant AND kind = :kind AND record IN (SELECT record FROM chosen);

-- name: next_due
SELECT min(not_before) AS due FROM task
WHERE tenant = :tenant AND kind = :kind AND state = 'later' AND is_free(claimed_by, :stack);

-- name: finish_task
DELETE FROM task
WHERE tenant = :tenant AND kind = :kind AND record = :row
  AND (claimed_by IS NULL OR claimed_by = :stack);

-- name: fail_task
UPDATE task
SET state = :state, attempts = attempts + 1, not_before = :not_before, error = :error, claimed_by = NULL
WHERE tenant = :tenant AND kind = :kind AND record = :row
  AND (claimed_by IS NULL OR claimed_by = :stack);

-- name: give_back_tasks
UPDATE task SET claimed_by = NULL
WHERE tenant = :tenant AND kind = :kind AND claimed_by = :stack
  AND record IN (SELECT * FROM unnest(translate(:rows, '[]', '{}')::bigint[]));

-- Where the last turns of a session stand that were delivered before a turn, with what is stored of
-- itself, and after it. A stream that was created anew counts from one again: what it had delivered
-- before is not after anything.
-- name: turns_around
SELECT max(stands) FILTER (WHERE sequence <= :sequence) AS before,
       min(stands) FILTER (WHERE sequence > :sequence) AS after
FROM (SELECT record.stands, delivery.sequence FROM record
      JOIN delivery ON delivery.tenant = :tenant AND delivery.turn = record.turn
      WHERE record.tenant = :tenant AND record.owner = :owner AND record.session_id = :session_id
        AND record.kind IN ('chat_message', 'tool_output', 'transcript')
        AND record.superseded_by IS NULL
        AND delivery.at > :at::timestamptz - interval '1 minute'
      ORDER BY record.stands DESC LIMIT 200) AS last;

-- name: note_delivery
DELETE FROM delivery WHERE tenant = :tenant AND sequence < :sequence - 10000;
INSERT INTO delivery (tenant, turn, sequence, at)
VALUES (:tenant, :turn, :sequence, :at::timestamptz)
ON CONFLICT (tenant, turn) DO NOTHING;

-- name: claim_work
INSERT INTO work (tenant, name, claimed_by) VALUES (:tenant, :name, :stack)
ON CONFLICT (tenant, name) DO UPDATE SET claimed_by = excluded.claimed_by
WHERE is_free(work.claimed_by, excluded.claimed_by);

-- name: give_back_work
DELETE FROM work WHERE tenant = :tenant AND name = :name AND claimed_by = :stack;

-- name: lock_parts
SELECT pg_advisory_xact_lock_shared(hashtextextended(:tenant, 0));
SELECT pg_advisory_xact_lock(hashtextextended(:tenant || ' ' || name, 1))
FROM jsonb_array_elements_text(:locked::jsonb) AS name;

-- name: annotate
UPDATE record
SET metadata = json_patch(json_remove(metadata, '$.recalled', '$.unanswered'), :metadata)
WHERE tenant = :tenant AND id = :id;

-- name: keep_sources
UPDATE record
SET metadata = jsonb_set(metadata::jsonb, '{extracted_from}', :messages::jsonb)::text
WHERE tenant = :tenant AND id = :id;

-- name: rate
INSERT INTO feedback (tenant, owner, query_id, session_id, answer, score, comment, event_time)
VALUES (:tenant, :owner, :query_id, :session_id, :answer, :score, :comment, :event_time)
ON CONFLICT (tenant, about) DO UPDATE
SET score = excluded.score, comment = excluded.comment, event_time = excluded.event_time
WHERE excluded.event_time > feedback.event_time
   OR (:is_just_given = 1 AND excluded.event_time = feedback.event_time);

-- name: around
SELECT here.row, near.row AS near, near.behind, near.stands
FROM unnest(CAST(translate(:rows, '[]', '{}') AS bigint[])) AS wanted (value)
JOIN record AS here ON here.row = wanted.value AND here.kind IN ('chat_message', 'tool_output')
CROSS JOIN LATERAL (
    (SELECT other.row, 1 AS behind, other.stands AS stands
     FROM record AS other
     WHERE other.tenant = :tenant AND other.owner = here.owner
       AND other.session_id = here.session_id AND other.superseded_by IS NULL
       AND other.kind IN ('chat_message', 'tool_output', 'transcript') AND other.kind <> 'transcript'
       AND other.stands > here.stands
     ORDER BY other.stands LIMIT :span)
    UNION ALL
    (SELECT other.row, 0 AS behind, other.stands AS stands
     FROM record AS other
     WHERE other.tenant = :tenant AND other.owner = here.owner
       AND other.session_id = here.session_id AND other.superseded_by IS NULL
       AND other.kind IN ('chat_message', 'tool_output', 'transcript') AND other.kind <> 'transcript'
       AND other.stands < here.stands
     ORDER BY other.stands DESC LIMIT :span)) AS near
WHERE here.tenant = :tenant
ORDER BY near.stands;

-- name: replaced_in_turn
WITH RECURSIVE later (id) AS (
    SELECT :newer
    WHERE EXISTS (SELECT 1 FROM record WHERE tenant = :tenant AND superseded_by = :id)
       OR EXISTS (SELECT 1 FROM relation
                  WHERE tenant = :tenant AND source = :id AND type = 'supersedes')
    UNION
    SELECT step.id FROM later
    CROSS JOIN LATERAL (
         SELECT superseded_by FROM record
         WHERE tenant = :tenant AND record.id = later.id AND superseded_by <> ''
         UNION ALL
         SELECT source FROM relation
         WHERE tenant = :tenant AND target = later.id AND type = 'supersedes') AS step (id))
SELECT 1 FROM later WHERE id = :id LIMIT 1;

-- No other memory is stated to supersede it, but for one that it has replaced since, nor has its
-- user said otherwise since.
-- part: not_outdated
NOT EXISTS (
           SELECT 1 FROM relation
           JOIN record AS newer ON newer.tenant = :tenant AND newer.id = relation.source
           WHERE relation.tenant = :tenant AND relation.target = fact.id
             AND (relation.type = 'supersedes' AND newer.superseded_by IS DISTINCT FROM fact.id
                  OR relation.type = 'contradicts'
                  AND newer.kind = 'chat_message' AND newer.role = 'user'
                  AND newer.stated_by = fact.stated_by AND newer.superseded_by IS NULL))

-- name: important_facts
SELECT record.* FROM jsonb_array_elements_text(:places::jsonb) AS wanted (place)
CROSS JOIN LATERAL (
     SELECT fact.row FROM record AS fact
     WHERE fact.tenant = :tenant AND fact.place = wanted.place
       AND (fact.importance >= :importance OR fact.durability = 'core')
       AND fact.kind = 'fact' AND fact.superseded_by IS NULL
       AND (fact.memory_type IS NULL
            OR fact.memory_type IN (SELECT jsonb_array_elements_text(:types::jsonb)))
       AND {not_outdated}
     ORDER BY fact.importance DESC, fact.row DESC LIMIT :limit) AS found
JOIN record ON record.row = found.row AND record.tenant = :tenant
ORDER BY record.importance DESC, record.row DESC LIMIT :limit;

-- name: standing_facts
SELECT record.* FROM jsonb_array_elements_text(:places::jsonb) AS wanted (place)
CROSS JOIN LATERAL (
     SELECT fact.row FROM record AS fact
     WHERE fact.tenant = :tenant AND fact.place = wanted.place AND fact.importance < :importance
       AND fact.folded_topic IS NOT NULL AND fact.kind = 'fact' AND fact.superseded_by IS NULL
       AND fact.durability <> 'core'
       AND (fact.memory_type IS NULL
            OR fact.memory_type IN (SELECT jsonb_array_elements_text(:types::jsonb)))
       AND {not_outdated}
     ORDER BY fact.importance DESC, fact.row DESC LIMIT :limit) AS found
JOIN record ON record.row = found.row AND record.tenant = :tenant
ORDER BY record.importance DESC, record.row DESC LIMIT :limit;

-- A record with its features, words and tasks, in one statement. What is there already stays.
-- part: columns
id, kind, scope, owner, topic, folded_topic, label, role, source_ref, memory_type, durability,
    importance, content, metadata, agent, session_id, query_id, turn, stands_at, alias, pending,
    source_class, stated_by, summary, keywords, queries, confidence, event_time, score,
    superseded_by, retired_at, retired_why, pairs, stored_at, pinned

-- name: add_records
WITH new AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(:records::jsonb) AS new (
        number bigint, place text, stems text, length bigint, density double precision, firsthand smallint,
        timed smallint, wish smallint, tasks text[],
        id text, kind text, scope text, owner text, topic text, folded_topic text, label text,
        role text, source_ref text, memory_type text, durability text, importance double precision,
        content text, metadata text, agent text, session_id text, query_id text, turn text,
        stands_at double precision, alias text, pending smallint, source_class text,
        stated_by text, summary text, keywords text, queries text, confidence double precision,
        event_time text, score double precision, superseded_by text, retired_at text,
        retired_why text, pairs text, stored_at text, pinned smallint)
), added AS (
    INSERT INTO record (tenant, {columns}, place)
    SELECT :tenant, {columns}, place FROM new ORDER BY number
    ON CONFLICT (tenant, id) DO NOTHING
    RETURNING row, id
), featured AS (
    INSERT INTO feature (record, tenant, stems, length, density, firsthand, timed, wish)
    SELECT added.row, :tenant, new.stems, new.length, new.density, new.firsthand, new.timed, new.wish
    FROM added JOIN new ON new.id = added.id
), worded AS (
    INSERT INTO record_words (record, words, active)
    SELECT added.row, coalesce(words_in(new.place, new.stems), '{}'), new.superseded_by IS NULL
    FROM added JOIN new ON new.id = added.id
), tasked AS (
    INSERT INTO task (tenant, kind, record, place)
    SELECT :tenant, wanted.kind, added.row, new.place
    FROM added JOIN new ON new.id = added.id CROSS JOIN unnest(new.tasks) AS wanted (kind)
)
SELECT id, row FROM added;

-- name: renew_features
WITH featured AS (
    UPDATE feature SET stems = :stems, length = :length, density = :density, firsthand = :firsthand,
                       timed = :timed, wish = :wish
    WHERE tenant = :tenant AND record = :record
)
UPDATE record_words SET words = coalesce(words_in(record.place, :stems), '{}')
FROM record
WHERE record.tenant = :tenant AND record.row = :record AND record_words.record = record.row;

-- Each table is read once, since none of what is counted apart has an index here.
-- name: counts
SELECT records, records - unsearched - waiting - aside AS indexed, waiting FROM (
    SELECT count(*) AS records,
           count(*) FILTER (WHERE superseded_by IS NOT NULL OR kind = 'transcript'
                            OR memory_type = 'task') AS unsearched
    FROM record WHERE tenant = :tenant AND retired_why IS DISTINCT FROM 'erased') AS held, (
    SELECT count(*) FILTER (WHERE state IN ('waits', 'later')) AS waiting,
           count(*) FILTER (WHERE state = 'aside') AS aside
    FROM task WHERE tenant = :tenant AND kind = 'index') AS queue;
