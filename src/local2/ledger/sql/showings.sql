-- What was shown, and when: by logged recalls, and before the answers of turns.

-- name: insert_showing
INSERT INTO showing (tenant, owner, agent, session_id, query_id, question, answer, shown_at)
VALUES (:tenant, :owner, :agent, :session_id, :query_id, :question, :answer, :shown_at)
ON CONFLICT DO NOTHING
RETURNING row;

-- name: insert_shown
INSERT INTO shown (tenant, showing, position, record, score)
VALUES (:tenant, :showing, :position, :record, :score);

-- name: shown_in
SELECT record, score FROM shown WHERE tenant = :tenant AND showing = :showing ORDER BY position;

-- name: showings_of_session
SELECT row, owner, agent, session_id, query_id, question, answer, shown_at
FROM showing INDEXED BY showing_session
WHERE tenant = :tenant AND owner = :owner AND session_id = :name AND row < :before
ORDER BY row DESC LIMIT :limit;

-- name: showings_of_query
SELECT row, owner, agent, session_id, query_id, question, answer, shown_at
FROM showing INDEXED BY showing_query
WHERE tenant = :tenant AND owner = :owner AND query_id IS NOT NULL AND query_id = :name
  AND row < :before
ORDER BY row DESC LIMIT :limit;

-- name: showings_of_record
SELECT showing.row, owner, agent, session_id, query_id, question, answer, shown_at
FROM shown INDEXED BY shown_record
CROSS JOIN showing ON showing.row = shown.showing
WHERE shown.tenant = :tenant AND shown.record = :name AND shown.showing < :before
  AND +showing.tenant = :tenant AND showing.owner = :owner
ORDER BY shown.showing DESC LIMIT :limit;

-- name: logged_before
SELECT row FROM showing INDEXED BY showing_logged
WHERE tenant = :tenant AND question IS NOT NULL AND shown_at < :before
ORDER BY shown_at LIMIT :limit;

-- name: showings_of_erased
SELECT row FROM showing INDEXED BY showing_answer
WHERE tenant = :tenant AND answer IS NOT NULL AND answer IN (SELECT value FROM json_each(:ids))
UNION
SELECT row FROM showing INDEXED BY showing_query
WHERE tenant = :tenant AND owner = :owner AND query_id IS NOT NULL
  AND query_id IN (SELECT value FROM json_each(:query_ids));

-- name: showings_of_owner
SELECT row FROM showing INDEXED BY showing_session
WHERE tenant = :tenant AND owner = :owner AND (:session_id IS NULL OR session_id = :session_id);

-- name: drop_shown_in
DELETE FROM shown WHERE tenant = :tenant AND showing IN (SELECT value FROM json_each(:rows));

-- name: drop_showings
DELETE FROM showing WHERE +tenant = :tenant AND row IN (SELECT value FROM json_each(:rows));

-- name: drop_shown_records
DELETE FROM shown WHERE tenant = :tenant AND record IN (SELECT value FROM json_each(:ids));
