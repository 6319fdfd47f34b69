-- Candidates are found by words or vectors alone; `visible` decides which ones the caller may see.

-- name: rows_of_place
SELECT row FROM record INDEXED BY record_revision
WHERE tenant = :tenant AND place = :place AND row <= :last;

-- name: rows_after
SELECT row, place FROM record WHERE row > :after AND +tenant = :tenant ORDER BY row;

-- name: next_place
SELECT min(place) AS place FROM record INDEXED BY record_place
WHERE tenant = :tenant AND place > :after AND place < :until AND superseded_by IS NULL;

-- What a `Candidate` is read from.
-- part: candidate
record.row, record.id, record.kind, record.scope, record.session_id, record.role, record.label,
    record.importance, record.durability, record.event_time,
    CASE WHEN json_type(record.metadata, '$.unanswered') = 'true' THEN 2
         WHEN json_type(record.metadata, '$.extracted_from') IS NOT NULL THEN 3
         WHEN json_type(record.metadata, '$.recalled') = 'true' THEN 1 ELSE 0 END AS echo,
    record.score AS feedback, vector.embedder,
    vector.data AS vector, feature.stems, feature.length, feature.density, feature.firsthand,
    feature.timed, feature.wish, record.topic,
    CASE WHEN feature.record IS NULL THEN record.content END AS content,
    ifnull(record.stands_at, record.row) AS session_position,
    record.memory_type, record.source_class, record.stated_by, record.stored_at

-- part: of_sessions
(record.scope != 'session' OR (
       (:only_session IS NULL OR record.session_id = :only_session)
       AND (:excluded_session IS NULL OR record.session_id IS NOT :excluded_session)))

-- part: not_asked_now
(:current_query_id IS NULL OR record.pending IS NOT 1 OR record.role != 'user'
       OR record.query_id IS NOT :current_query_id)

-- name: visible
SELECT {candidate}, 1 AS active
FROM (SELECT value AS row, key FROM json_each(:rows)
      UNION ALL
      SELECT found.row, id.key FROM json_each(:ids) AS id
      CROSS JOIN record AS found ON found.tenant = :tenant AND found.id = id.value) AS wanted
CROSS JOIN record ON record.row = wanted.row
LEFT JOIN feature ON feature.record = record.row
LEFT JOIN vector ON vector.record = record.row AND vector.embedder = :embedder
WHERE +record.tenant = :tenant AND (record.superseded_by IS NULL OR record.retired_at > :as_of
       AND record.retired_why IS NOT 'hidden')
  AND +record.place IN (SELECT value FROM json_each(:places))
  AND {of_sessions}
  AND {not_asked_now}
  AND (:source IS NULL OR (record.source_ref >= :source AND record.source_ref < :beyond))
  AND (:since IS NULL OR record.event_time >= :since)
  AND (:until IS NULL OR record.event_time <= :until)
LIMIT :limit;

-- name: changed
SELECT {candidate},
       record.superseded_by IS NULL AS active, record.revision
FROM record INDEXED BY record_revision
LEFT JOIN feature ON feature.record = record.row
LEFT JOIN vector ON vector.record = record.row AND vector.embedder = :embedder
WHERE record.tenant = :tenant AND record.place = :place
  AND (record.revision, record.row) > (:revision, :after)
  AND (record.superseded_by IS NULL OR :revision >= 0)
ORDER BY record.revision, record.row LIMIT :limit;

-- name: count_in
SELECT count(*) AS records FROM (
    SELECT 1 FROM record INDEXED BY record_place
    WHERE tenant = :tenant AND place IN (SELECT value FROM json_each(:places))
      AND superseded_by IS NULL LIMIT :limit);

-- name: around
SELECT here.row, near.row, 1 AS behind, ifnull(near.stands_at, near.row) AS stands
FROM json_each(:rows) AS wanted
CROSS JOIN record AS here ON here.row = wanted.value AND here.kind IN ('chat_message', 'tool_output')
CROSS JOIN record AS near ON near.row IN (
     SELECT row FROM record AS other INDEXED BY record_standing
     WHERE other.tenant = here.tenant AND other.owner = here.owner
       AND other.session_id = here.session_id AND other.superseded_by IS NULL
       AND other.kind IN ('chat_message', 'tool_output', 'transcript') AND other.kind != 'transcript'
       AND ifnull(other.stands_at, other.row) > ifnull(here.stands_at, here.row)
     ORDER BY ifnull(other.stands_at, other.row) LIMIT :span)
WHERE +here.tenant = :tenant AND +near.tenant = :tenant
UNION ALL
SELECT here.row, near.row, 0 AS behind, ifnull(near.stands_at, near.row) AS stands
FROM json_each(:rows) AS wanted
CROSS JOIN record AS here ON here.row = wanted.value AND here.kind IN ('chat_message', 'tool_output')
CROSS JOIN record AS near ON near.row IN (
     SELECT row FROM record AS other INDEXED BY record_standing
     WHERE other.tenant = here.tenant AND other.owner = here.owner
       AND other.session_id = here.session_id AND other.superseded_by IS NULL
       AND other.kind IN ('chat_message', 'tool_output', 'transcript') AND other.kind != 'transcript'
       AND ifnull(other.stands_at, other.row) < ifnull(here.stands_at, here.row)
     ORDER BY ifnull(other.stands_at, other.row) DESC LIMIT :span)
