-- When a record was stored, if its event_time was in the future then: what is new is decided by the
-- earlier of the two, because some clocks are wrong.
ALTER TABLE record ADD COLUMN stored_at TEXT;      -- ISO 8601, UTC

UPDATE record SET stored_at = strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')
WHERE event_time > strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now');
