"""Builds an index of neighbours (HNSW) for each large place.

One index for all places would not do: the neighbours of a question are then mostly others' records,
and where a tenth of all rows is one's own, a fifth of one's own nearest ones is found.
"""

from hashlib import sha256

from psycopg import sql

from local2.ledger.engines.postgres.connections import PostgresConnection
from local2.ledger.engines.postgres.dialect import STATEMENTS
from local2.ledger.operations.vectors import LARGE_PLACE

_BUILD = sql.SQL("""
CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON vector
USING hnsw ((CAST(half AS pgvector.halfvec({dimensions}))) pgvector.halfvec_cosine_ops)
WITH (m = 16, ef_construction = 200)
WHERE place = {place} AND embedder = {embedder}
""")
_DROP = sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {name}")
_STATE = """
SELECT indisvalid AS is_valid, EXISTS (
    SELECT 1 FROM pg_stat_progress_create_index WHERE index_relid = indexrelid) AS is_built
FROM pg_index WHERE indexrelid = to_regclass(%(name)s)
"""


def index_large_places(tenant: str, embedder: str, connection: PostgresConnection) -> None:
    """Build the indexes that a tenant's large places lack, and drop those of other embedders."""
    asked = {"tenant": tenant, "embedder": embedder}
    for former in connection.execute(STATEMENTS["places_of_others"], asked).fetchall():
        name = _name_of(former["place"], former["embedder"])
        connection.raw.execute(_DROP.format(name=sql.Identifier(name)))
    large = {**asked, "large": LARGE_PLACE}
    for found in connection.execute(STATEMENTS["places_to_index"], large).fetchall():
        if _build(connection, found["place"], embedder, found["dimensions"]):
            new = {"place": found["place"], "dimensions": found["dimensions"]}
            connection.execute(STATEMENTS["add_large_place"], {**asked, **new})


def _build(connection: PostgresConnection, place: str, embedder: str, dimensions: int) -> bool:
    """Build the index of a place unless another stack does; return whether it can be used."""
    name = _name_of(place, embedder)
    state = connection.execute(_STATE, {"name": name}).fetchone()
    if state is not None and not state["is_valid"]:
        if state["is_built"]:
            return False
        connection.raw.execute(_DROP.format(name=sql.Identifier(name)))  # its stack was killed
    connection.raw.execute(
        _BUILD.format(
            name=sql.Identifier(name),
            dimensions=sql.Literal(dimensions),
            place=sql.Literal(place),
            embedder=sql.Literal(embedder),
        )
    )
    state = connection.execute(_STATE, {"name": name}).fetchone()
    return state is not None and bool(state["is_valid"])


def _name_of(place: str, embedder: str) -> str:
    return f"vector_near_{sha256(f'{place} {embedder}'.encode()).hexdigest()[:32]}"
