-- number: 26
-- The schema of a new ledger; every change raises its number. Numbers 1 to 18 were migrations.

-- Every memory is a row of `record`: what it says, whose it is, who said it, and how it ages.
CREATE TABLE record (
    row           INTEGER PRIMARY KEY,
    tenant        TEXT    NOT NULL,
    id            TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    owner         TEXT    NOT NULL,            -- the user it belongs to; '' is the tenant's own
    topic         TEXT,                        -- as it was first written
    content       TEXT    NOT NULL,
    metadata      TEXT    NOT NULL DEFAULT '{}',
    agent         TEXT,
    session_id    TEXT,
    query_id      TEXT,
    event_time    TEXT    NOT NULL,            -- ISO 8601, UTC
    superseded_by TEXT,                        -- '': retired with nothing in its place
    scope         TEXT    NOT NULL DEFAULT 'session', -- session, user, agent, tenant
    label         TEXT,                        -- who said it, which tool, which document
    role          TEXT,                        -- of a message: user, assistant, …
    source_ref    TEXT,                        -- the caller's own id
    memory_type   TEXT,
    durability    TEXT    NOT NULL DEFAULT 'standard',
    importance    REAL    NOT NULL DEFAULT 0.5,

    -- One word for whose record of which kind it is, and one for its session: full-text search narrows
    -- itself by them. Retired records have none. The first is short, since indexes have it of each
    -- record. (operations/places.py makes the same words.)
    place TEXT GENERATED ALWAYS AS (
        'p' || hex(tenant) || 'x' || substr(scope, 1, 1) || hex(owner) || substr(kind, 1, 2) || 'x'
    ) VIRTUAL,
    session_place TEXT GENERATED ALWAYS AS (
        's' || hex(tenant) || 'x' || hex(owner) || 'x' || hex(session_id) || 'x'
    ) VIRTUAL,
    places TEXT GENERATED ALWAYS AS (
        CASE WHEN superseded_by IS NULL THEN place || ' ' || session_place ELSE '' END
    ) VIRTUAL,

    -- The day in words, as questions ask for it: 8 May 2023.
    said TEXT GENERATED ALWAYS AS (
        CAST(substr(event_time, 9, 2) AS INTEGER) || ' ' || rtrim(substr(
            'January  February March    April    May      June     '
            || 'July     August   SeptemberOctober  November December ',
            CAST(substr(event_time, 6, 2) AS INTEGER) * 9 - 8, 9)) || ' ' || substr(event_time, 1, 4)
    ) VIRTUAL,

    -- Query ids are chosen by clients, who number their turns, begin again and revise their answers:
    -- what a record belongs to is a turn.
    turn          TEXT,                        -- the id of the turn's question
    stands_at     INTEGER,                     -- of a later version: the row of the first one
    score         REAL,                        -- the rating of the answer it belongs to, -1 to 1
    alias         TEXT,                        -- another id that it is known by
    pending       INTEGER,                     -- received by itself: 1 until it is reported, then 0
    folded_topic  TEXT,                        -- without regard to capitals and forms of letters

    -- Recall keeps in memory what it ranks by; a place's highest revisions are what changed since. A
    -- new record is inserted with its revision: a trigger that updates it would cost FTS5 a flush a row.
    revision      INTEGER NOT NULL DEFAULT 0,
    source_class  TEXT    NOT NULL DEFAULT 'asserted', -- stated, answered, observed, document, asserted
    stated_by     TEXT,                        -- the user; '': nobody is named; NULL: not known
    summary       TEXT,
    keywords      TEXT    NOT NULL DEFAULT '[]',  -- JSON
    queries       TEXT    NOT NULL DEFAULT '[]',  -- JSON: what it would answer
    confidence    REAL,                        -- of an extractor, 0 to 1
    retired_at    TEXT,                        -- ISO 8601, UTC: since when it does not hold
    retired_noted_at TEXT,                     -- when that was noted: retention counts from there
    retired_why   TEXT,                        -- superseded, contradicted, merged, archived, …

    -- Further words for the full-text index: pairs of characters, of texts that have no spaces between
    -- words, whose lines it takes for one word each; the arguments of a call, with its result; the
    -- source of a document; and other writings of names and numbers.
    pairs         TEXT,

    -- 1: among the first of what is shown unasked.
    pinned        INTEGER,

    -- When it was stored, if its event_time was in the future then: what is new is decided by the
    -- earlier of the two, because some clocks are wrong. ISO 8601, UTC.
    stored_at     TEXT,
    UNIQUE (tenant, id)
);

