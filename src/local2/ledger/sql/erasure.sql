-- Erases what owners chose, and anonymises records that were retired long ago. The row of an erased
-- record stays as a shell, because rows are counted (decision 0023), without its content and owner.

-- name: rows_of_owner
SELECT row FROM record INDEXED BY record_revision
WHERE tenant = :tenant AND place IN (SELECT value FROM json_each(:places))
  AND (:session_id IS NULL OR session_id = :session_id
       AND json_type(metadata, '$.extracted_from') IS NULL) -- erased with the last of their sources
  AND retired_why IS NOT 'erased'
UNION
SELECT row FROM record INDEXED BY record_stated
WHERE tenant = :tenant AND stated_by = :owner AND scope IN ('agent', 'tenant')
  AND (:session_id IS NULL OR session_id = :session_id
       AND json_type(metadata, '$.extracted_from') IS NULL);

-- name: rows_of_topic
SELECT row FROM record INDEXED BY record_topic
WHERE tenant = :tenant AND folded_topic = :topic
  AND CASE WHEN scope IN ('session', 'user') THEN owner ELSE stated_by END = :owner;

-- name: rows_of_id
WITH RECURSIVE newer (id) AS (
    SELECT id FROM record WHERE tenant = :tenant AND id = :id
    UNION
    SELECT id FROM record INDEXED BY record_alias
    WHERE tenant = :tenant AND alias IS NOT NULL AND alias = :id
    UNION
    SELECT superseded_by FROM record JOIN newer USING (id)
    WHERE tenant = :tenant AND superseded_by IS NOT NULL
), versions (id) AS (
    SELECT id FROM newer UNION
    SELECT record.id FROM record JOIN versions ON record.superseded_by = versions.id
    WHERE record.tenant = :tenant AND versions.id != ''
)
SELECT row FROM record JOIN versions USING (id)
WHERE tenant = :tenant AND CASE WHEN scope IN ('session', 'user') THEN owner ELSE stated_by END = :owner;

-- name: rows_of_turns
SELECT other.row FROM json_each(:rows) AS wanted
CROSS JOIN record AS one ON one.row = wanted.value AND +one.tenant = :tenant
CROSS JOIN record AS other INDEXED BY record_turn
     ON other.tenant = :tenant AND other.turn = one.turn AND other.owner = :owner;

-- All other chunks of the same documents, including older ones; source_ref is "source#number".
-- name: rows_of_documents
SELECT other.row FROM json_each(:rows) AS wanted
CROSS JOIN record AS one ON one.row = wanted.value AND +one.tenant = :tenant
     AND one.kind = 'document_chunk'
CROSS JOIN record AS other INDEXED BY record_stated
     ON other.tenant = :tenant AND other.stated_by = :owner AND other.scope IN ('agent', 'tenant')
     AND other.kind = 'document_chunk'
WHERE rtrim(other.source_ref, '0123456789') = rtrim(one.source_ref, '0123456789');

-- The outputs that these are parts of.
-- name: rows_of_outputs
SELECT whole.row FROM json_each(:rows) AS wanted
CROSS JOIN record AS one ON one.row = wanted.value AND +one.tenant = :tenant
     AND one.kind = 'output_part'
CROSS JOIN relation ON relation.tenant = :tenant AND relation.source = one.id
     AND relation.type = 'derived_from'
CROSS JOIN record AS whole ON whole.tenant = :tenant AND whole.id = relation.target
     AND +whole.owner = :owner;

-- name: rows_derived
SELECT DISTINCT item.row FROM json_each(:ids) AS gone
CROSS JOIN relation INDEXED BY relation_target
     ON relation.tenant = :tenant AND relation.target = gone.value AND relation.type = 'derived_from'
CROSS JOIN record AS item ON item.tenant = :tenant AND item.id = relation.source
WHERE CASE WHEN item.scope IN ('session', 'user') THEN item.owner ELSE item.stated_by END = :owner
  AND NOT EXISTS (
      SELECT 1 FROM relation AS other
      WHERE other.tenant = :tenant AND other.source = item.id AND other.type = 'derived_from'
        AND other.target NOT IN (SELECT value FROM json_each(:ids)));

-- name: rows_in_scopes
SELECT record.row FROM json_each(:rows) AS wanted
CROSS JOIN record ON record.row = wanted.value
WHERE +record.tenant = :tenant AND record.scope IN (SELECT value FROM json_each(:scopes))
ORDER BY wanted.key;

-- name: to_erase
SELECT record.row, record.id, record.alias, record.kind, record.role, record.source_class,
       record.query_id, record.content,
       json_extract(record.metadata, '$.tool_output_key') AS key,
       record.superseded_by IS NULL OR EXISTS (
           SELECT 1 FROM task WHERE task.tenant = :tenant AND task.kind = 'unindex'
             AND task.record = record.row) AS indexed
