-- Vectors are compared in numbers of 16 bits (`half`), with those of the searched places alone.

-- name: keep_vectors
INSERT INTO vector (record, embedder, data, tenant, place, half)
SELECT row, new.embedder, new.data, tenant, place, new.half
FROM record JOIN unnest(CAST(:rows AS bigint[]), CAST(:ids AS text[]), CAST(:embedders AS text[]),
                        CAST(:data AS bytea[]), CAST(:halves AS pgvector.halfvec[]))
                 AS new (record, id, embedder, data, half)
            ON record.row = new.record AND record.id = new.id
WHERE record.tenant = :tenant
ON CONFLICT (record, embedder) DO UPDATE SET data = excluded.data, half = excluded.half;

-- name: nearest
SELECT record, half OPERATOR(pgvector.<=>) CAST(:question AS pgvector.halfvec) AS distance FROM vector
WHERE vector.tenant = :tenant AND embedder = :embedder AND place = ANY(CAST(:places AS text[]))
ORDER BY distance LIMIT :limit;

-- A large place has an index of neighbours, of which `ef_search` lets enough be read. As a subquery
-- it is set before the index is read.
-- name: nearest_in_large_place
SELECT record, CAST(half AS pgvector.halfvec(:dimensions)) OPERATOR(pgvector.<=>) CAST(:question AS pgvector.halfvec(:dimensions)) AS distance
FROM vector
WHERE vector.tenant = :tenant AND embedder = :embedder AND place = :place
  AND (SELECT set_config('hnsw.ef_search', CAST(:ef_search AS text), true)) IS NOT NULL
ORDER BY distance LIMIT :limit;

-- name: large_places
SELECT place, dimensions FROM large_place
WHERE tenant = :tenant AND embedder = :embedder AND place = ANY(CAST(:places AS text[]));

-- name: add_large_place
INSERT INTO large_place (tenant, place, embedder, dimensions)
VALUES (:tenant, :place, :embedder, :dimensions)
ON CONFLICT DO NOTHING;

-- name: places_of_others
DELETE FROM large_place WHERE tenant = :tenant AND embedder <> :embedder RETURNING place, embedder;

-- name: places_to_index
SELECT large.place, (
    SELECT pgvector.vector_dims(half) FROM vector
    WHERE vector.tenant = :tenant AND embedder = :embedder AND place = large.place LIMIT 1) AS dimensions
FROM (SELECT place FROM vector WHERE vector.tenant = :tenant AND embedder = :embedder
      GROUP BY place HAVING count(*) > :large) AS large
WHERE large.place NOT IN (
      SELECT place FROM large_place WHERE tenant = :tenant AND embedder = :embedder);

-- name: embedders
SELECT slot, name FROM embedder WHERE tenant = :tenant;

-- name: set_embedder
INSERT INTO embedder (tenant, slot, name) VALUES (:tenant, :slot, :name)
ON CONFLICT (tenant, slot) DO UPDATE SET name = excluded.name;

-- name: drop_embedder
DELETE FROM embedder WHERE tenant = :tenant AND slot = :slot;

-- name: drop_next_embedder
DELETE FROM embedder WHERE tenant = :tenant AND slot = 'next' AND name = :name;

-- The lock lasts until the vectors are committed: no other embedder begins to serve before.
-- name: hold_embedder
SELECT name FROM embedder WHERE tenant = :tenant AND slot = 'serving' FOR SHARE;

-- All vectors, which their index counts, without those of replaced records and of waiting ones. Among
-- a million, asking for each vector whether it is one of these took ten seconds.
-- name: count_vectors
SELECT (SELECT count(*) FROM vector WHERE vector.tenant = :tenant AND vector.embedder = :embedder)
     - (SELECT count(*) FROM record
        WHERE record.tenant = :tenant AND record.superseded_by IS NOT NULL AND EXISTS (
              SELECT 1 FROM vector WHERE vector.tenant = :tenant AND vector.embedder = :embedder
              AND vector.record = record.row OFFSET 0))  -- looked up for each, see dialect.py
     - (SELECT count(*) FROM task
        WHERE task.tenant = :tenant AND task.kind = 'index' AND EXISTS (
              SELECT 1 FROM vector JOIN record ON record.row = vector.record
              WHERE vector.tenant = :tenant AND vector.embedder = :embedder
              AND record.tenant = :tenant AND record.superseded_by IS NULL
              AND vector.record = task.record OFFSET 0)) AS count;

-- In the index of `vector`, each embedder is seen without reading the vectors.
-- name: vectors_of_others
SELECT CASE WHEN EXISTS (
    SELECT 1 FROM vector WHERE vector.tenant = :tenant AND embedder NOT IN (
           SELECT jsonb_array_elements_text(CAST(:embedders AS jsonb))))
THEN (SELECT max(row) FROM record WHERE record.tenant = :tenant) END AS last;

-- name: ids_with_vectors
SELECT record.id FROM record
WHERE record.tenant = :tenant AND record.superseded_by IS NULL AND EXISTS (
      SELECT 1 FROM vector WHERE vector.tenant = :tenant AND vector.embedder = :embedder
      AND vector.record = record.row OFFSET 0)
ORDER BY record.row OFFSET :offset LIMIT :limit;

-- name: ids_having_vectors
SELECT record.id FROM record
WHERE record.tenant = :tenant AND record.id = ANY(CAST(:ids AS text[]))
  AND EXISTS (SELECT 1 FROM vector WHERE vector.tenant = :tenant AND vector.record = record.row);
