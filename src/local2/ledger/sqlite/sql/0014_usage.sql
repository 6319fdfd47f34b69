-- How much each tenant stores, so that a limit costs no counting: records that are not erased, and bytes
-- of their texts, of notes and of tools' long outputs. Nothing here may abort (see backlog.sql).
CREATE TABLE usage (
    tenant  TEXT PRIMARY KEY,
    records INTEGER,
    bytes   INTEGER
) WITHOUT ROWID;
INSERT INTO usage (tenant, records, bytes)
SELECT tenant, sum(records), sum(bytes) FROM (
    SELECT tenant, count(*) AS records, sum(length(CAST(content AS BLOB))) AS bytes FROM record
    WHERE retired_why IS NOT 'erased' GROUP BY tenant
    UNION ALL
    SELECT tenant, 0, sum(length(CAST(content AS BLOB))) FROM note GROUP BY tenant
    UNION ALL
    SELECT tenant, 0, sum(length(CAST(text AS BLOB))) FROM tool_output GROUP BY tenant
) GROUP BY tenant;

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