FROM json_each(:rows) AS wanted
CROSS JOIN record ON record.row = wanted.value
WHERE +record.tenant = :tenant AND record.retired_why IS NOT 'erased' ORDER BY wanted.key;

-- name: ids_of
SELECT record.id FROM json_each(:rows) AS wanted
CROSS JOIN record ON record.row = wanted.value WHERE +record.tenant = :tenant;

-- name: extracted_from_erased
SELECT DISTINCT record.id FROM json_each(:ids) AS gone
CROSS JOIN relation INDEXED BY relation_target
     ON relation.tenant = :tenant AND relation.target = gone.value AND relation.type = 'derived_from'
CROSS JOIN record ON record.tenant = :tenant AND record.id = relation.source
WHERE json_type(record.metadata, '$.extracted_from') IS NOT NULL;

-- What says whose a record was and what was in it, beside its content.
-- part: cleared
owner = '', stated_by = NULL, agent = NULL, session_id = NULL, query_id = NULL, turn = NULL, alias = NULL,
    source_ref = NULL, topic = NULL, folded_topic = NULL, label = NULL, metadata = '{}', score = NULL,
    pending = NULL, summary = NULL, keywords = '[]', queries = '[]', confidence = NULL, pairs = NULL,
    stored_at = NULL

-- name: erase_records
UPDATE record SET
    id = 'erased-' || lower(hex(randomblob(16))), content = '', event_time = '1970-01-01T00:00:00.000+00:00',
    superseded_by = '', retired_at = :at, retired_why = 'erased', role = NULL, memory_type = NULL,
    durability = 'standard', importance = 0.5, stands_at = NULL, {cleared}
WHERE +tenant = :tenant AND row IN (SELECT value FROM json_each(:rows));

-- name: anonymise_records
UPDATE record SET
    content = :redacted, retired_why = 'anonymised', {cleared}
WHERE +tenant = :tenant AND row IN (SELECT value FROM json_each(:rows));

-- name: to_anonymise
SELECT row, id, kind FROM record INDEXED BY record_to_anonymise
WHERE tenant = :tenant AND retired_at < :before AND retired_why NOT IN ('anonymised', 'erased')
  AND retired_why <> 'hidden' AND ifnull(retired_noted_at, '') < :before
ORDER BY retired_at, row LIMIT :limit;

-- name: count_to_anonymise
SELECT count(*) AS due FROM record INDEXED BY record_to_anonymise
WHERE tenant = :tenant AND retired_at < :before AND retired_why NOT IN ('anonymised', 'erased')
  AND retired_why <> 'hidden' AND ifnull(retired_noted_at, '') < :before;

-- name: drop_vectors
DELETE FROM vector WHERE record IN (
    SELECT row FROM json_each(:rows) CROSS JOIN record ON row = value WHERE +tenant = :tenant);

-- name: drop_features
DELETE FROM feature WHERE record IN (
    SELECT row FROM json_each(:rows) CROSS JOIN record ON row = value WHERE +tenant = :tenant);

-- name: drop_access
DELETE FROM access WHERE tenant = :tenant AND record IN (SELECT value FROM json_each(:rows));

-- name: unindex_as
INSERT INTO task (tenant, kind, record, place, id)
SELECT tenant, 'unindex', row, place, :id FROM record WHERE +tenant = :tenant AND row = :row
ON CONFLICT (tenant, kind, record) DO UPDATE
SET id = excluded.id, place = excluded.place, state = 'waits', error = NULL;

-- name: drop_relations
DELETE FROM relation WHERE tenant = :tenant AND source IN (SELECT value FROM json_each(:ids));

-- name: drop_relations_to
DELETE FROM relation WHERE tenant = :tenant AND target IN (SELECT value FROM json_each(:ids));

-- name: drop_audit
DELETE FROM audit WHERE tenant = :tenant AND record_id IN (SELECT value FROM json_each(:ids));

-- name: clear_audit
UPDATE audit SET "user" = NULL, agent = NULL, reason = NULL, detail = '{}'
WHERE tenant = :tenant AND record_id IN (SELECT value FROM json_each(:ids));

-- name: audit_naming
SELECT row, detail FROM audit
WHERE row IN (SELECT audit FROM audit_name
              WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:ids)))
  AND +tenant = :tenant;

-- name: set_audit_detail
UPDATE audit SET detail = :detail WHERE row = :row AND +tenant = :tenant;

-- name: drop_audit_names
DELETE FROM audit_name WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:ids));

-- Facts that others stated and that were merged into an erased one.
-- name: merged_into
SELECT row, id, kind, scope, owner, folded_topic, source_ref
FROM record INDEXED BY record_replaced
WHERE tenant = :tenant AND superseded_by IN (SELECT value FROM json_each(:ids))
  AND retired_why = 'merged' AND id NOT IN (SELECT value FROM json_each(:ids));

-- name: replaced_by_nothing
UPDATE record INDEXED BY record_replaced SET superseded_by = ''
WHERE tenant = :tenant AND superseded_by IN (SELECT value FROM json_each(:ids));

