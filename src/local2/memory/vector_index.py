"""The index of vectors as the memory sees it, whoever keeps it.

`Vectors` is what the memory asks of it: the composition root provides the client of the vector
worker, which keeps an index of its own. Where the ledger searches vectors itself, `LedgerVectors`
has the same interface, and the worker only embeds. Indexing (`indexing.py`) fills either.
"""

import asyncio
from typing import Protocol

import msgspec
import structlog

from local2.background import Backoff
from local2.errors import EmbedderMismatchError, StorageError, VectorError
from local2.ledger.ledger import Ledger
from local2.ledger.operations.index import REPLACED
from local2.ledger.operations.vectors import KeptVectors
from local2.protocol.vectors import VectorHits, VectorItem, VectorsStored, VectorStatus

ID_PAGE = 10_000
"""Number of ids that are read from the index in one request."""
VECTORS_PER_CHECK = 5_000
"""Number of vectors that are stored until it is checked whether a place has become large."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 60.0
"""Seconds until an index is tried again that could not be built, mostly because another stack is
building one."""

log = structlog.get_logger()


class Vectors(Protocol):
    """What keeps the vectors of one tenant. Every method may raise Local2Error."""

    async def search(self, text: str, limit: int) -> VectorHits: ...
    async def upsert(self, items: list[VectorItem]) -> VectorsStored: ...
    async def upsert_next(self, items: list[VectorItem]) -> VectorsStored: ...
    async def delete(self, ids: list[str]) -> None: ...
    async def ids(self, offset: int, limit: int, *, of_next: bool = False) -> list[str]: ...
    async def held(self, ids: list[str]) -> list[str]: ...
    async def lost(self, items: list[VectorItem]) -> list[str]: ...
    async def status(self) -> VectorStatus: ...
    async def reset(self, *, whole: bool = False) -> VectorStatus: ...
    async def begin_next(self, embedder: str) -> VectorStatus: ...
    async def swap(self, embedder: str) -> VectorStatus: ...


async def ids_in_index(vectors: Vectors, *, of_next: bool = False) -> set[str]:
    """All ids in the index; `of_next`: in the index that is filled to replace it."""
    ids: set[str] = set()
    while page := await vectors.ids(len(ids), ID_PAGE, of_next=of_next):
        ids.update(page)
    return ids


class LedgerVectors:
    """The vectors of a ledger that searches them itself, with a vector worker that keeps no index.

    A vector is found as soon as the write that finishes its task is committed, by every stack of
    the ledger. They all follow the embedder that the ledger names, whichever of them changed it.
    """

    def __init__(self, ledger: Ledger, kept: KeptVectors, worker: Vectors) -> None:
        self._ledger = ledger
        self._kept = kept
        self._worker = worker
        self._stored = 0
        self._following = asyncio.Lock()
        self._may_have_grown = asyncio.Event()
        self._may_have_grown.set()

    async def search(self, text: str, limit: int) -> VectorHits:
        """Embed a question; the ledger itself finds what is nearest."""
        del limit
        hits: VectorHits
        hits, embedders = await asyncio.gather(self._worker.search(text, 0), self._kept.embedders())
        if embedders.serving is None or embedders.serving == hits.embedder:
            return hits
        await self._require_served()
        return await self._worker.search(text, 0)

    async def upsert(self, items: list[VectorItem]) -> VectorsStored:
        """Embed the items without a vector; the ledger stores it as it finishes their tasks."""
        self._stored += len(items)
        if self._stored >= VECTORS_PER_CHECK:
            self._stored = 0
            self._may_have_grown.set()
        if without := [item for item in items if item.vector is None]:
            embedded = await self._worker.upsert(without)
        else:
            serving = (await self._kept.embedders()).serving
            embedded = VectorsStored(vectors=[], embedder=serving or "")
        if embedded.embedder != (await self._kept.embedders()).serving:
            await self._require_served()
            raise VectorError(REPLACED)
        return embedded

    async def upsert_next(self, items: list[VectorItem]) -> VectorsStored:
        if without := [item for item in items if item.vector is None]:
            return await self._worker.upsert_next(without)
        filling = (await self._kept.embedders()).next  # another stack has embedded them
        return VectorsStored(vectors=[], embedder=filling or "")

    async def delete(self, ids: list[str]) -> None:
        """Do nothing: searches leave out what is retired, and erasures delete vectors."""

    async def ids(self, offset: int, limit: int, *, of_next: bool = False) -> list[str]:
        embedders = await self._kept.embedders()
        embedder = embedders.next if of_next else embedders.serving
        return [] if embedder is None else await self._kept.ids(embedder, offset, limit)

    async def held(self, ids: list[str]) -> list[str]:
        return await self._kept.held(ids)

    async def lost(self, items: list[VectorItem]) -> list[str]:
        """None of them: a vector that is stored is also found."""
        del items
        return []

    async def status(self) -> VectorStatus:
        """The state of the worker's embedder and of the ledger's vectors.

        A worker with another embedder than the ledger names is told to change it.
        """
        async with self._following:
            return await self._follow()

    async def _follow(self) -> VectorStatus:
        status = await self._worker.status()
        embedders = await self._kept.embedders()
        serving = embedders.serving
        if status.problem is None and serving is None:
            await self._kept.serve(status.embedder)
            serving = status.embedder
        if status.problem is None and serving is not None and serving != status.embedder:
            try:
                await self._worker.begin_next(serving)
                status = await self._worker.swap(serving)
            except VectorError as error:
                status = await self._worker.status()
                if status.embedder != serving:  # else it has swapped since, as it was asked before
                    problem = f"The vectors were made by {serving}: {error}"
                    status = msgspec.structs.replace(status, problem=problem)
        return msgspec.structs.replace(
            status,
            count=0 if serving is None else await self._kept.count(serving),
            next=embedders.next,
            next_dimensions=status.next_dimensions if status.next == embedders.next else 0,
        )

    async def reset(self, *, whole: bool = False) -> VectorStatus:
        """Let the worker's embedder serve, whichever it is; vectors that it has made remain."""
        del whole
        status = await self._worker.status()
        await self._kept.serve(status.embedder)
        return await self.status()

    async def begin_next(self, embedder: str) -> VectorStatus:
        return await self._worker.begin_next(embedder)

    async def swap(self, embedder: str) -> VectorStatus:
        """Let the next embedder serve; what other stacks have indexed meanwhile is embedded."""
        present = await ids_in_index(self, of_next=True)
        if not await self._kept.take_over(embedder):
            raise VectorError(f"No index of {embedder} is being filled any more.")
        missing, _ = await self._ledger.index.compare_ids(present)
        await self._ledger.index.queue(missing)
        self._may_have_grown.set()
        await self._require_served()
        return await self.status()

    async def index_large_places(self) -> None:
        """Build the indexes that searches of large places use, as they grow, until cancelled."""
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            await self._may_have_grown.wait()
            self._may_have_grown.clear()
            try:
                serving = (await self._kept.embedders()).serving
                is_done = serving is None or await self._ledger.index_vectors(serving)
            except StorageError as error:
                log.warning("large_places_not_indexed", reason=error.logged)
                is_done = False
            if is_done:
                backoff.reset()
            else:
                await asyncio.sleep(backoff.next_pause())
                self._may_have_grown.set()

    async def _require_served(self) -> None:
        """Let the worker change to the embedder that the ledger names.

        Raises:
            EmbedderMismatchError: It cannot.
        """
        status = await self.status()
        if status.problem is not None:
            raise EmbedderMismatchError(status.problem)
