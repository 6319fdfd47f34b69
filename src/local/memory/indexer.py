"""Keeps the vector index equal to the ledger: batches out, vectors back, deletions, comparison.

Everything here happens after the acknowledgement. Whatever fails is tried again, for ever: until it
succeeds the records are found by their words, and answers say `degraded`.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Protocol

import structlog

from local.errors import Local2Error, VectorError
from local.memory.ledger import Ledger
from local.memory.records import Waiting
from local.protocol.vectors import VectorHits, VectorItem, VectorsStored, VectorStatus

BATCH_RECORDS = 128
BATCH_CHARACTERS = 100_000
EMBEDDED_CHARACTERS = 8_000
"""An embedder reads no further than this, so no more is sent."""
ROUND = 512
IN_FLIGHT = 2
"""One batch is embedded while the vectors of the other travel home."""
ID_PAGE = 10_000
SAMPLE = 300
TOLERATED_LOSSES = 2
"""A sound index misses about one vector in ten thousand: its neighbour graph is approximate."""
FIRST_RETRY = 0.1
LAST_RETRY = 5.0

log = structlog.get_logger()


class Vectors(Protocol):
    """The vector worker, as the memory needs it; every method may raise Local2Error."""

    async def search(self, text: str, limit: int, *, tenant: str) -> VectorHits: ...
    async def upsert(self, items: list[VectorItem], *, tenant: str) -> VectorsStored: ...
    async def delete(self, ids: list[str], *, tenant: str) -> None: ...
    async def ids(self, offset: int, limit: int, *, tenant: str) -> list[str]: ...
    async def lost(self, items: list[VectorItem], *, tenant: str) -> list[str]: ...
    async def status(self, *, tenant: str) -> VectorStatus: ...
    async def reset(self, *, tenant: str) -> VectorStatus: ...


class Indexer:
    """Indexes one tenant's records while `run` runs; `wake` it after every write."""

    def __init__(self, ledger: Ledger, vectors: Vectors) -> None:
        self._ledger = ledger
        self._vectors = vectors
        self._work = asyncio.Event()
        self._worker: VectorStatus | None = None
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._reported = ""

    def wake(self) -> None:
        """There is something to index, or to remove."""
        self._work.set()

    def worker_started(self) -> None:
        """A vector worker is new on the bus: compare its index with the ledger before going on."""
        self._worker = None
        self._work.set()

    async def rebuild(self) -> None:
        """Empty the index and let every record wait for it; vectors that fit are not made again."""
        await self._empty()
        self.worker_started()

    async def run(self) -> None:
        """Index until cancelled."""
        delay = FIRST_RETRY
        self._work.set()
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                await self._catch_up()
            except* Local2Error as group:
                self._worker = None
                self._report(str(group.exceptions[0]))
                await self._pause(delay)
                delay = min(delay * 2, LAST_RETRY)
            else:
                delay = FIRST_RETRY
                self._report("")

    def _report(self, problem: str) -> None:
        """Log a problem when it begins and when it ends, not at every attempt."""
        if problem and problem != self._reported:
            log.warning("indexing_delayed", reason=problem)
        elif self._reported and not problem:
            log.info("indexing_resumed")
        self._reported = problem

    async def _pause(self, seconds: float) -> None:
        """Wait before another attempt; a new worker cuts the wait short."""
        try:
            async with asyncio.timeout(seconds):  # wait_for may swallow a cancellation
                await self._work.wait()
        except TimeoutError:
            self._work.set()

    async def _catch_up(self) -> None:
        if self._worker is None:
            self._worker = await self._compare()
        if self._worker.problem is not None:  # embedding for an index that takes no vectors
            raise VectorError(self._worker.problem)
        embedder = self._worker.embedder
        while waiting := await self._ledger.waiting(ROUND, embedder=embedder):
            async with asyncio.TaskGroup() as group:
                for batch in batches(waiting):
                    group.create_task(self._index(batch))
        while ids := await self._ledger.to_remove(ROUND):
            await self._vectors.delete(ids, tenant=self._ledger.tenant)
            await self._ledger.removed(ids)

    async def _index(self, batch: list[Waiting]) -> None:
        items = [
            VectorItem(id=r.id, vector=r.vector)
            if r.vector is not None
            else VectorItem(id=r.id, text=r.text[:EMBEDDED_CHARACTERS])
            for r in batch
        ]
        async with self._slots:
            stored = await self._vectors.upsert(items, tenant=self._ledger.tenant)
        await self._ledger.keep_vectors(batch, stored.vectors, stored.embedder)

    async def _compare(self) -> VectorStatus:
        """Find what the index lacks, or has too much, after a restart or a crash."""
        status = await self._vectors.status(tenant=self._ledger.tenant)
        counts = await self._ledger.counts()
        if status.clean and status.count == counts.indexed:
            return status
        present = await self._ids_in_index()
        expected = await self._ledger.indexed_ids()
        missing, unknown = sorted(expected - present), sorted(present - expected)
        log.info("index_compared", missing=len(missing), unknown=len(unknown), clean=status.clean)
        await self._ledger.index_again(missing)
        for start in range(0, len(unknown), ROUND):
            page = unknown[start : start + ROUND]
            await self._vectors.delete(page, tenant=self._ledger.tenant)
        if not status.clean and status.problem is None:
            await self._probe()
        return status

    async def _empty(self) -> None:
        await self._vectors.reset(tenant=self._ledger.tenant)
        await self._ledger.index_anew()

    async def _probe(self) -> None:
        """Files cut short by a power cut lose vectors without an error: a sample tells."""
        sample = await self._ledger.sample_indexed(SAMPLE)
        items = [VectorItem(id=record.id, vector=record.vector) for record in sample]
        lost = await self._vectors.lost(items, tenant=self._ledger.tenant)
        if len(lost) > TOLERATED_LOSSES:
            log.warning("index_damaged", lost=len(lost), of=len(sample), remedy="filling it anew")
            await self._empty()
        else:
            await self._ledger.index_again(lost)

    async def _ids_in_index(self) -> set[str]:
        ids: set[str] = set()
        while page := await self._vectors.ids(len(ids), ID_PAGE, tenant=self._ledger.tenant):
            ids.update(page)
        return ids


def batches(records: Sequence[Waiting]) -> Iterator[list[Waiting]]:
    """Cut records into batches, shortest texts first: padding is what embedding wastes."""
    batch: list[Waiting] = []
    characters = 0
    for record in sorted(records, key=lambda r: len(r.text)):
        length = min(len(record.text), EMBEDDED_CHARACTERS)
        if batch and (len(batch) == BATCH_RECORDS or characters + length > BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(record)
        characters += length
    if batch:
        yield batch
