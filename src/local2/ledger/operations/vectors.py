"""Searches the vectors of records where the database does so itself.

Every stack then finds a vector as soon as it is committed, and there is no index to be filled.
Places are compared vector by vector; each large place has an index of neighbours.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from local2.ledger.operations.candidates import Filter
from local2.ledger.operations.transactions import Part, Transaction, reads, writes_of
from local2.ledger.stored_vectors import as_halves
from local2.protocol.vectors import VectorHits

LARGE_PLACE = 50_000
"""Number of vectors from which a place has an index of neighbours: to compare as many takes about
30 ms."""
EF_SEARCH = 1_000
"""Number of vectors that a search of an index of neighbours keeps in view, the most that pgvector
allows: with 400, a tenth of the fifty nearest of 12,000 random vectors is missed."""


class Embedders(msgspec.Struct, frozen=True, kw_only=True):
    """Whose vectors searches compare, and whose are being made to replace them."""

    serving: str | None = None
    next: str | None = None


def nearest_rows(tx: Transaction, filter_: Filter, hits: VectorHits, limit: int) -> list[int]:
    """The rows of the searched places nearest to the question, the nearest first.

    Their places apart, they need not match the filter.
    """
    asked = {
        "embedder": hits.embedder,
        "question": as_halves(np.frombuffer(hits.question, np.float32)),
        "limit": limit,
    }
    dimensions = {
        row["place"]: row["dimensions"]
        for row in tx.execute("large_places", embedder=hits.embedder, places=list(filter_.words))
    }
    small = [place for place in filter_.words if place not in dimensions]
    found = tx.execute("nearest", places=small, **asked).fetchall() if small else []
    for place, numbers in dimensions.items():
        more = {"place": place, "dimensions": numbers, "ef_search": EF_SEARCH}
        found += tx.execute("nearest_in_large_place", **more, **asked).fetchall()
    return [record for record, _ in sorted(found, key=lambda row: (row[1], row[0]))[:limit]]


class KeptVectors(Part):
    """One tenant's vectors, which the database keeps and searches."""

    @reads
    def embedders(self, tx: Transaction) -> Embedders:
        """Whose vectors are searched, and whose are being made to replace them."""
        names = {row["slot"]: row["name"] for row in tx.execute("embedders")}
        return Embedders(serving=names.get("serving"), next=names.get("next"))

    @writes_of(lambda *_, **__: [])
    def serve(self, tx: Transaction, embedder: str) -> None:
        """Let searches compare the vectors of this embedder."""
        tx.execute("drop_embedder", slot="next")
        tx.execute("set_embedder", slot="serving", name=embedder)

    @writes_of(lambda *_, **__: [])
    def take_over(self, tx: Transaction, embedder: str) -> bool:
        """Let the next embedder serve; False if it is not this one, since a stack changed it."""
        if not tx.execute("drop_next_embedder", name=embedder).rowcount:
            return False
        tx.execute("set_embedder", slot="serving", name=embedder)
        return True

    @writes_of(lambda *_, **__: [])
    def begin_next(self, tx: Transaction, embedder: str) -> None:
        """Note that this embedder makes vectors to replace those that are searched."""
        tx.execute("set_embedder", slot="next", name=embedder)

    @reads
    def count(self, tx: Transaction, embedder: str) -> int:
        """The number of indexed records that have a vector by this embedder."""
        return int(tx.execute("count_vectors", embedder=embedder).fetchone()["count"])

    @reads
    def ids(self, tx: Transaction, embedder: str, offset: int, limit: int) -> list[str]:
        """A page of the ids of records with a vector by this embedder."""
        asked = {"embedder": embedder, "offset": offset, "limit": limit}
        return [row["id"] for row in tx.execute("ids_with_vectors", **asked)]

    @reads
    def held(self, tx: Transaction, ids: Sequence[str]) -> list[str]:
        """Those of these ids whose records have a vector."""
        return [row["id"] for row in tx.execute("ids_having_vectors", ids=list(ids))]
