"""Waiting until the vector index has caught up with the ledger, or preventing it from doing so."""

import asyncio

from local2.memory.backlog import Backlog
from local2.memory.indexing import Indexer
from local2.memory.tenant import Memory
from local2.memory.vector_index import Vectors
from local2.protocol.vectors import VectorItem, VectorsStored
from waiting import eventually


async def indexed(memory: Memory, *, within: float = 60.0) -> None:
    async def nothing_waits() -> bool:
        return (await memory.ledger.counts()).waiting == 0

    await eventually(nothing_waits, within=within)


def indexing_of(memory: Memory, vectors: Vectors) -> tuple[Indexer, Backlog]:
    """Return a separate indexer over a memory's ledger, and the backlog that runs it."""
    backlog = Backlog(memory.ledger.backlog)
    return Indexer(memory.ledger.index, vectors, backlog, patience=0), backlog


class paused_indexing:  # noqa: N801 - reads as the verb that it is
    """Hold every batch back from the worker, so that new records wait."""

    def __init__(self, memory: Memory) -> None:
        self._vectors = memory.vectors
        self._upsert = memory.vectors.upsert
        self._may_go_on = asyncio.Event()

    async def __aenter__(self) -> None:
        async def upsert(items: list[VectorItem]) -> VectorsStored:
            await self._may_go_on.wait()
            return await self._upsert(items)

        self._vectors.upsert = upsert  # type: ignore[method-assign]

    async def __aexit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        self._vectors.upsert = self._upsert  # type: ignore[method-assign]
        self._may_go_on.set()