CREATE INDEX record_fact ON record (tenant, scope, owner, content)
    WHERE kind = 'fact' AND superseded_by IS NULL;
CREATE UNIQUE INDEX record_chunk ON record (tenant, source_ref)
    WHERE kind = 'document_chunk' AND superseded_by IS NULL;
CREATE INDEX record_replaced ON record (tenant, superseded_by) WHERE superseded_by IS NOT NULL;
-- Of a place the active records of a time or a session are known without reading them.
CREATE INDEX record_place ON record (tenant, place, event_time, row, scope, session_id)
    WHERE superseded_by IS NULL;
-- Browsing walks from the newest record to the oldest: of a place or, with the others', of a tenant.
CREATE INDEX record_past ON record (tenant, place, event_time)
    WHERE superseded_by IS NOT NULL;
CREATE INDEX record_time ON record (tenant, event_time);
-- The facts of a place that matter most are known without reading the others.
CREATE INDEX record_important ON record (tenant, place, importance)
    WHERE kind = 'fact' AND superseded_by IS NULL;
CREATE INDEX record_by_query ON record (tenant, owner, query_id, session_id)
    WHERE query_id IS NOT NULL;
CREATE INDEX record_turn ON record (tenant, turn) WHERE turn IS NOT NULL;
CREATE INDEX record_alias ON record (tenant, alias) WHERE alias IS NOT NULL;
CREATE INDEX record_pending ON record (tenant, owner, session_id) WHERE pending = 1;
-- Messages that nobody searches are kept as `transcript`; what is heard by itself waits for its turn.
CREATE INDEX record_standing ON record (tenant, owner, session_id, ifnull(stands_at, row))
    WHERE kind IN ('chat_message', 'tool_output', 'transcript') AND superseded_by IS NULL;
CREATE UNIQUE INDEX record_active_topic ON record (tenant, scope, owner, folded_topic)
    WHERE folded_topic IS NOT NULL AND superseded_by IS NULL;
CREATE INDEX record_topic ON record (tenant, folded_topic, scope, owner)
    WHERE folded_topic IS NOT NULL;
CREATE INDEX record_revision ON record (tenant, place, revision);
CREATE INDEX record_retired ON record (tenant, place, retired_at) WHERE retired_at IS NOT NULL;
-- Tasks are found by their words only.
CREATE INDEX record_unsearched ON record (tenant)
    WHERE superseded_by IS NOT NULL OR kind = 'transcript' OR memory_type = 'task';
-- What is made to last is known without reading the rest, whatever its importance.
CREATE INDEX record_core ON record (tenant, place, importance)
    WHERE durability = 'core' AND kind = 'fact' AND superseded_by IS NULL;
-- Consolidation reads the facts of one place after the other.
CREATE INDEX record_facts ON record (tenant, place) WHERE kind = 'fact' AND superseded_by IS NULL;
CREATE INDEX record_erased ON record (tenant) WHERE retired_why = 'erased';
-- What belongs to an agent or to everybody, by who stated it.
CREATE INDEX record_stated ON record (tenant, stated_by)
    WHERE scope IN ('agent', 'tenant') AND stated_by IS NOT NULL;
CREATE INDEX record_to_anonymise ON record (tenant, retired_at)
    WHERE retired_at IS NOT NULL AND retired_why NOT IN ('anonymised', 'erased');
CREATE INDEX record_pinned ON record (tenant, place)
    WHERE pinned = 1 AND kind = 'fact' AND superseded_by IS NULL;
-- Standing facts of a place are known without reading the others, those that matter most first.
CREATE INDEX record_keyed ON record (tenant, place, importance)
    WHERE folded_topic IS NOT NULL AND kind = 'fact' AND superseded_by IS NULL;

-- What ranking reads of a text, computed when it is stored, so that no question has to: its stems,
-- each with how often it stands there, those of its beginning before a bar (" metal=2 | dens=1 "),
-- of a long text also in which passages (" metal=2@5 ", in the first and third); and what kind of
-- text it is.
CREATE TABLE feature (
    record    INTEGER PRIMARY KEY,           -- the row; a foreign key would cost FTS5 a flush a row
    stems     TEXT    NOT NULL,
    length    INTEGER NOT NULL,              -- characters
    density   REAL    NOT NULL,              -- share of the words that say what it is about
    firsthand INTEGER NOT NULL,              -- first-person words in sentences that ask nothing
    timed     INTEGER NOT NULL,              -- 1: such a sentence speaks of a time
    wish      INTEGER NOT NULL               -- 1: a sentence begins like a standing wish
);
CREATE TRIGGER feature_outdated AFTER UPDATE OF content, topic, label, event_time ON record BEGIN
    DELETE FROM feature WHERE record = new.row;
