-- Who stated a record, and in which capacity; what an extractor read in it; when and why it was retired.
-- A record that is retired with nothing in its place has an empty `superseded_by`.
ALTER TABLE record ADD COLUMN source_class TEXT NOT NULL DEFAULT 'asserted';
                                                 -- stated, answered, observed, document, asserted
ALTER TABLE record ADD COLUMN stated_by TEXT;    -- the user; '': nobody is named; NULL: not known
ALTER TABLE record ADD COLUMN summary TEXT;
ALTER TABLE record ADD COLUMN keywords TEXT NOT NULL DEFAULT '[]';  -- JSON
ALTER TABLE record ADD COLUMN queries TEXT NOT NULL DEFAULT '[]';   -- JSON: what it would answer
ALTER TABLE record ADD COLUMN confidence REAL;   -- of an extractor, 0 to 1
ALTER TABLE record ADD COLUMN retired_at TEXT;   -- ISO 8601, UTC: since when it does not hold
ALTER TABLE record ADD COLUMN retired_noted_at TEXT;  -- when that was noted: retention counts from there
ALTER TABLE record ADD COLUMN retired_why TEXT;  -- superseded, contradicted, merged, archived, …

-- Older ledgers have it in the kind, the role, the owner and the metadata.
DROP TRIGGER record_revised_update;
UPDATE record SET
    source_class = CASE
        WHEN kind = 'document_chunk' THEN 'document'
        WHEN kind = 'tool_output' OR role = 'tool' THEN 'observed'
        WHEN role = 'user' THEN 'stated'
        WHEN role IS NOT NULL OR kind = 'episode' AND turn IS NOT NULL THEN 'answered'
        ELSE 'asserted' END,
    stated_by = CASE
        WHEN scope IN ('session', 'user') THEN owner
        ELSE json_extract(metadata, '$.stated_by') END;
UPDATE record SET metadata = json_remove(metadata, '$.stated_by')
WHERE json_type(metadata, '$.stated_by') IS NOT NULL;
UPDATE record SET
    retired_why = 'superseded',
    retired_at = (SELECT min(audit.event_time) FROM audit
                  WHERE audit.tenant = record.tenant AND audit.record_id = record.id
                    AND audit.action = 'superseded')
WHERE superseded_by IS NOT NULL;
CREATE TRIGGER record_revised_update
AFTER UPDATE OF content, topic, label, role, metadata, superseded_by, session_id, query_id, event_time,
                importance, durability, score, stands_at
ON record BEGIN
    UPDATE record SET revision = 1 + (
        SELECT max(revision) FROM record WHERE tenant = new.tenant AND place = new.place)
    WHERE row = new.row;
END;
CREATE INDEX record_retired ON record (tenant, place, retired_at) WHERE retired_at IS NOT NULL;

-- Who changed what, why, and in which run of several changes; `detail` has what it was before.
ALTER TABLE audit ADD COLUMN user TEXT;
ALTER TABLE audit ADD COLUMN reason TEXT;
ALTER TABLE audit ADD COLUMN run TEXT;
CREATE INDEX audit_by_run ON audit (tenant, run) WHERE run IS NOT NULL;

-- How often a record was recalled, and when last: what is asked for matters.
CREATE TABLE access (
    record  INTEGER PRIMARY KEY,                 -- the row
    tenant  TEXT    NOT NULL,
    times   INTEGER NOT NULL,
    last    TEXT    NOT NULL,                    -- ISO 8601, UTC
    weighed INTEGER NOT NULL DEFAULT 0           -- so many of the times are in its importance
);

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

-- Tasks are found by their words only.
DROP INDEX record_unsearched;
CREATE INDEX record_unsearched ON record (tenant)
    WHERE superseded_by IS NOT NULL OR kind = 'transcript' OR memory_type = 'task';

-- What is made to last is known without reading the rest, whatever its importance.
CREATE INDEX record_core ON record (tenant, place, importance)
    WHERE durability = 'core' AND kind = 'fact' AND superseded_by IS NULL;

-- Consolidation reads the facts of one place after the other, and notes its daily runs.
CREATE INDEX record_facts ON record (tenant, place) WHERE kind = 'fact' AND superseded_by IS NULL;
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

-- The key of the tombstones. residue: 1 until what an earlier local2 deleted is overwritten in the file.
CREATE TABLE erasure (
    key     BLOB    NOT NULL,
    residue INTEGER NOT NULL
);
INSERT INTO erasure SELECT randomblob(32), EXISTS (SELECT 1 FROM record);
CREATE INDEX tombstone_whose ON tombstone (tenant, whose);
CREATE INDEX record_erased ON record (tenant) WHERE retired_why = 'erased';
-- What belongs to an agent or to everybody, by who stated it.
CREATE INDEX record_stated ON record (tenant, stated_by)
    WHERE scope IN ('agent', 'tenant') AND stated_by IS NOT NULL;
CREATE INDEX record_to_anonymise ON record (tenant, retired_at)
    WHERE retired_at IS NOT NULL AND retired_why NOT IN ('anonymised', 'erased');
-- What the index knows a record by whose own id is erased.
ALTER TABLE task ADD COLUMN id TEXT;
