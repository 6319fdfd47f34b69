-- The words of records are numbers, each of a stem in a place (`word_in`, schema.sql). Active records
-- have them; what is retired is found by its time.

-- part: searched_words
ARRAY(SELECT word_in(searched.place, asked.stem)
      FROM jsonb_array_elements_text(:places::jsonb) AS searched (place)
      CROSS JOIN jsonb_array_elements_text(:stems::jsonb) AS asked (stem))

-- Ordered by a sum, not by the column, here and below: else the server, which takes a tenth of all
-- records to have the words, would look for the newest ones with them by reading all words of all.
-- name: rows_with_any
SELECT found.record AS row, feature.stems FROM (
    SELECT record_words.record FROM record_words
    WHERE record_words.active AND record_words.words && {searched_words}
    ORDER BY record_words.record + 0 DESC LIMIT :limit) AS found
JOIN feature ON feature.record = found.record AND feature.tenant = :tenant
ORDER BY found.record DESC;

-- The same of some sessions or times, which the records tell.
-- name: rows_with_any_within
SELECT found.row, feature.stems FROM (
    SELECT record.row FROM record_words JOIN record ON record.row = record_words.record
    WHERE record_words.active AND record_words.words && {searched_words}
      AND record.tenant = :tenant AND record.superseded_by IS NULL
      AND (:session_id::text IS NULL OR record.session_id = :session_id)
      AND (:excluded_session::text IS NULL OR record.scope <> 'session'
           OR record.session_id IS DISTINCT FROM :excluded_session)
      AND record.event_time >= coalesce(:since, '') AND record.event_time <= coalesce(:until, '9')
    ORDER BY record.row + 0 DESC LIMIT :limit) AS found
JOIN feature ON feature.record = found.row AND feature.tenant = :tenant
ORDER BY found.row DESC;

-- name: count_words
SELECT stem.value AS stem, (
    SELECT count(*) FROM (
        SELECT 1 FROM record_words
        WHERE record_words.active
          AND record_words.words && ARRAY(
              SELECT word_in(searched.place, stem.value)
              FROM jsonb_array_elements_text(:places::jsonb) AS searched (place))
        LIMIT :probe) AS found) AS count
FROM jsonb_array_elements_text(:stems::jsonb) AS stem (value);

-- name: count_in_places
SELECT count(*) AS count FROM record
WHERE tenant = :tenant AND place IN (SELECT jsonb_array_elements_text(:places::jsonb))
  AND superseded_by IS NULL;

-- The texts that have all words of a phrase; whether these follow each other is seen in the texts.
-- name: texts_with_all
SELECT record.row, record.content, record.topic, record.label FROM record_words JOIN record ON record.row = record_words.record
WHERE record_words.active AND record_words.words && {searched_words}
  AND record.tenant = :tenant AND record.superseded_by IS NULL
  AND record.place IN (SELECT jsonb_array_elements_text(:places::jsonb))
  AND record_words.words @> ARRAY(SELECT word_in(record.place, stem)
                                  FROM jsonb_array_elements_text(:stems::jsonb) AS stem)
ORDER BY record.row + 0 LIMIT :limit;

-- name: rows_with_all
SELECT record.row FROM record JOIN record_words ON record_words.record = record.row
WHERE record.tenant = :tenant AND record.row < :before_row
  AND record_words.words @> ARRAY(SELECT word_in(record.place, stem)
                                  FROM jsonb_array_elements_text(:stems::jsonb) AS stem)
ORDER BY record.row DESC LIMIT :limit;

-- name: active_rows_with_all
SELECT record.row FROM record_words JOIN record ON record.row = record_words.record
WHERE record_words.active AND record_words.words && {searched_words}
  AND record.tenant = :tenant AND record.row < :before_row AND record.superseded_by IS NULL
  AND record.place IN (SELECT jsonb_array_elements_text(:places::jsonb))
  AND record_words.words @> ARRAY(SELECT word_in(record.place, stem)
                                  FROM jsonb_array_elements_text(:stems::jsonb) AS stem)
ORDER BY record.row + 0 DESC LIMIT :limit;

-- name: facts_with_any
SELECT record.row, feature.stems FROM record_words
JOIN record ON record.row = record_words.record
JOIN feature ON feature.record = record.row
WHERE record_words.active AND record_words.words && {searched_words}
  AND record.tenant = :tenant AND record.kind = 'fact' AND record.superseded_by IS NULL
ORDER BY record.row + 0 DESC LIMIT :limit;

-- name: text_traces
SELECT count(*) AS found FROM record JOIN record_words ON record_words.record = record.row
WHERE record.tenant = :tenant
  AND record.row IN (SELECT * FROM unnest(CAST(translate(:rows, '[]', '{}') AS bigint[])));
