-- Of a place the active records of a time or a session are known without reading them.
DROP INDEX record_place;
CREATE INDEX record_place ON record (tenant, place, event_time, scope, session_id)
    WHERE superseded_by IS NULL;
