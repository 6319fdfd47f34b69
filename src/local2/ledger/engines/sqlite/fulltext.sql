-- The full-text index is FTS5's.

-- name: search_text
SELECT rowid AS row, -bm25(record_text, 1, 1, 1, 1, 0) AS bm25 FROM record_text
WHERE record_text MATCH :match ORDER BY bm25(record_text, 1, 1, 1, 1, 0) LIMIT :limit;

-- name: search_text_in_time
SELECT record.row, -bm25(record_text, 1, 1, 1, 1, 0) AS bm25 FROM record_text
CROSS JOIN record ON record.row = record_text.rowid
WHERE record_text MATCH :match AND +record.tenant = :tenant
  AND +record.place IN (SELECT value FROM json_each(:places))
  AND record.event_time >= ifnull(:since, '') AND record.event_time <= ifnull(:until, '9')
ORDER BY bm25(record_text, 1, 1, 1, 1, 0) LIMIT :limit;

-- The next two name no tenant. Their callers add a word to :match that stands for the tenant and the
-- place (`place_word`, places.py), or see numbers only; `visible` decides who sees a row.
-- name: search_phrase
SELECT rowid AS row FROM record_text WHERE record_text MATCH :match LIMIT :limit;

-- name: count_text
SELECT count(*), min(rowid) FROM (
    SELECT rowid FROM record_text WHERE record_text MATCH :match ORDER BY rowid DESC LIMIT :probe);

-- Names no tenant; `browse_rows` decides which of the rows are the tenant's, and who sees them.
-- name: rows_with_words
SELECT rowid AS row FROM record_text WHERE record_text MATCH :match AND rowid < :before_row
ORDER BY rowid DESC LIMIT :limit;

-- name: facts_like
SELECT record.* FROM record_text CROSS JOIN record ON record.row = record_text.rowid
WHERE record_text MATCH :match AND +record.tenant = :tenant
  AND record.kind = 'fact' AND record.superseded_by IS NULL
ORDER BY bm25(record_text, 1, 1, 1, 1, 0) LIMIT :limit;

-- name: text_traces
SELECT count(*) AS found FROM record_text
WHERE record_text MATCH :match AND +rowid IN (
      SELECT row FROM json_each(:rows) CROSS JOIN record ON row = value WHERE +tenant = :tenant);

-- name: merge_text
INSERT INTO record_text (record_text, rank) VALUES ('merge', :pages);

-- name: check_full_text
INSERT INTO record_text (record_text, rank) VALUES ('integrity-check', 1);
