-- Messages that nobody searches are kept as `transcript`; what is heard by itself waits for its turn.
ALTER TABLE record ADD COLUMN alias TEXT;       -- another id that it is known by
ALTER TABLE record ADD COLUMN pending INTEGER;  -- received by itself: 1 until it is reported, then 0

CREATE INDEX record_alias ON record (tenant, alias) WHERE alias IS NOT NULL;
CREATE INDEX record_pending ON record (tenant, owner, session_id) WHERE pending = 1;
DROP INDEX record_standing;
CREATE INDEX record_standing ON record (tenant, owner, session_id, ifnull(stands_at, row))
    WHERE kind IN ('chat_message', 'tool_output', 'transcript') AND superseded_by IS NULL;
