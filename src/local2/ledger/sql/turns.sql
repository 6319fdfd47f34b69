-- name: known_question
SELECT id FROM record INDEXED BY record_by_query
WHERE tenant = :tenant AND owner = :owner AND query_id = :query_id AND session_id IS :session_id
  AND kind = 'chat_message' AND role = 'user' AND content = :content LIMIT 1;

-- Where the next question of a session stands, which was asked before the turn of this one was
-- stored, and what is stored of this turn.
-- name: question_position
WITH asked AS MATERIALIZED (  -- once, not for each record of the turn
    SELECT question.turn,
           (SELECT ifnull(later.stands_at, later.row) FROM record AS later
            WHERE later.tenant = :tenant AND later.owner = question.owner
              AND later.session_id = question.session_id
              AND ifnull(later.stands_at, later.row) > ifnull(question.stands_at, question.row)
              AND later.kind IN ('chat_message', 'tool_output', 'transcript')
              AND later.superseded_by IS NULL AND later.role = 'user'
              AND later.turn IS NOT question.turn
            ORDER BY ifnull(later.stands_at, later.row) LIMIT 1) AS next_position
    FROM record AS question WHERE question.tenant = :tenant AND question.id = :id)
SELECT next_position,
       (SELECT max(ifnull(told.stands_at, told.row)) FROM record AS told
        WHERE told.tenant = :tenant AND told.turn = asked.turn
          AND told.kind <> 'episode' AND told.role IS NOT 'assistant'
          AND ifnull(told.stands_at, told.row) < next_position) AS last_position
FROM asked;

-- name: told_in_turn
SELECT id, kind, role, label, source_ref, content, metadata FROM record INDEXED BY record_turn
WHERE tenant = :tenant AND turn = :turn
  AND (source_ref IS NULL OR source_ref IN (SELECT value FROM json_each(:source_refs)));

-- name: standing_answer
SELECT id, content, event_time, ifnull(stands_at, row) AS stands_at
FROM record INDEXED BY record_turn
WHERE tenant = :tenant AND turn = :turn AND kind = :kind AND role IS :role
  AND superseded_by IS NULL;

-- name: answer_at
SELECT id FROM record INDEXED BY record_by_query
WHERE tenant = :tenant AND owner = :owner AND query_id = :query_id
  AND kind IN ('episode', 'note')
  AND (:session_id IS NULL OR session_id = :session_id) AND event_time <= :event_time
ORDER BY event_time DESC, row DESC LIMIT 1;

-- name: first_answer
SELECT id FROM record INDEXED BY record_by_query
WHERE tenant = :tenant AND owner = :owner AND query_id = :query_id
  AND kind IN ('episode', 'note')
  AND (:session_id IS NULL OR session_id = :session_id)
ORDER BY row LIMIT 1;

-- A later rating replaces the former one; of the same time, only one that has just been given.
-- name: rate
INSERT INTO feedback (tenant, owner, query_id, session_id, answer, score, comment, event_time)
VALUES (:tenant, :owner, :query_id, :session_id, :answer, :score, :comment, :event_time)
ON CONFLICT (tenant, answer) WHERE answer IS NOT NULL DO UPDATE
SET score = excluded.score, comment = excluded.comment, event_time = excluded.event_time
WHERE excluded.event_time > feedback.event_time
   OR (:is_just_given = 1 AND excluded.event_time = feedback.event_time)
ON CONFLICT (tenant, owner, query_id, ifnull(session_id, '')) WHERE answer IS NULL DO UPDATE
SET score = excluded.score, comment = excluded.comment, event_time = excluded.event_time
WHERE excluded.event_time > feedback.event_time
   OR (:is_just_given = 1 AND excluded.event_time = feedback.event_time);

-- name: waiting_ratings
DELETE FROM feedback
WHERE tenant = :tenant AND owner = :owner AND query_id = :query_id AND answer IS NULL
  AND (session_id IS NULL OR session_id IS :session_id)
RETURNING owner, query_id, session_id, score, comment, event_time;

-- name: score_answer
UPDATE record SET score = (
    SELECT score FROM feedback WHERE tenant = :tenant AND answer = :answer)
WHERE tenant = :tenant AND id IN (
    SELECT :answer UNION ALL
    SELECT beside.id FROM record AS answer
    CROSS JOIN record AS beside INDEXED BY record_turn
         ON beside.tenant = answer.tenant AND beside.turn = answer.turn
    WHERE answer.tenant = :tenant AND answer.id = :answer AND answer.superseded_by IS NULL
      AND beside.superseded_by IS NULL);
