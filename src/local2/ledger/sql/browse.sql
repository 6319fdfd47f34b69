-- Browsing reads records one after the other, the newest first, and stops at the end of a page or
-- after a bounded number of them: `wanted` says which ones pass the filter.
-- It looks at the session first, which `record_place` has: the records of others are not even read.

-- part: state
CASE WHEN record.superseded_by IS NULL THEN 'active'
         WHEN record.retired_why IN ('hidden', 'anonymised', 'erased') THEN record.retired_why
         WHEN record.superseded_by = '' THEN 'retired' ELSE 'replaced' END AS state

-- part: wanted
CASE WHEN (:session_id IS NULL OR record.session_id = :session_id)
    AND (:kinds IS NULL OR record.kind IN (SELECT value FROM json_each(:kinds)))
    AND (:scopes IS NULL OR record.scope IN (SELECT value FROM json_each(:scopes)))
    AND (:types IS NULL OR record.memory_type IN (SELECT value FROM json_each(:types)))
    AND (:sources IS NULL OR record.source_class IN (SELECT value FROM json_each(:sources)))
    AND (:agent IS NULL OR record.agent = :agent)
    AND (:topic IS NULL OR (record.folded_topic >= :topic AND record.folded_topic < :beyond))
    THEN 1 ELSE 0 END AS wanted

-- name: browse_active
SELECT record.event_time, record.row, 'active' AS state, {wanted}
FROM record INDEXED BY record_place
WHERE record.tenant = :tenant AND record.place = :place AND record.superseded_by IS NULL
  AND record.event_time >= :since AND (record.event_time, record.row) < (:before, :before_row)
ORDER BY record.event_time DESC, record.row DESC LIMIT :limit;

-- name: browse_past
SELECT record.event_time, record.row, {state}, {wanted}
FROM record INDEXED BY record_past
WHERE record.tenant = :tenant AND record.place = :place AND record.superseded_by IS NOT NULL
  AND record.event_time >= :since AND (record.event_time, record.row) < (:before, :before_row)
ORDER BY record.event_time DESC, record.row DESC LIMIT :limit;

-- name: browse_tenant
SELECT record.event_time, record.row, {state}, {wanted}
FROM record INDEXED BY record_time
WHERE record.tenant = :tenant
  AND record.event_time >= :since AND (record.event_time, record.row) < (:before, :before_row)
ORDER BY record.event_time DESC, record.row DESC LIMIT :limit;

-- name: browse_rows
SELECT record.event_time, record.row, {state}, {wanted},
       record.event_time >= :since AND record.event_time <= :until
       AND (:places IS NULL OR record.place IN (SELECT value FROM json_each(:places))) AS reached
FROM json_each(:rows) AS asked
CROSS JOIN record ON record.row = asked.value
WHERE +record.tenant = :tenant;

-- name: recalls_of
SELECT access.record AS row, access.times, access.last FROM json_each(:rows) AS asked
CROSS JOIN access ON access.record = asked.value
WHERE +access.tenant = :tenant;

-- How many records each place has, and its newest: from indexes alone.
-- name: count_active_of_places
SELECT place, count(*) AS records, max(event_time) AS last FROM record INDEXED BY record_place
WHERE tenant = :tenant AND place IN (SELECT value FROM json_each(:places))
  AND superseded_by IS NULL
GROUP BY place;

-- name: count_past_of_places
SELECT place, count(*) AS records, max(event_time) AS last FROM record INDEXED BY record_past
WHERE tenant = :tenant AND place IN (SELECT value FROM json_each(:places))
  AND superseded_by IS NOT NULL
GROUP BY place;

-- name: count_active
SELECT place, count(*) AS records, max(event_time) AS last FROM record INDEXED BY record_place
WHERE tenant = :tenant AND superseded_by IS NULL
GROUP BY place;

-- name: count_past
SELECT place, count(*) AS records, max(event_time) AS last FROM record INDEXED BY record_past
WHERE tenant = :tenant AND superseded_by IS NOT NULL
GROUP BY place;

-- How many records there are of each day.
-- name: growth_active_of_places
SELECT place, substr(event_time, 1, 10) AS day, count(*) AS records
FROM record INDEXED BY record_place
WHERE tenant = :tenant AND place IN (SELECT value FROM json_each(:places))
  AND superseded_by IS NULL AND event_time >= :since
GROUP BY place, day;

-- name: growth_past_of_places
SELECT place, substr(event_time, 1, 10) AS day, count(*) AS records
FROM record INDEXED BY record_past
WHERE tenant = :tenant AND place IN (SELECT value FROM json_each(:places))
  AND superseded_by IS NOT NULL AND event_time >= :since
GROUP BY place, day;

-- name: growth_active
SELECT place, substr(event_time, 1, 10) AS day, count(*) AS records
FROM record INDEXED BY record_place
WHERE tenant = :tenant AND superseded_by IS NULL AND event_time >= :since
GROUP BY place, day;

-- name: growth_past
SELECT place, substr(event_time, 1, 10) AS day, count(*) AS records
FROM record INDEXED BY record_past
WHERE tenant = :tenant AND superseded_by IS NOT NULL AND event_time >= :since
GROUP BY place, day;

-- The messages of a place from the newest on, with their sessions: from the index alone.
-- name: sessions_of_place
SELECT event_time, row, session_id FROM record INDEXED BY record_place
WHERE tenant = :tenant AND place = :place AND superseded_by IS NULL
  AND (event_time, row) < (:before, :before_row)
ORDER BY event_time DESC, row DESC LIMIT :limit;

-- name: sessions_of_tenant
SELECT event_time, row, owner, CASE WHEN kind IN ('chat_message', 'tool_output', 'transcript')
              AND superseded_by IS NULL THEN session_id END AS session_id
FROM record INDEXED BY record_time
WHERE tenant = :tenant AND (event_time, row) < (:before, :before_row)
ORDER BY event_time DESC, row DESC LIMIT :limit;

-- From the index alone: a session may have very many messages.
-- name: count_messages_of_session
SELECT count(*) AS messages FROM record INDEXED BY record_standing
WHERE tenant = :tenant AND owner = :owner AND session_id = :session_id
  AND kind IN ('chat_message', 'tool_output', 'transcript') AND superseded_by IS NULL;

-- name: first_message_of_session
SELECT event_time FROM record INDEXED BY record_standing
WHERE tenant = :tenant AND owner = :owner AND session_id = :session_id
  AND kind IN ('chat_message', 'tool_output', 'transcript') AND superseded_by IS NULL
ORDER BY ifnull(stands_at, row) LIMIT 1;

-- Whether a page before has listed a session, because of a message that is not on this one.
-- name: session_is_listed
SELECT 1 FROM record INDEXED BY record_standing
WHERE tenant = :tenant AND owner = :owner AND session_id = :session_id
  AND kind IN ('chat_message', 'tool_output', 'transcript') AND superseded_by IS NULL
  AND (event_time, row) >= (:before, :before_row)
ORDER BY ifnull(stands_at, row) DESC LIMIT 1;
