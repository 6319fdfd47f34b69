"""Stands in for the index where the ledger keeps and searches the vectors."""

from collections.abc import Sequence

from local2.protocol.vectors import VectorHit
from local2.vectors.config import Slot
from local2.vectors.embedder import FloatMatrix


class IndexElsewhere:
    """Knows which embedder is to serve next, and holds no vector."""

    opened_clean = True

    def __init__(self) -> None:
        self._next: dict[str, tuple[str, int]] = {}

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def tenants(self) -> list[str]:
        return []

    def recorded_embedder(self, tenant: str, slot: Slot = "serving") -> str | None:
        """The name of the embedder that is to serve next; the ledger knows which one serves."""
        return self._next[tenant][0] if slot == "next" and tenant in self._next else None

    def next_dimensions(self, tenant: str) -> int:
        return self._next[tenant][1] if tenant in self._next else 0

    def ensure(
        self, tenant: str, embedder_name: str, dimensions: int, slot: Slot = "serving"
    ) -> None:
        if slot == "next":
            self._next[tenant] = embedder_name, dimensions

    def reset(
        self, tenant: str, embedder_name: str, dimensions: int, *, whole: bool = False
    ) -> None:
        """Do nothing: there are no vectors."""

    def swap(self, tenant: str) -> None:
        self._next.pop(tenant, None)

    def drop_next(self, tenant: str) -> None:
        self._next.pop(tenant, None)

    def upsert(
        self, tenant: str, ids: Sequence[str], vectors: FloatMatrix, slot: Slot = "serving"
    ) -> None:
        """Do nothing: the memory stores them in the ledger."""

    def delete(self, tenant: str, ids: Sequence[str]) -> None:
        """Do nothing: there are no vectors."""

    def search(self, tenant: str, vectors: FloatMatrix, limit: int) -> list[list[VectorHit]]:
        del tenant, limit
        return [[] for _ in vectors]

    def count(self, tenant: str) -> int:
        del tenant
        return 0

    def ids(self, tenant: str, offset: int, limit: int, slot: Slot = "serving") -> list[str]:
        del tenant, offset, limit, slot
        return []

    def held(self, tenant: str, ids: Sequence[str]) -> list[str]:
        del tenant, ids
        return []

    def lost(self, tenant: str, ids: Sequence[str], vectors: FloatMatrix) -> list[str]:
        del tenant, ids, vectors
        return []
