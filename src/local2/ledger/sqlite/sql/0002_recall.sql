-- What recall needs to know of a record: whose it is, who said it, and how it ages.
ALTER TABLE record ADD COLUMN scope TEXT NOT NULL DEFAULT 'session'; -- session, user, agent, tenant
ALTER TABLE record ADD COLUMN label TEXT;        -- who said it, which tool, which document
ALTER TABLE record ADD COLUMN role TEXT;         -- of a message: user, assistant, …
ALTER TABLE record ADD COLUMN source_ref TEXT;   -- the caller's own id
ALTER TABLE record ADD COLUMN memory_type TEXT;
ALTER TABLE record ADD COLUMN durability TEXT NOT NULL DEFAULT 'standard';
ALTER TABLE record ADD COLUMN importance REAL NOT NULL DEFAULT 0.5;
ALTER TABLE record ADD COLUMN unjudged INTEGER NOT NULL DEFAULT 0; -- 1: may contradict older facts

UPDATE record SET scope = CASE WHEN topic LIKE 'user.%' THEN 'user' ELSE 'tenant' END
WHERE kind = 'fact';

-- One opaque word for whose record of which kind it is, and one for its session: full-text search
-- narrows itself by them. Retired records have none. (places.py makes the same words.)
ALTER TABLE record ADD COLUMN place TEXT GENERATED ALWAYS AS (
    'p' || hex(tenant) || 'x' || hex(scope) || 'x' || hex(owner) || 'x' || hex(kind) || 'x'
) VIRTUAL;
ALTER TABLE record ADD COLUMN session_place TEXT GENERATED ALWAYS AS (
    's' || hex(tenant) || 'x' || hex(owner) || 'x' || hex(session_id) || 'x'
) VIRTUAL;
ALTER TABLE record ADD COLUMN places TEXT GENERATED ALWAYS AS (
    CASE WHEN superseded_by IS NULL THEN place || ' ' || session_place ELSE '' END
) VIRTUAL;

-- The day in words, as questions ask for it: 8 May 2023.
ALTER TABLE record ADD COLUMN said TEXT GENERATED ALWAYS AS (
    CAST(substr(event_time, 9, 2) AS INTEGER) || ' ' || rtrim(substr(
        'January  February March    April    May      June     '
        || 'July     August   SeptemberOctober  November December ',
        CAST(substr(event_time, 6, 2) AS INTEGER) * 9 - 8, 9)) || ' ' || substr(event_time, 1, 4)
) VIRTUAL;

DROP INDEX record_active_topic;
CREATE UNIQUE INDEX record_active_topic ON record (tenant, scope, owner, topic)
    WHERE topic IS NOT NULL AND superseded_by IS NULL;
DROP INDEX record_topic;
CREATE INDEX record_topic ON record (tenant, topic, scope, owner) WHERE topic IS NOT NULL;
CREATE INDEX record_fact ON record (tenant, scope, owner, content)
    WHERE kind = 'fact' AND superseded_by IS NULL;
CREATE UNIQUE INDEX record_chunk ON record (tenant, source_ref)
    WHERE kind = 'document_chunk' AND superseded_by IS NULL;
DROP INDEX record_waiting;
CREATE INDEX record_waiting ON record (tenant, place) WHERE index_state = 0;
CREATE INDEX record_place ON record (tenant, place);
CREATE INDEX record_session ON record (tenant, owner, session_id)
    WHERE kind IN ('chat_message', 'tool_output');
CREATE INDEX record_unjudged ON record (tenant) WHERE unjudged = 1;
CREATE INDEX record_replaced ON record (tenant, superseded_by) WHERE superseded_by IS NOT NULL;

DROP TRIGGER record_text_insert;
DROP TRIGGER record_text_delete;
DROP TRIGGER record_text_update;
DROP TABLE record_text;
CREATE VIRTUAL TABLE record_text USING fts5 (
    content, topic, label, said, places,
    content = 'record', content_rowid = 'row', tokenize = 'porter unicode61'
);
INSERT INTO record_text (record_text) VALUES ('rebuild');
CREATE TRIGGER record_text_insert AFTER INSERT ON record BEGIN
    INSERT INTO record_text (rowid, content, topic, label, said, places)
    VALUES (new.row, new.content, new.topic, new.label, new.said, new.places);
END;
CREATE TRIGGER record_text_delete AFTER DELETE ON record BEGIN
    INSERT INTO record_text (record_text, rowid, content, topic, label, said, places)
    VALUES ('delete', old.row, old.content, old.topic, old.label, old.said, old.places);
END;
CREATE TRIGGER record_text_update
AFTER UPDATE OF content, topic, label, superseded_by, tenant, scope, owner, kind, session_id, event_time
ON record BEGIN
    INSERT INTO record_text (record_text, rowid, content, topic, label, said, places)
    VALUES ('delete', old.row, old.content, old.topic, old.label, old.said, old.places);
    INSERT INTO record_text (rowid, content, topic, label, said, places)
    VALUES (new.row, new.content, new.topic, new.label, new.said, new.places);
END;

-- How records bear on each other: supports, part_of, … Recall follows them.
CREATE TABLE relation (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    type   TEXT NOT NULL,
    target TEXT NOT NULL,
    PRIMARY KEY (tenant, source, type, target)
) WITHOUT ROWID;
CREATE INDEX relation_target ON relation (tenant, target);
