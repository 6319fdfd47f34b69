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
