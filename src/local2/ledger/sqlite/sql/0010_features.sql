-- What ranking reads of a text, computed when it is stored, so that no question has to: its stems,
-- each with how often it stands there, those of its beginning before a bar (" metal=2 | dens=1 "),
-- and what kind of text it is. Records of older ledgers get theirs in the background.
CREATE TABLE feature (
    record    INTEGER PRIMARY KEY,           -- the row; a foreign key would cost FTS5 a flush a row
    stems     TEXT    NOT NULL,
    length    INTEGER NOT NULL,              -- characters
    density   REAL    NOT NULL,              -- share of the words that say what it is about
    firsthand INTEGER NOT NULL,              -- first-person words in sentences that ask nothing
    timed     INTEGER NOT NULL,              -- 1: such a sentence speaks of a time
    wish      INTEGER NOT NULL               -- 1: a sentence begins like a standing wish
);

-- Recall keeps in memory what it ranks by; a place's highest revisions are what changed since. A new
-- record is inserted with its revision: a trigger that updates it would cost FTS5 a flush a row.
ALTER TABLE record ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
CREATE INDEX record_revision ON record (tenant, place, revision);
CREATE TRIGGER record_revised_update
AFTER UPDATE OF content, topic, label, role, metadata, superseded_by, session_id, query_id, event_time,
                importance, durability, score, stands_at
ON record BEGIN
    UPDATE record SET revision = 1 + (
        SELECT max(revision) FROM record WHERE tenant = new.tenant AND place = new.place)
    WHERE row = new.row;
END;
CREATE TRIGGER feature_outdated AFTER UPDATE OF content, topic, label, event_time ON record BEGIN
    DELETE FROM feature WHERE record = new.row;
END;
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
