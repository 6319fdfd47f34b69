-- A rating belongs to whose answer it is: query ids are chosen by clients, and may be alike.
ALTER TABLE feedback RENAME TO former_feedback;
CREATE TABLE feedback (
    tenant     TEXT NOT NULL,
    owner      TEXT NOT NULL,
    query_id   TEXT NOT NULL,
    score      REAL NOT NULL,
    comment    TEXT,
    event_time TEXT NOT NULL,
    PRIMARY KEY (tenant, owner, query_id)
) WITHOUT ROWID;
INSERT OR IGNORE INTO feedback (tenant, owner, query_id, score, comment, event_time)
SELECT former.tenant, ifnull(record.owner, ''), former.query_id, former.score, former.comment,
       former.event_time
FROM former_feedback AS former
LEFT JOIN record ON record.tenant = former.tenant AND record.query_id = former.query_id;
DROP TABLE former_feedback;