WHERE +here.tenant = :tenant AND +near.tenant = :tenant
ORDER BY stands;

-- name: being_asked
SELECT row FROM record INDEXED BY record_by_query
WHERE tenant = :tenant AND owner = :owner AND query_id = :current_query_id AND pending = 1 AND role = 'user';

-- name: own_rows
SELECT row FROM record INDEXED BY record_place
WHERE tenant = :tenant AND place IN (SELECT value FROM json_each(:places))
  AND superseded_by IS NULL
  AND event_time >= ifnull(:since, '') AND event_time <= ifnull(:until, '9')
  AND {of_sessions}
  AND (:source IS NULL OR (source_ref >= :source AND source_ref < :beyond))
LIMIT :limit;

-- name: retired_since
SELECT row FROM record INDEXED BY record_retired
WHERE tenant = :tenant AND place IN (SELECT value FROM json_each(:places)) AND retired_at > :as_of
  AND event_time >= ifnull(:since, '') AND event_time <= ifnull(:until, '9')
  AND ifnull(retired_why, '') NOT IN ('anonymised', 'erased', 'hidden')
ORDER BY retired_at LIMIT :limit;

-- name: own_vectors
SELECT record.row, vector.data FROM json_each(:rows) AS wanted
CROSS JOIN record ON record.row = wanted.value
CROSS JOIN vector ON vector.record = record.row AND vector.embedder = :embedder
WHERE +record.tenant = :tenant AND record.superseded_by IS NULL
  AND +record.place IN (SELECT value FROM json_each(:places))
  AND {of_sessions}
  AND (:source IS NULL OR (record.source_ref >= :source AND record.source_ref < :beyond))
  AND (:since IS NULL OR record.event_time >= :since)
  AND (:until IS NULL OR record.event_time <= :until);

-- name: has_waiting
SELECT EXISTS (
    SELECT 1 FROM task INDEXED BY task_turn CROSS JOIN record ON record.row = task.record
    WHERE task.tenant = :tenant AND task.kind = 'index' AND task.state = 'waits'
      AND +record.tenant = :tenant
      AND task.place IN (SELECT value FROM json_each(:places))
      AND {not_asked_now} AND {of_sessions}
) AS waiting;

-- name: topic_rows
SELECT record.row FROM json_each(:topics) AS wanted
CROSS JOIN record INDEXED BY record_topic
     ON record.tenant = :tenant AND record.folded_topic = wanted.value
WHERE +record.place IN (SELECT value FROM json_each(:places));

-- A newer record does not lead to records that it supersedes or contradicts.
-- name: related
SELECT wanted.value AS of, record.row, relation.type != :entity AS stated
FROM json_each(:rows) AS wanted
CROSS JOIN record AS here ON here.row = wanted.value AND +here.tenant = :tenant
CROSS JOIN relation ON relation.tenant = :tenant AND relation.source = here.id
     AND relation.type NOT IN ('derived_from', 'supersedes', 'contradicts')
JOIN record ON record.tenant = :tenant AND record.id = relation.target
UNION ALL
SELECT wanted.value AS of, record.row, relation.type != :entity AS stated
FROM json_each(:rows) AS wanted
CROSS JOIN record AS here ON here.row = wanted.value AND +here.tenant = :tenant
CROSS JOIN relation INDEXED BY relation_target
     ON relation.tenant = :tenant AND relation.target = here.id
     AND relation.type != 'derived_from'
JOIN record ON record.tenant = :tenant AND record.id = relation.source;

-- name: item_relations
SELECT wanted.value AS of, relation.type, other.id, 0 AS incoming
FROM json_each(:rows) AS wanted
CROSS JOIN record AS here ON here.row = wanted.value AND +here.tenant = :tenant
CROSS JOIN relation ON relation.tenant = :tenant AND relation.source = here.id
     AND relation.type IN (SELECT value FROM json_each(:types))
CROSS JOIN record AS other ON other.tenant = :tenant AND other.id = relation.target
WHERE other.superseded_by IS NULL AND +other.place IN (SELECT value FROM json_each(:places))
UNION ALL
SELECT wanted.value AS of, relation.type, other.id, 1 AS incoming
FROM json_each(:rows) AS wanted
CROSS JOIN record AS here ON here.row = wanted.value AND +here.tenant = :tenant
CROSS JOIN relation INDEXED BY relation_target
     ON relation.tenant = :tenant AND relation.target = here.id
     AND +relation.type IN (SELECT value FROM json_each(:types))
CROSS JOIN record AS other ON other.tenant = :tenant AND other.id = relation.source
WHERE (other.superseded_by IS NULL OR relation.type = 'supersedes')
  AND +other.place IN (SELECT value FROM json_each(:places));

