"""What the vector worker serves: the index and the embedder, each in a thread of its own."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from local.errors import EmbedderMismatchError, VectorError
from local.protocol.envelope import new_id
from local.protocol.payloads import Empty
from local.protocol.vectors import (
    TenantOnly,
    VectorCheck,
    VectorDelete,
    VectorHit,
    VectorHits,
    VectorIdPage,
    VectorIds,
    VectorReset,
    VectorSearch,
    VectorsStored,
    VectorStatus,
    VectorUpsert,
)
from local.vectors.embedder import Embedder, FloatMatrix
from local.vectors.index import VectorIndex
from local.vectors.worker_thread import Batcher, WorkerThread

QUERIES_TOGETHER = 16
"""Questions embedded in one call: as many as searches run at once (decision 0037)."""
QUERIES_CACHED = 64
"""Vectors of recent questions: a search that looks further asks the same text again."""

T = TypeVar("T")


class VectorStore:
    """Two threads, so that a batch is embedded while the one before is stored; searches go first.

    A question is embedded and looked up in one call of the embedding thread, so both threads use
    the index, under a lock.
    """

    def __init__(self, index: VectorIndex, embedder: Embedder) -> None:
        self.id = new_id()
        self._index = index
        self._embedder = embedder
        self._index_free = Lock()
        self._embedding = WorkerThread("embedding")
        self._storing = WorkerThread("storing")
        self._queries: Batcher[str, FloatMatrix] = Batcher(
            self._embedding, self._embed_queries, limit=QUERIES_TOGETHER
        )
        self._recent: OrderedDict[str, FloatMatrix] = OrderedDict()

    def close(self) -> None:
        self._embedding.close()
        self._storing.close()
        self._embedder.close()

    async def search(self, ask: VectorSearch) -> VectorHits:
        """Find the nearest records; a question that was asked just now is not embedded again."""
        nearest = partial(self._nearest, ask)
        if (vector := self._recent.get(ask.text)) is not None:
            return await self._storing.run(nearest, vector, urgent=True)
        hits = await self._queries.ask(ask.text, patience=ask.patience, then=nearest)
        self._recent[ask.text] = np.frombuffer(hits.question, np.float32)
        if len(self._recent) > QUERIES_CACHED:
            self._recent.popitem(last=False)
        return hits

    async def upsert(self, ask: VectorUpsert) -> VectorsStored:
        """Embed the items that are text, store all vectors, and return those that were made."""
        items = ask.items
        rows: list[np.ndarray | None] = [
            np.frombuffer(item.vector, np.float32) if item.vector is not None else None
            for item in items
        ]
        missing = [position for position, row in enumerate(rows) if row is None]
        chunks = self._embedder.embed_documents([items[position].text for position in missing])
        while (chunk := await self._embedding.run(next, chunks, None)) is not None:
            for position, vector in zip(*chunk, strict=True):
                rows[missing[position]] = vector
        matrix: FloatMatrix = np.stack([row for row in rows if row is not None])
        await self._storing.run(
            self._alone, self._store, ask.tenant, [item.id for item in items], matrix
        )
        return VectorsStored(
            vectors=[matrix[position].tobytes() for position in missing],
            embedder=self._embedder.name,
        )

    async def delete(self, ask: VectorDelete) -> Empty:
        await self._storing.run(self._alone, self._index.delete, ask.tenant, ask.ids)
        return Empty()

    async def ids(self, ask: VectorIds) -> VectorIdPage:
        listing = (
            partial(self._index.ids, ask.tenant, ask.offset, ask.limit)
            if ask.among is None
            else partial(self._index.held, ask.tenant, ask.among)
        )
        return VectorIdPage(ids=await self._storing.run(self._alone, listing))

    async def lost(self, ask: VectorCheck) -> VectorIdPage:
        known = [(item.id, item.vector) for item in ask.items if item.vector is not None]
        if not known:
            return VectorIdPage(ids=[])
        ids = [id_ for id_, _ in known]
        matrix = np.stack([np.frombuffer(vector, np.float32) for _, vector in known])
        lost = await self._storing.run(self._alone, self._index.lost, ask.tenant, ids, matrix)
        return VectorIdPage(ids=lost)

    async def status(self, ask: TenantOnly) -> VectorStatus:
        dimensions, problem = await self._embedding.run(self._condition, urgent=True)
        return await self._storing.run(
            self._alone, self._status, ask.tenant, dimensions, problem, urgent=True
        )

    async def reset(self, ask: VectorReset) -> VectorStatus:
        embedder = self._embedder
        reset = partial(self._index.reset, whole=ask.whole)
        await self._storing.run(self._alone, reset, ask.tenant, embedder.name, embedder.dimensions)
        return await self.status(TenantOnly(tenant=ask.tenant))

    def _embed_queries(self, texts: list[str]) -> list[FloatMatrix]:
        return list(self._embedder.embed_queries(texts))

    def _nearest(self, ask: VectorSearch, vector: FloatMatrix) -> VectorHits:
        hits = self._alone(self._search, ask.tenant, vector[np.newaxis], ask.limit)
        return VectorHits(
            hits=hits,
            min_score=self._embedder.min_score,
            embedder=self._embedder.name,
            question=vector.tobytes(),
        )

    def _search(self, tenant: str, vector: FloatMatrix, limit: int) -> list[VectorHit]:
        recorded = self._index.recorded_embedder(tenant)
        if recorded is None:
            return []
        if recorded != self._embedder.name:
            raise _mismatch(recorded, self._embedder.name)
        return self._index.search(tenant, vector, limit)[0] if limit else []

    def _alone(self, function: Callable[..., T], *args: Any) -> T:
        with self._index_free:
            return function(*args)

    def _condition(self) -> tuple[int, str | None]:
        """The embedder's dimensions, or 0 and the reason why it does not work."""
        try:
            return self._embedder.dimensions, None
        except VectorError as error:
            return 0, str(error)

    def _status(self, tenant: str, dimensions: int, problem: str | None) -> VectorStatus:
        recorded = self._index.recorded_embedder(tenant)
        if recorded not in {None, self._embedder.name}:
            problem = str(_mismatch(str(recorded), self._embedder.name))
        return VectorStatus(
            worker=self.id,
            count=self._index.count(tenant),
            embedder=self._embedder.name,
            clean=self._index.opened_clean,
            dimensions=dimensions,
            problem=problem,
        )

    def _store(self, tenant: str, ids: list[str], matrix: FloatMatrix) -> None:
        self._index.ensure(tenant, self._embedder.name, matrix.shape[1])
        self._index.upsert(tenant, ids, matrix)


def _mismatch(recorded: str, embedder: str) -> EmbedderMismatchError:
    return EmbedderMismatchError(
        f"The vector index was built with {recorded}, and {embedder} is configured.",
        remedy="Run `local2 reindex`, or configure the former embedder again.",
    )
