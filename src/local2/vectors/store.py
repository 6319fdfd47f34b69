"""Serves the vector worker's requests with the index and the embedder, in a thread each.

While an index of another embedder is being filled, that embedder has a separate thread, too, so
that no question waits for it.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import Lock
from typing import Any, Protocol, TypeVar

import numpy as np

from local2.errors import EmbedderMismatchError, VectorError
from local2.protocol.envelope import new_id
from local2.protocol.payloads import Empty
from local2.protocol.vectors import (
    TenantOnly,
    VectorCheck,
    VectorDelete,
    VectorHit,
    VectorHits,
    VectorIdPage,
    VectorIds,
    VectorNext,
    VectorReset,
    VectorSearch,
    VectorsStored,
    VectorStatus,
    VectorUpsert,
)
from local2.vectors.config import Slot
from local2.vectors.embedder import Embedder, FloatMatrix
from local2.vectors.worker_thread import LoadedEmbedder, WorkerThread

T = TypeVar("T")
MakeEmbedder = Callable[[str], Embedder]
"""Loads the embedder with a name; may raise VectorError."""
Guard = Callable[[], AbstractContextManager[None]]
"""Ends the process if a call in its body hangs."""


def no_other_embedder(name: str) -> Embedder:
    """Raise an error: no other embedder can be loaded."""
    raise VectorError(f"This vector worker cannot load {name}.")


class Index(Protocol):
    """Keeps and searches vectors: Chroma (`index.py`), or nothing here (`elsewhere.py`)."""

    @property
    def opened_clean(self) -> bool: ...
    def tenants(self) -> list[str]: ...
    def recorded_embedder(self, tenant: str, slot: Slot = "serving") -> str | None: ...
    def next_dimensions(self, tenant: str) -> int: ...
    def ensure(
        self, tenant: str, embedder_name: str, dimensions: int, slot: Slot = "serving"
    ) -> None: ...
    def reset(
        self, tenant: str, embedder_name: str, dimensions: int, *, whole: bool = False
    ) -> None: ...
    def swap(self, tenant: str) -> None: ...
    def drop_next(self, tenant: str) -> None: ...
    def upsert(
        self, tenant: str, ids: Sequence[str], vectors: FloatMatrix, slot: Slot = "serving"
    ) -> None: ...
    def delete(self, tenant: str, ids: Sequence[str]) -> None: ...
    def search(self, tenant: str, vectors: FloatMatrix, limit: int) -> list[list[VectorHit]]: ...
    def count(self, tenant: str) -> int: ...
    def ids(self, tenant: str, offset: int, limit: int, slot: Slot = "serving") -> list[str]: ...
    def held(self, tenant: str, ids: Sequence[str]) -> list[str]: ...
    def lost(self, tenant: str, ids: Sequence[str], vectors: FloatMatrix) -> list[str]: ...
    def close(self) -> None: ...


class VectorStore:
    """The index and the embedder of a vector worker.

    They have a thread each, so that a batch is embedded while the previous one is stored. Searches
    run first. A question is embedded and looked up in one call of the embedder's thread; therefore
    all threads use the index, under a lock.
    """

    def __init__(
        self,
        index: Index,
        embedder: Embedder,
        another: MakeEmbedder = no_other_embedder,
        guard: Guard = nullcontext,
    ) -> None:
        """`another` loads the embedder of the next index; `guard` encloses each call to Chroma."""
        self._guard = guard
        self.id = new_id()
        self._index = index
        self._another = another
        self._index_lock = Lock()
        self._serving = LoadedEmbedder(embedder)
        self._next: LoadedEmbedder | None = None
        self._changing = asyncio.Lock()
        self._storing = WorkerThread("storing")

    def close(self) -> None:
        self._serving.close()
        if self._next is not None:
            self._next.close()
        self._storing.close()

    async def search(self, ask: VectorSearch) -> VectorHits:
        """Find the nearest records; recent questions are not embedded again."""
        loaded = self._serving
        try:
            return await self._search_by(loaded, ask)
        except EmbedderMismatchError:
            if loaded is self._serving:
                raise
            return await self._search_by(self._serving, ask)  # another embedder serves now

    async def _search_by(self, loaded: LoadedEmbedder, ask: VectorSearch) -> VectorHits:
        nearest = partial(self._nearest, loaded.embedder, ask)
        if (vector := loaded.recent.get(ask.text)) is not None:
            hits = await self._storing.run(nearest, vector, urgent=True)
            hits.cached = True
            return hits
        hits = await loaded.queries.ask(ask.text, patience=ask.patience, then=nearest)
        loaded.recent[ask.text] = np.frombuffer(hits.question, np.float32)
        return hits

    async def upsert(self, ask: VectorUpsert) -> VectorsStored:
        """Embed the items without a vector, store all vectors, and return the new ones."""
        loaded = self._next if ask.into_next else self._serving
        if loaded is None:
            raise VectorError("No other index is being filled.")
        items = ask.items
        rows: list[np.ndarray | None] = [
            np.frombuffer(item.vector, np.float32) if item.vector is not None else None
            for item in items
        ]
        missing = [position for position, row in enumerate(rows) if row is None]
        chunks = loaded.embedder.embed_documents([items[position].text for position in missing])
        while (chunk := await loaded.thread.run(next, chunks, None)) is not None:
            for position, vector in zip(*chunk, strict=True):
                rows[missing[position]] = vector
        complete = [row for row in rows if row is not None]
        if len(complete) != len(rows):
            raise VectorError(
                f"{loaded.name} made vectors for {len(complete)} of {len(rows)} texts; "
                "none of them was stored."
            )
        matrix: FloatMatrix = np.stack(complete)
        slot: Slot = "next" if ask.into_next else "serving"

        def store() -> None:
            self._index.ensure(ask.tenant, loaded.name, matrix.shape[1], slot)
            self._index.upsert(ask.tenant, [item.id for item in items], matrix, slot)

        await self._storing.run(self._exclusively, store)
        return VectorsStored(
            vectors=[matrix[position].tobytes() for position in missing],
            embedder=loaded.name,
        )

    async def change(self, ask: VectorNext) -> VectorStatus:
        """Start filling an index of another embedder, discard it, or let it serve."""
        async with self._changing:
            if ask.action == "swap":
                await self._swap(ask)
            elif ask.embedder == self._serving.name:
                await self._give_up(ask.tenant)
            elif self._next is None or self._next.name != ask.embedder:
                await self._begin(ask)
        return await self.status(TenantOnly(tenant=ask.tenant))

    async def _begin(self, ask: VectorNext) -> None:
        """Load the embedder, and create its index or continue with the existing one."""
        embedder = await asyncio.to_thread(self._another, ask.embedder)
        if embedder.name == self._serving.name:
            embedder.close()
            await self._give_up(ask.tenant)
            return

        def prepare(dimensions: int) -> None:
            if self._index.recorded_embedder(ask.tenant, "next") not in {None, embedder.name}:
                self._index.drop_next(ask.tenant)
            self._index.ensure(ask.tenant, embedder.name, dimensions, "next")

        try:
            dimensions = await asyncio.to_thread(lambda: embedder.dimensions)
            await self._storing.run(self._exclusively, prepare, dimensions)
        except BaseException:
            embedder.close()
            raise
        former, self._next = self._next, LoadedEmbedder(embedder)
        if former is not None:
            await asyncio.to_thread(former.close)

    async def _give_up(self, tenant: str) -> None:
        await self._storing.run(self._exclusively, self._index.drop_next, tenant)
        if self._next is not None:
            former, self._next = self._next, None
            await asyncio.to_thread(former.close)

    async def _swap(self, ask: VectorNext) -> None:
        """Let the next index serve; the new embedder answers questions that are under way."""

        def swap(following: LoadedEmbedder) -> LoadedEmbedder:
            self._index.swap(ask.tenant)
            former, self._serving, self._next = self._serving, following, None
            return former

        following = self._next
        if following is None or following.name != ask.embedder:
            raise VectorError(f"No index of {ask.embedder} is being filled.")
        former = await self._storing.run(self._exclusively, swap, following)
        await asyncio.to_thread(former.close)

    async def delete(self, ask: VectorDelete) -> Empty:
        await self._storing.run(self._exclusively, self._index.delete, ask.tenant, ask.ids)
        return Empty()

    async def ids(self, ask: VectorIds) -> VectorIdPage:
        slot: Slot = "next" if ask.of_next else "serving"
        listing = (
            partial(self._index.ids, ask.tenant, ask.offset, ask.limit, slot)
            if ask.among is None
            else partial(self._index.held, ask.tenant, ask.among)
        )
        return VectorIdPage(ids=await self._storing.run(self._exclusively, listing))

    async def lost(self, ask: VectorCheck) -> VectorIdPage:
        known = [(item.id, item.vector) for item in ask.items if item.vector is not None]
        if not known:
            return VectorIdPage(ids=[])
        ids = [id_ for id_, _ in known]
        matrix = np.stack([np.frombuffer(vector, np.float32) for _, vector in known])
        lost = await self._storing.run(self._exclusively, self._index.lost, ask.tenant, ids, matrix)
        return VectorIdPage(ids=lost)

    async def status(self, ask: TenantOnly) -> VectorStatus:
        loaded = self._serving
        dimensions, problem = await loaded.asking.run(loaded.condition, urgent=True)

        def read_status() -> VectorStatus:
            recorded = self._index.recorded_embedder(ask.tenant)
            embedder = self._serving.name
            is_other = recorded not in {None, embedder}
            return VectorStatus(
                worker=self.id,
                count=self._index.count(ask.tenant),
                embedder=embedder,
                clean=self._index.opened_clean,
                dimensions=dimensions,
                problem=str(_mismatch(str(recorded), embedder)) if is_other else problem,
                next=self._index.recorded_embedder(ask.tenant, "next"),
                next_dimensions=self._index.next_dimensions(ask.tenant),
            )

        return await self._storing.run(self._exclusively, read_status, urgent=True)

    async def reset(self, ask: VectorReset) -> VectorStatus:
        embedder = self._serving.embedder
        reset = partial(self._index.reset, whole=ask.whole)
        await self._storing.run(
            self._exclusively, reset, ask.tenant, embedder.name, embedder.dimensions
        )
        return await self.status(TenantOnly(tenant=ask.tenant))

    def _nearest(self, embedder: Embedder, ask: VectorSearch, vector: FloatMatrix) -> VectorHits:
        def search() -> list[VectorHit]:
            recorded = self._index.recorded_embedder(ask.tenant)
            if recorded is None:
                return []
            if recorded != embedder.name:
                raise _mismatch(recorded, embedder.name)
            return (
                self._index.search(ask.tenant, vector[np.newaxis], ask.limit)[0]
                if ask.limit
                else []
            )

        return VectorHits(
            hits=self._exclusively(search),
            min_score=embedder.min_score,
            floor=embedder.floor,
            embedder=embedder.name,
            question=vector.tobytes(),
        )

    def _exclusively(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function that uses the index, under the lock and the guard."""
        with self._index_lock, self._guard():
            return function(*args)


def _mismatch(recorded: str, embedder: str) -> EmbedderMismatchError:
    return EmbedderMismatchError(
        f"The vector index was built with {recorded}, and {embedder} is configured.",
        remedy="Run `local2 reindex`, or configure the former embedder again.",
    )
