-- Every memory is a row of `record`. index_state: 0 waits for its vector, 1 in the index,
-- 2 waits for removal from the index, 3 out of it.
CREATE TABLE record (
    row           INTEGER PRIMARY KEY,
    tenant        TEXT    NOT NULL,
    id            TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    owner         TEXT    NOT NULL,            -- the user it belongs to; '' is the tenant's own
    topic         TEXT,
    content       TEXT    NOT NULL,
    metadata      TEXT    NOT NULL DEFAULT '{}',
    agent         TEXT,
    session_id    TEXT,
    query_id      TEXT,
    event_time    TEXT    NOT NULL,            -- ISO 8601, UTC
    superseded_by TEXT,
    index_state   INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant, id)
);

CREATE UNIQUE INDEX record_active_topic ON record (tenant, owner, topic)
    WHERE topic IS NOT NULL AND superseded_by IS NULL;
CREATE INDEX record_topic ON record (tenant, owner, topic) WHERE topic IS NOT NULL;
CREATE INDEX record_queue ON record (tenant) WHERE index_state = 0;
CREATE INDEX record_waiting ON record (tenant, kind, owner) WHERE index_state = 0;
CREATE INDEX record_removing ON record (tenant) WHERE index_state = 2;
CREATE INDEX record_out ON record (tenant) WHERE index_state = 3;
CREATE INDEX record_by_query ON record (tenant, query_id) WHERE query_id IS NOT NULL;

CREATE VIRTUAL TABLE record_text USING fts5 (
    content, topic, content = 'record', content_rowid = 'row', tokenize = 'porter unicode61'
);
CREATE TRIGGER record_text_insert AFTER INSERT ON record BEGIN
    INSERT INTO record_text (rowid, content, topic) VALUES (new.row, new.content, new.topic);
END;
CREATE TRIGGER record_text_delete AFTER DELETE ON record BEGIN
    INSERT INTO record_text (record_text, rowid, content, topic)
    VALUES ('delete', old.row, old.content, old.topic);
END;
CREATE TRIGGER record_text_update AFTER UPDATE OF content, topic ON record BEGIN
    INSERT INTO record_text (record_text, rowid, content, topic)
    VALUES ('delete', old.row, old.content, old.topic);
    INSERT INTO record_text (rowid, content, topic) VALUES (new.row, new.content, new.topic);
END;

-- The vector of a record, so that rebuilding the index embeds nothing. data: float32.
CREATE TABLE vector (
    record   INTEGER PRIMARY KEY REFERENCES record (row) ON DELETE CASCADE,
    embedder TEXT NOT NULL,
    data     BLOB NOT NULL
);

-- Ratings stand by themselves: one may arrive before the episode it rates.
CREATE TABLE feedback (
    tenant     TEXT NOT NULL,
    query_id   TEXT NOT NULL,
    score      REAL NOT NULL,
    comment    TEXT,
    event_time TEXT NOT NULL,
    PRIMARY KEY (tenant, query_id)
) WITHOUT ROWID;

CREATE TABLE audit (
    row        INTEGER PRIMARY KEY,
    tenant     TEXT NOT NULL,
    action     TEXT NOT NULL,
    record_id  TEXT NOT NULL,
    agent      TEXT,
    detail     TEXT NOT NULL DEFAULT '{}',
    event_time TEXT NOT NULL
);
CREATE INDEX audit_by_record ON audit (tenant, record_id);