END;

CREATE TRIGGER record_revised_update
AFTER UPDATE OF content, topic, label, role, metadata, superseded_by, session_id, query_id, event_time,
                importance, durability, score, stands_at
ON record BEGIN
    UPDATE record SET revision = 1 + (
        SELECT max(revision) FROM record WHERE tenant = new.tenant AND place = new.place)
    WHERE row = new.row;
END;

-- How often a record was recalled, and when last: what is asked for matters.
CREATE TABLE access (
    record  INTEGER PRIMARY KEY,                 -- the row
    tenant  TEXT    NOT NULL,
    times   INTEGER NOT NULL,
    last    TEXT    NOT NULL,                    -- ISO 8601, UTC
    weighed INTEGER NOT NULL DEFAULT 0           -- so many of the times are in its importance
);

-- The vectors of a record, so that rebuilding an index embeds nothing: one of each embedder that has
-- an index, while another one is filled, two.
CREATE TABLE vector (
    record   INTEGER NOT NULL REFERENCES record (row) ON DELETE CASCADE,
    embedder TEXT    NOT NULL,
    data     BLOB    NOT NULL                    -- of 16 bits
);
CREATE UNIQUE INDEX vector_of_record ON vector (record, embedder);
CREATE TRIGGER vector_revised_insert AFTER INSERT ON vector BEGIN
    UPDATE record SET revision = 1 + (
        SELECT max(other.revision) FROM record AS other
        WHERE other.tenant = record.tenant AND other.place = record.place)
    WHERE row = new.record;
END;
CREATE TRIGGER vector_revised_update AFTER UPDATE ON vector BEGIN
    UPDATE record SET revision = 1 + (
        SELECT max(other.revision) FROM record AS other
        WHERE other.tenant = record.tenant AND other.place = record.place)
    WHERE row = new.record;
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

-- A rating belongs to an answer. It may come before: then `answer` is NULL, and the first of its
-- query takes it.
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
CREATE UNIQUE INDEX feedback_answer ON feedback (tenant, answer) WHERE answer IS NOT NULL;
CREATE UNIQUE INDEX feedback_waiting ON feedback (tenant, owner, query_id, ifnull(session_id, ''))
    WHERE answer IS NULL;

-- Who changed what, why, and in which run of several changes; `detail` has what it was before.
CREATE TABLE audit (
    row        INTEGER PRIMARY KEY,
    tenant     TEXT NOT NULL,
    action     TEXT NOT NULL,
    record_id  TEXT NOT NULL,
    agent      TEXT,
    detail     TEXT NOT NULL DEFAULT '{}',
    event_time TEXT NOT NULL,
    user       TEXT,
    reason     TEXT,
    run        TEXT
);
CREATE INDEX audit_by_record ON audit (tenant, record_id);
CREATE INDEX audit_by_run ON audit (tenant, run) WHERE run IS NOT NULL;
-- The other records that a detail names: where one is erased, it is no longer named.
CREATE TABLE audit_name (
    tenant TEXT    NOT NULL,
    id     TEXT    NOT NULL,
    audit  INTEGER NOT NULL REFERENCES audit (row) ON DELETE CASCADE,
    PRIMARY KEY (tenant, id, audit)
) WITHOUT ROWID;
CREATE INDEX audit_name_of ON audit_name (audit);

-- Tool outputs too long for a model, whole, in the parts in which they came. Positions count
-- characters, from the beginning of the output; text may hold NUL, at which SQL's length() stops.
CREATE TABLE tool_output (
    tenant  TEXT    NOT NULL,
    owner   TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    first   INTEGER NOT NULL,
    until   INTEGER NOT NULL,                -- where the next part begins
    last    INTEGER NOT NULL,                -- 1: there is no next part
    kept_at TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP,
    text    TEXT    NOT NULL,
    PRIMARY KEY (tenant, owner, key, first)
);

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
-- An import looks whether a session has a note already, merged or not.
CREATE INDEX note_of_session ON note (tenant, owner, session_id, event_time);

