-- Short notes of a session, in their order. Of many the oldest are merged into one: they stay here,
-- and it takes the position of the last of them.
CREATE TABLE note (
    row        INTEGER PRIMARY KEY,
    tenant     TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    position   INTEGER NOT NULL,
    role       TEXT    NOT NULL,
    content    TEXT    NOT NULL,
    event_time TEXT    NOT NULL,
    merges     INTEGER NOT NULL DEFAULT 0,   -- how many notes it stands for; 0: it is one itself
    merged     INTEGER NOT NULL DEFAULT 0    -- 1: another note stands for it
);
CREATE UNIQUE INDEX note_active ON note (tenant, owner, session_id, position) WHERE merged = 0;

-- The facts of a place that matter most are known without reading the others.
CREATE INDEX record_important ON record (tenant, place, importance, event_time)
    WHERE kind = 'fact' AND superseded_by IS NULL;