-- name: drop_ratings
DELETE FROM feedback
WHERE tenant = :tenant AND answer IN (SELECT value FROM json_each(:ids));

-- name: drop_ratings_of
DELETE FROM feedback
WHERE tenant = :tenant AND owner = :owner AND (:session_id IS NULL OR session_id = :session_id);

-- name: drop_waiting_ratings
DELETE FROM feedback
WHERE tenant = :tenant AND owner = :owner AND answer IS NULL
  AND query_id IN (SELECT value FROM json_each(:query_ids));

-- name: drop_outputs
DELETE FROM tool_output
WHERE tenant = :tenant AND owner = :owner AND key IN (SELECT value FROM json_each(:keys));

-- name: drop_outputs_of
DELETE FROM tool_output WHERE tenant = :tenant AND owner = :owner;

-- name: drop_notes
DELETE FROM note
WHERE tenant = :tenant AND owner = :owner AND (:session_id IS NULL OR session_id = :session_id);

-- name: count_others
SELECT (SELECT count(*) FROM note
        WHERE tenant = :tenant AND owner = :owner AND (:session_id IS NULL OR session_id = :session_id))
         AS notes,
       (SELECT count(*) FROM feedback
        WHERE tenant = :tenant AND owner = :owner AND (:session_id IS NULL OR session_id = :session_id))
         AS ratings,
       (SELECT count(*) FROM item
        WHERE tenant = :tenant AND owner = :owner AND (:session_id IS NULL OR session_id = :session_id))
         AS items;

-- name: count_outputs
SELECT count(DISTINCT key) AS outputs FROM tool_output
WHERE tenant = :tenant AND owner = :owner
  AND (:every = 1 OR key IN (SELECT value FROM json_each(:keys)));

-- name: count_beside
SELECT (SELECT count(*) FROM feedback
        WHERE tenant = :tenant AND answer IN (SELECT value FROM json_each(:ids))) AS ratings,
       (SELECT count(*) FROM item
        WHERE tenant = :tenant AND record IS NOT NULL
          AND record IN (SELECT value FROM json_each(:ids))) AS items;

-- name: traces
SELECT (SELECT count(*) FROM record WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:ids)))
       + (SELECT count(*) FROM record INDEXED BY record_alias
          WHERE tenant = :tenant AND alias IS NOT NULL AND alias IN (SELECT value FROM json_each(:ids)))
         AS ids,
       (SELECT count(*) FROM record INDEXED BY record_replaced
        WHERE tenant = :tenant AND superseded_by IS NOT NULL
          AND superseded_by IN (SELECT value FROM json_each(:ids)))
       + (SELECT count(*) FROM relation
          WHERE tenant = :tenant AND source IN (SELECT value FROM json_each(:ids)))
       + (SELECT count(*) FROM relation
          WHERE tenant = :tenant AND target IN (SELECT value FROM json_each(:ids)))
       + (SELECT count(*) FROM audit
          WHERE tenant = :tenant AND record_id IN (SELECT value FROM json_each(:ids)))
       + (SELECT count(*) FROM audit_name
          WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:ids)))
       + (SELECT count(*) FROM shown
          WHERE tenant = :tenant AND record IN (SELECT value FROM json_each(:ids))) AS references_,
       (SELECT count(*) FROM vector WHERE record IN (
           SELECT row FROM json_each(:rows) CROSS JOIN record ON row = value WHERE +tenant = :tenant))
         AS vectors;

-- name: has_tombstones
SELECT EXISTS (SELECT 1 FROM tombstone WHERE tenant = :tenant) AS any, key FROM erasure;

-- name: add_tombstone
INSERT INTO tombstone (tenant, digest, erased_at, whose, chosen)
VALUES (:tenant, :digest, :erased_at, :whose, :chosen)
ON CONFLICT (tenant, digest) DO UPDATE SET chosen = excluded.chosen, erased_at = excluded.erased_at;

-- name: stands_for
SELECT EXISTS (SELECT 1 FROM tombstone
               WHERE tenant = :tenant AND digest IN (SELECT value FROM json_each(:digests))
                 AND erased_at >= :since) AS stands;

-- name: lift_tombstones
DELETE FROM tombstone WHERE tenant = :tenant AND digest IN (SELECT value FROM json_each(:digests));

-- name: lift_tombstones_of
DELETE FROM tombstone
WHERE tenant = :tenant AND whose = :whose AND (:chosen IS NULL OR chosen = :chosen);

-- name: could_be_chosen
SELECT CASE WHEN scope IN ('session', 'user') THEN owner ELSE stated_by END AS owner,
       session_id, folded_topic, id, alias
FROM record WHERE tenant = :tenant AND retired_why IS NOT 'erased'
UNION
SELECT owner, session_id, NULL, NULL, NULL FROM note WHERE tenant = :tenant
UNION
SELECT owner, session_id, NULL, NULL, NULL FROM item WHERE tenant = :tenant;