-- What was shown to a user and when: by a recall, where recalls are logged, or before an answer.
CREATE TABLE showing (
    row        INTEGER PRIMARY KEY,
    tenant     TEXT NOT NULL,
    owner      TEXT NOT NULL,
    agent      TEXT,
    session_id TEXT,
    query_id   TEXT,
    question   TEXT,                         -- of a recall
    answer     TEXT,                         -- of a turn: the id of its episode
    shown_at   TEXT NOT NULL
);
CREATE INDEX showing_session ON showing (tenant, owner, session_id, row);
CREATE INDEX showing_query ON showing (tenant, owner, query_id, row) WHERE query_id IS NOT NULL;
CREATE UNIQUE INDEX showing_answer ON showing (tenant, answer) WHERE answer IS NOT NULL;
CREATE INDEX showing_logged ON showing (tenant, shown_at) WHERE question IS NOT NULL;
CREATE TABLE shown (
    tenant   TEXT    NOT NULL,
    showing  INTEGER NOT NULL,               -- the row of `showing`
    position INTEGER NOT NULL,               -- from 0, the best
    record   TEXT    NOT NULL,               -- its id
    score    REAL,                           -- in a recall
    PRIMARY KEY (tenant, showing, position)
) WITHOUT ROWID;
CREATE INDEX shown_record ON shown (tenant, record, showing);

-- What frameworks store exactly, under a namespace and a key. A namespace is its parts as JSON, each with a
-- comma behind, so that what lies within it begins with it, and nothing else does.
CREATE TABLE item (
    row        INTEGER PRIMARY KEY,
    tenant     TEXT NOT NULL,
    owner      TEXT NOT NULL,
    collection TEXT NOT NULL,                -- whose application's
    namespace  TEXT NOT NULL,
    key        TEXT NOT NULL,
    value      BLOB,                         -- JSON
    data       BLOB,
    record     TEXT,                         -- the id of the record by which it is found
    session_id TEXT,                         -- in which it was stored last
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE UNIQUE INDEX item_key ON item (tenant, owner, collection, namespace, key);
CREATE INDEX item_session ON item (tenant, owner, session_id);
CREATE INDEX item_record ON item (tenant, record) WHERE record IS NOT NULL;

-- What has yet to be done with a record is a row here, written in the transaction that writes the
-- record, and deleted in the one that stores what was done. The index has whatever is searched and has
-- no task to be indexed.
CREATE TABLE task (
    tenant     TEXT    NOT NULL,
    kind       TEXT    NOT NULL,                 -- index, unindex, judge
    record     INTEGER NOT NULL,                 -- its row
    place      TEXT    NOT NULL,                 -- the record's: owners have turns
    state      TEXT    NOT NULL DEFAULT 'waits', -- later: failed, and is tried again; aside: no more
    attempts   INTEGER NOT NULL DEFAULT 0,       -- how often it failed by itself
    not_before TEXT,                             -- ISO 8601, UTC; of what is tried again
    error      TEXT,                             -- why it failed
    id         TEXT,                             -- what the index knows a record by whose own id is erased
    PRIMARY KEY (tenant, kind, record)
) WITHOUT ROWID;
CREATE INDEX task_turn ON task (tenant, kind, state, place);
CREATE INDEX task_due ON task (tenant, kind, not_before) WHERE state = 'later';

-- What was erased on request does not come back: a keyed hash of each record's identity. Whose it
-- was, and by what it was chosen, are keyed hashes, too: by them tombstones are lifted again.
CREATE TABLE tombstone (
    tenant    TEXT NOT NULL,
    digest    TEXT NOT NULL,
    erased_at TEXT NOT NULL,
    whose     TEXT NOT NULL,
    chosen    TEXT NOT NULL,
    PRIMARY KEY (tenant, digest)
) WITHOUT ROWID;
CREATE INDEX tombstone_whose ON tombstone (tenant, whose);
CREATE TABLE erasure (
    key BLOB NOT NULL                            -- of the tombstones' hashes
);
INSERT INTO erasure (key) VALUES (randomblob(32));

-- The daily runs of consolidation.
CREATE TABLE consolidation (
    tenant   TEXT    NOT NULL,
    run      TEXT    NOT NULL,
    began_at TEXT    NOT NULL,                   -- ISO 8601, UTC
    ended_at TEXT,                               -- NULL: it goes on, or was killed
    changed  INTEGER NOT NULL DEFAULT 0,
    failed   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, run)
) WITHOUT ROWID;
CREATE INDEX consolidation_begun ON consolidation (tenant, began_at);

