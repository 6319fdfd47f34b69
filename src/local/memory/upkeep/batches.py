"""Records on their way to the vector worker: in batches that the bus carries, a few under way."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from local.ledger.door import IndexQueue
from local.ledger.records import Waiting
from local.memory.vectors import Vectors
from local.protocol.envelope import utc_now
from local.protocol.vectors import VectorItem, VectorStatus

BATCH_RECORDS = 128
BATCH_BYTES = 400_000
"""Of a request or its answer, well below what the bus carries."""
BYTES_A_DIMENSION = 6
"""A float32 in base64, rounded up."""
LEAST_RECORDS = 8
BATCH_SECONDS = 0.4
"""What a batch should take, with its wait for the one before: who comes now waits behind both."""
UNDER_WAY = 2
"""One batch is embedded or stored while the other's vectors travel home and the next is read."""


class Batches:
    """Sends what waits of one tenant to the vector worker."""

    def __init__(self, queue: IndexQueue, vectors: Vectors) -> None:
        self._queue = queue
        self._vectors = vectors
        self._records = LEAST_RECORDS
        self.moved_at = utc_now()

    async def send_all(self, worker: VectorStatus) -> None:
        """Keep batches under way until nothing waits; what fails is raised, and waits again."""
        # Not a TaskGroup: it swallows a cancellation that comes while a task of it fails.
        under_way: dict[asyncio.Task[None], list[Waiting]] = {}
        try:
            while (batch := await self._next(worker, under_way.values())) or under_way:
                if batch:
                    under_way[asyncio.create_task(self._send(batch))] = batch
                if not batch or len(under_way) == UNDER_WAY:
                    done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        await task
                        del under_way[task]
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _next(
        self, worker: VectorStatus, under_way: Iterable[list[Waiting]]
    ) -> list[Waiting]:
        rows = [record.row for batch in under_way for record in batch]
        waiting = await self._queue.waiting(self._records, embedder=worker.embedder, but=rows)
        return next(batches(waiting, worker.dimensions), [])

    async def _send(self, batch: list[Waiting]) -> None:
        begun = time.monotonic()
        stored = await self._vectors.upsert(items_of(batch), tenant=self._queue.tenant)
        await self._queue.store_vectors(batch, stored.vectors, stored.embedder)
        self._records = records_after(len(batch), time.monotonic() - begun)
        self.moved_at = utc_now()


def records_after(records: int, seconds: float) -> int:
    """How many records the next batch has, after one of so many that took so long."""
    fitting = int(records * BATCH_SECONDS / max(seconds, 1e-6))
    return max(LEAST_RECORDS, min(fitting, BATCH_RECORDS, 2 * records))


def items_of(records: Sequence[Waiting]) -> list[VectorItem]:
    """The records as the vector worker takes them: texts, or vectors where they are known."""
    return [
        VectorItem(id=record.id, vector=record.vector)
        if record.vector is not None
        else VectorItem(id=record.id, text=record.text)
        for record in records
    ]


def batches(records: Sequence[Waiting], dimensions: int) -> Iterator[list[Waiting]]:
    """Cut records into batches that the bus carries, there and back."""
    vector_bytes = dimensions * BYTES_A_DIMENSION
    batch: list[Waiting] = []
    size = 0
    for record in records:
        text = record.text if record.vector is None else ""
        cost = max(len(msgspec.json.encode(text)), vector_bytes)
        if batch and (len(batch) == BATCH_RECORDS or size + cost > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += cost
    if batch:
        yield batch
