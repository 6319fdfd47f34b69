-- An import looks whether a session has a note already, merged or not.
CREATE INDEX note_of_session ON note (tenant, owner, session_id, event_time);