-- How much each tenant stores, so that a limit costs no counting: records that are not erased, and bytes
-- of their texts, of notes, items and tools' long outputs. Nothing here may abort (see backlog.sql).
CREATE TABLE usage (
    tenant  TEXT PRIMARY KEY,
    records INTEGER,
    bytes   INTEGER
) WITHOUT ROWID;
CREATE TRIGGER record_used AFTER INSERT ON record BEGIN
    INSERT OR IGNORE INTO usage (tenant, records, bytes) VALUES (new.tenant, 0, 0);
    UPDATE usage SET records = records + (new.retired_why IS NOT 'erased'),
                     bytes = bytes + length(CAST(new.content AS BLOB))
    WHERE tenant = new.tenant;
END;
CREATE TRIGGER record_used_otherwise AFTER UPDATE OF content, retired_why ON record BEGIN
    UPDATE usage SET
        records = records + (new.retired_why IS NOT 'erased') - (old.retired_why IS NOT 'erased'),
        bytes = bytes + length(CAST(new.content AS BLOB)) - length(CAST(old.content AS BLOB))
    WHERE tenant = new.tenant;
END;
CREATE TRIGGER note_used AFTER INSERT ON note BEGIN
    INSERT OR IGNORE INTO usage (tenant, records, bytes) VALUES (new.tenant, 0, 0);
    UPDATE usage SET bytes = bytes + length(CAST(new.content AS BLOB)) WHERE tenant = new.tenant;
END;
CREATE TRIGGER note_freed AFTER DELETE ON note BEGIN
    UPDATE usage SET bytes = bytes - length(CAST(old.content AS BLOB)) WHERE tenant = old.tenant;
END;
CREATE TRIGGER output_used AFTER INSERT ON tool_output BEGIN
    INSERT OR IGNORE INTO usage (tenant, records, bytes) VALUES (new.tenant, 0, 0);
    UPDATE usage SET bytes = bytes + length(CAST(new.text AS BLOB)) WHERE tenant = new.tenant;
END;
CREATE TRIGGER output_freed AFTER DELETE ON tool_output BEGIN
    UPDATE usage SET bytes = bytes - length(CAST(old.text AS BLOB)) WHERE tenant = old.tenant;
END;
CREATE TRIGGER item_used AFTER INSERT ON item BEGIN
    INSERT OR IGNORE INTO usage (tenant, records, bytes) VALUES (new.tenant, 0, 0);
    UPDATE usage SET bytes = bytes + ifnull(length(new.value), 0) + ifnull(length(new.data), 0)
    WHERE tenant = new.tenant;
END;
CREATE TRIGGER item_used_otherwise AFTER UPDATE OF value, data ON item BEGIN
    UPDATE usage SET bytes = bytes + ifnull(length(new.value), 0) + ifnull(length(new.data), 0)
                           - ifnull(length(old.value), 0) - ifnull(length(old.data), 0)
    WHERE tenant = new.tenant;
END;
CREATE TRIGGER item_freed AFTER DELETE ON item BEGIN
    UPDATE usage SET bytes = bytes - ifnull(length(old.value), 0) - ifnull(length(old.data), 0)
    WHERE tenant = old.tenant;
END;

-- The words by which records are found.
CREATE VIRTUAL TABLE record_text USING fts5 (
    content, topic, label, said, places, pairs,
    content = 'record', content_rowid = 'row', tokenize = 'porter unicode61'
);
CREATE TRIGGER record_text_insert AFTER INSERT ON record BEGIN
    INSERT INTO record_text (rowid, content, topic, label, said, places, pairs)
    VALUES (new.row, new.content, new.topic, new.label, new.said, new.places, new.pairs);
END;
CREATE TRIGGER record_text_delete AFTER DELETE ON record BEGIN
    INSERT INTO record_text (record_text, rowid, content, topic, label, said, places, pairs)
    VALUES ('delete', old.row, old.content, old.topic, old.label, old.said, old.places, old.pairs);
END;
CREATE TRIGGER record_text_update
AFTER UPDATE OF content, topic, label, superseded_by, tenant, scope, owner, kind, session_id,
                event_time, pairs
ON record BEGIN
    INSERT INTO record_text (record_text, rowid, content, topic, label, said, places, pairs)
    VALUES ('delete', old.row, old.content, old.topic, old.label, old.said, old.places, old.pairs);
    INSERT INTO record_text (rowid, content, topic, label, said, places, pairs)
    VALUES (new.row, new.content, new.topic, new.label, new.said, new.places, new.pairs);
END;
