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