-- part: derived
json_each(:rows) AS wanted
CROSS JOIN record AS echo ON echo.row = wanted.value AND +echo.tenant = :tenant
CROSS JOIN relation ON relation.tenant = :tenant AND relation.source = echo.id
     AND relation.type = 'derived_from'

-- What echoes repeat, and the episode of a turn whose question they repeat.
-- name: echoed
SELECT echo.row, relation.target FROM {derived}
UNION ALL
SELECT echo.row, episode.id FROM {derived}
CROSS JOIN record AS episode INDEXED BY record_turn
     ON episode.tenant = :tenant AND episode.turn = relation.target AND episode.kind = 'episode';

-- These records and all that came to replace them, each once however many lead to it.
-- name: versions
WITH RECURSIVE version (id, row, kind, superseded_by) AS (
    SELECT record.id, record.row, record.kind, record.superseded_by FROM json_each(:ids) AS wanted
    CROSS JOIN record ON record.tenant = :tenant AND record.id = wanted.value
    UNION
    SELECT newer.id, newer.row, newer.kind, newer.superseded_by FROM version
    CROSS JOIN record AS newer ON newer.tenant = :tenant AND newer.id = version.superseded_by
)
SELECT id, row, kind, superseded_by FROM version;

-- What states the facts that hold instead of those that were extracted from these messages: other
-- messages, or the facts themselves, if they were saved.
-- name: replaced
WITH RECURSIVE former (of, said, newer) AS (
    SELECT message.row, fact.content, fact.superseded_by FROM json_each(:rows) AS wanted
    CROSS JOIN record AS message ON message.row = wanted.value AND +message.tenant = :tenant
    CROSS JOIN relation INDEXED BY relation_target
         ON relation.tenant = :tenant AND relation.target = message.id
         AND +relation.type = 'derived_from'
    CROSS JOIN record AS fact ON fact.tenant = :tenant AND fact.id = relation.source
    WHERE fact.kind = 'fact' AND fact.retired_why = 'superseded'
    UNION
    SELECT former.of, former.said, fact.superseded_by FROM former
    CROSS JOIN record AS fact ON fact.tenant = :tenant AND fact.id = former.newer
    WHERE fact.superseded_by IS NOT NULL
)
SELECT DISTINCT former.of, coalesce(record.row, fact.row) AS stating, fact.row, former.said
FROM former
CROSS JOIN record AS fact ON fact.tenant = :tenant AND fact.id = former.newer
LEFT JOIN relation ON relation.tenant = :tenant AND relation.source = fact.id
     AND relation.type = 'derived_from'
LEFT JOIN record ON record.tenant = :tenant AND record.id = relation.target
WHERE fact.superseded_by IS NULL AND record.superseded_by IS NULL;

-- name: facts_that_stand
SELECT message.row, fact.row FROM json_each(:rows) AS wanted
CROSS JOIN record AS message ON message.row = wanted.value AND +message.tenant = :tenant
CROSS JOIN relation INDEXED BY relation_target
     ON relation.tenant = :tenant AND relation.target = message.id AND +relation.type = 'derived_from'
CROSS JOIN record AS fact ON fact.tenant = :tenant AND fact.id = relation.source
WHERE fact.kind = 'fact' AND fact.superseded_by IS NULL;

-- The last values that facts replaced under their keys; what was retired after `as_of` stood then.
-- name: former_values
SELECT of, row FROM (
SELECT fact.row AS of, former.row,
       row_number() OVER (PARTITION BY fact.row ORDER BY former.retired_at DESC, former.row DESC) AS place
FROM json_each(:rows) AS wanted
CROSS JOIN record AS fact ON fact.row = wanted.value AND +fact.tenant = :tenant
CROSS JOIN record AS former INDEXED BY record_topic
     ON former.tenant = :tenant AND former.folded_topic = fact.folded_topic
WHERE former.scope = fact.scope AND former.owner = fact.owner AND former.kind = 'fact'
  AND former.retired_why = 'superseded' AND former.content != fact.content
  AND (:as_of IS NULL OR former.retired_at <= :as_of)
  AND (:since IS NULL OR former.event_time >= :since)
  AND (:until IS NULL OR former.event_time <= :until)) AS versions
WHERE place <= :limit ORDER BY place;

-- name: texts
SELECT record.row, substr(record.content, 1, :most) FROM json_each(:rows) AS wanted
CROSS JOIN record ON +record.tenant = :tenant AND record.row = wanted.value;

-- The columns of a `Record`: computing the others, such as `places`, takes more than half the time.
-- name: records
SELECT record.row, record.id, record.kind, record.content, record.event_time, record.scope,
    record.owner, record.topic, record.label, record.role, record.source_ref, record.memory_type,
    record.durability, record.importance, record.metadata, record.agent, record.session_id,
    record.query_id, record.turn, record.stands_at, record.alias, record.pending,
    record.source_class, record.stated_by, record.summary, record.keywords, record.queries,
    record.confidence, record.superseded_by, record.score, record.retired_at, record.retired_why,
    record.stored_at, record.pinned
FROM json_each(:rows) AS wanted
CROSS JOIN record ON +record.tenant = :tenant AND record.row = wanted.value;
