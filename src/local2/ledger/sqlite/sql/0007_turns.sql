-- Query ids are chosen by clients, who number their turns, begin again and revise their answers: what
-- a record belongs to is a turn. `turn` is the id of the turn's question.
ALTER TABLE record ADD COLUMN turn TEXT;
ALTER TABLE record ADD COLUMN stands_at INTEGER;  -- of a later version: the row of the first one
ALTER TABLE record ADD COLUMN score REAL;         -- the rating of the answer it belongs to, -1 to 1

DROP INDEX record_by_query;
CREATE INDEX record_by_query ON record (tenant, owner, query_id, session_id)
    WHERE query_id IS NOT NULL;

UPDATE record SET turn = (
    SELECT question.id FROM record AS question
    WHERE question.tenant = record.tenant AND question.owner = record.owner
      AND question.query_id = record.query_id AND question.session_id IS record.session_id
      AND question.kind = 'chat_message' AND question.role = 'user'
      AND (record.kind != 'episode' OR record.content LIKE 'Q: %' AND substr(
           record.content, 4, length(question.content) + 4) = question.content || char(10) || 'A: ')
) WHERE query_id IS NOT NULL AND kind IN ('chat_message', 'tool_output', 'episode');

CREATE INDEX record_turn ON record (tenant, turn) WHERE turn IS NOT NULL;
CREATE INDEX record_standing ON record (tenant, owner, session_id, ifnull(stands_at, row))
    WHERE kind IN ('chat_message', 'tool_output') AND superseded_by IS NULL;

-- A rating belongs to an answer. It may come before: then `answer` is NULL, and the first of its
-- query takes it.
ALTER TABLE feedback RENAME TO former_feedback;
CREATE TABLE feedback (
    row        INTEGER PRIMARY KEY,
    tenant     TEXT NOT NULL,
    owner      TEXT NOT NULL,
    query_id   TEXT NOT NULL,
    session_id TEXT,                           -- NULL: of whichever session
    answer     TEXT,                           -- the id of the episode
    score      REAL NOT NULL,
    comment    TEXT,
    event_time TEXT NOT NULL
);
INSERT INTO feedback (tenant, owner, query_id, answer, score, comment, event_time)
SELECT tenant, owner, query_id, (
       SELECT episode.id FROM record AS episode
       WHERE episode.tenant = former.tenant AND episode.owner = former.owner
         AND episode.query_id = former.query_id AND episode.kind = 'episode'
       ORDER BY episode.event_time DESC, episode.row DESC LIMIT 1),
       score, comment, event_time
FROM former_feedback AS former;
UPDATE record SET score = (
    SELECT former.score FROM former_feedback AS former
    WHERE former.tenant = record.tenant AND former.owner = record.owner
      AND former.query_id = record.query_id
) WHERE query_id IS NOT NULL;
DROP TABLE former_feedback;
CREATE UNIQUE INDEX feedback_answer ON feedback (tenant, answer) WHERE answer IS NOT NULL;
CREATE UNIQUE INDEX feedback_waiting ON feedback (tenant, owner, query_id, ifnull(session_id, ''))
    WHERE answer IS NULL;
