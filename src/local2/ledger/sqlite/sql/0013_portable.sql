-- An import looks whether a session has a note already, merged or not.
CREATE INDEX note_of_session ON note (tenant, owner, session_id, event_time);

-- A record has a vector of each embedder that has an index: while another one is filled, of two.
-- data: float32.
DROP TRIGGER vector_revised_insert;
DROP TRIGGER vector_revised_update;
ALTER TABLE vector RENAME TO former_vector;
CREATE TABLE vector (
    record   INTEGER NOT NULL REFERENCES record (row) ON DELETE CASCADE,
    embedder TEXT    NOT NULL,
    data     BLOB    NOT NULL
);
INSERT INTO vector (record, embedder, data) SELECT record, embedder, data FROM former_vector;
DROP TABLE former_vector;
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
