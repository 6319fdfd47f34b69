-- Topic keys are compared without regard to capitals and forms of letters; `topic` is shown as it was
-- first written. Keys of former releases are lower-case ASCII, and so are folded already.
ALTER TABLE record ADD COLUMN folded_topic TEXT;
UPDATE record SET folded_topic = topic WHERE topic IS NOT NULL;

DROP INDEX record_active_topic;
CREATE UNIQUE INDEX record_active_topic ON record (tenant, scope, owner, folded_topic)
    WHERE folded_topic IS NOT NULL AND superseded_by IS NULL;
DROP INDEX record_topic;
CREATE INDEX record_topic ON record (tenant, folded_topic, scope, owner)
    WHERE folded_topic IS NOT NULL;
