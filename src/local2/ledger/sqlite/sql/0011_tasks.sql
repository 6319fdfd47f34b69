-- What has yet to be done with a record is a row here, written in the transaction that writes the
-- record, and deleted in the one that stores what was done. The columns `index_state` and `unjudged`
-- of `record` are read no more: the index has whatever is searched and has no task to be indexed.
CREATE TABLE task (
    tenant     TEXT    NOT NULL,
    kind       TEXT    NOT NULL,                 -- index, unindex, judge
    record     INTEGER NOT NULL,                 -- its row
    place      TEXT    NOT NULL,                 -- the record's: owners have turns
    state      TEXT    NOT NULL DEFAULT 'waits', -- later: failed, and is tried again; aside: no more
    attempts   INTEGER NOT NULL DEFAULT 0,       -- how often it failed by itself
    not_before TEXT,                             -- ISO 8601, UTC; of what is tried again
    error      TEXT,                             -- why it failed
    PRIMARY KEY (tenant, kind, record)
) WITHOUT ROWID;
CREATE INDEX task_turn ON task (tenant, kind, state, place);
CREATE INDEX task_due ON task (tenant, kind, not_before) WHERE state = 'later';

INSERT INTO task (tenant, kind, record, place)
SELECT tenant, 'index', row, place FROM record WHERE index_state = 0 AND superseded_by IS NULL;
INSERT INTO task (tenant, kind, record, place)
SELECT tenant, 'unindex', row, place FROM record WHERE index_state = 2;
INSERT INTO task (tenant, kind, record, place)
SELECT tenant, 'judge', row, place FROM record WHERE unjudged = 1;

DROP INDEX record_queue;
DROP INDEX record_waiting;
DROP INDEX record_removing;
DROP INDEX record_out;
DROP INDEX record_unjudged;
CREATE INDEX record_unsearched ON record (tenant)
    WHERE superseded_by IS NOT NULL OR kind = 'transcript';
