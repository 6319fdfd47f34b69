-- Pairs of characters, of texts that have no spaces between words: the full-text index takes a whole
-- line of those for one word. Null for all others.
ALTER TABLE record ADD COLUMN pairs TEXT;

DROP TRIGGER record_text_insert;
DROP TRIGGER record_text_delete;
DROP TRIGGER record_text_update;
DROP TABLE record_text;
CREATE VIRTUAL TABLE record_text USING fts5 (
    content, topic, label, said, places, pairs,
    content = 'record', content_rowid = 'row', tokenize = 'porter unicode61'
);
INSERT INTO record_text (record_text) VALUES ('rebuild');
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

-- Their features are read again, in the background, as those of older ledgers are.
DELETE FROM feature WHERE record IN (
    SELECT row FROM record
    WHERE content || ' ' || ifnull(topic, '') || ' ' || ifnull(label, '') || ' ' || keywords
          GLOB '*[' || char(0x0e01) || '-' || char(0x0eff)            -- Thai, Lao
                    || char(0x3005) || '-' || char(0xd7a3)            -- Japanese, Chinese, Korean
                    || char(0xf900) || '-' || char(0xfaff)
                    || char(0xff66) || '-' || char(0xff9f)
                    || char(0x20000) || '-' || char(0x3fffd) || ']*');
