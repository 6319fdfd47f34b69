"""The vector index beside the ledger: its server, its batches, what it lacks, its damage.

The composition root provides the server. A damaged index is rebuilt at once the first time. If it
is damaged again within ten minutes, the rebuild waits, each time twice as long: filling it again
does not remove a cause such as a full disk.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec
import structlog

from local.errors import IndexDamagedError
from local.ledger.door import IndexedRecords
from local.ledger.upkeep import Waiting
from local.protocol.payloads import in_parts
from local.protocol.vectors import VectorHits, VectorItem, VectorsStored, VectorStatus

BATCH_RECORDS = 128
BATCH_BYTES = 400_000
"""Of a request or its answer, well below what the bus carries."""
BYTES_A_DIMENSION = 6
"""A float32 in base64, rounded up."""
LEAST_RECORDS = 8
BATCH_SECONDS = 0.4
"""Seconds that a batch should take, with its wait for the one before: a new record waits for
both."""
UNDER_WAY = 2
"""One batch is embedded or stored while the other's vectors travel home and the next is read."""
REMOVED = 512
"""Records removed from the index together."""
ID_PAGE = 10_000
SAMPLE = 300
FIRST_PAUSE = 5.0
LAST_PAUSE = 600.0
STEADY = 600.0
"""Seconds after which a rebuilt index counts as lasting, and a crash is forgotten."""
TOLERATED_LOSSES, TOLERATED_SHARE = 2, 0.05
"""A sound index misses some vectors, as its neighbour graph is approximate: one of a hundred in
200,000 made-up ones. An index whose files were cut or deleted misses most."""

log = structlog.get_logger()


class Vectors(Protocol):
    """The vector worker, as the memory needs it; every method may raise Local2Error."""

    async def search(self, text: str, limit: int, *, tenant: str) -> VectorHits: ...
    async def upsert(self, items: list[VectorItem], *, tenant: str) -> VectorsStored: ...
    async def upsert_next(self, items: list[VectorItem], *, tenant: str) -> VectorsStored: ...
    async def delete(self, ids: list[str], *, tenant: str) -> None: ...
    async def ids(
        self, offset: int, limit: int, *, tenant: str, of_next: bool = False
    ) -> list[str]: ...
    async def held(self, ids: list[str], *, tenant: str) -> list[str]: ...
    async def lost(self, items: list[VectorItem], *, tenant: str) -> list[str]: ...
    async def status(self, *, tenant: str) -> VectorStatus: ...
    async def reset(self, *, tenant: str, whole: bool = False) -> VectorStatus: ...
    async def begin_next(self, embedder: str, *, tenant: str) -> VectorStatus: ...
    async def swap(self, embedder: str, *, tenant: str) -> VectorStatus: ...


def records_after(records: int, seconds: float) -> int:
    """Return the size of the next batch, after one of so many records that took so long."""
    fitting = int(records * BATCH_SECONDS / max(seconds, 1e-6))
    return max(LEAST_RECORDS, min(fitting, BATCH_RECORDS, 2 * records))


def items_of(records: Sequence[Waiting]) -> list[VectorItem]:
    """Return the records for the vector worker: texts, or vectors where they are known."""
    return [
        VectorItem(id=record.id, vector=record.vector)
        if record.vector is not None
        else VectorItem(id=record.id, text=record.text)
        for record in records
    ]


def batches(records: Sequence[Waiting], dimensions: int) -> Iterator[list[Waiting]]:
    """Cut records into batches that the bus carries, there and back."""
    vector_bytes = dimensions * BYTES_A_DIMENSION

    def size_of(record: Waiting) -> int:
        text = record.text if record.vector is None else ""
        return max(len(msgspec.json.encode(text)), vector_bytes)

    return in_parts(records, size_of, most_bytes=BATCH_BYTES, most=BATCH_RECORDS)


async def compare(records: IndexedRecords, vectors: Vectors, status: VectorStatus) -> None:
    """Find what the index lacks, or has too much, after a restart or a crash.

    Raises:
        IndexDamagedError: It lacks too much of what it should hold.
        VectorError: The worker does not answer.
    """
    if status.count == 0:
        await records.index_anew()
    elif not status.clean or status.count != await records.indexed():
        await _compare_ids(records, vectors, clean=status.clean)
    await _probe(records, vectors, status)


async def ids_in_index(vectors: Vectors, tenant: str, *, of_next: bool = False) -> set[str]:
    """Return the ids of all that the index holds, or the one that is filled to replace it."""
    ids: set[str] = set()
    while page := await vectors.ids(len(ids), ID_PAGE, tenant=tenant, of_next=of_next):
        ids.update(page)
    return ids


async def _compare_ids(records: IndexedRecords, vectors: Vectors, *, clean: bool) -> None:
    tenant = records.tenant
    missing, unknown = await records.compared(await ids_in_index(vectors, tenant))
    log.info("index_compared", missing=len(missing), unknown=len(unknown), clean=clean)
    await records.index_again(missing)
    for start in range(0, len(unknown), REMOVED):
        await vectors.delete(unknown[start : start + REMOVED], tenant=tenant)


async def _probe(records: IndexedRecords, vectors: Vectors, status: VectorStatus) -> None:
    """Test a sample of vectors: files that were cut or deleted lose vectors without an error."""
    sample = await records.sample_indexed(SAMPLE, embedder=status.embedder)
    lost: list[str] = []
    for batch in batches(sample, status.dimensions):
        lost += await vectors.lost(items_of(batch), tenant=records.tenant)
    if len(lost) > max(TOLERATED_LOSSES, TOLERATED_SHARE * len(sample)):
        raise IndexDamagedError(f"It misses {len(lost)} of {len(sample)} vectors at random.")
    await records.index_again(lost)


class Damage:
    """The condition of one index; `reason` is empty while it is sound."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.reason = ""
        self.pending = False
        """Whether it has yet to be emptied; after that it is being filled."""
        self._pause = 0.0
        self._due = 0.0
        self._rebuilt_until = -math.inf
        self._crashed_until = -math.inf

    def found(self, reason: str) -> bool:
        """Record that a call has found the index damaged; return whether that is new."""
        if self.pending:
            return False
        now = self._clock()
        lasted = now >= self._rebuilt_until
        self._pause = 0.0 if lasted else min(max(FIRST_PAUSE, 2 * self._pause), LAST_PAUSE)
        self._due = now + self._pause
        self.reason, self.pending = reason, True
        return True

    def crashed(self) -> bool:
        """Record that the vector worker has crashed; return whether it does so repeatedly."""
        now = self._clock()
        again = now < self._crashed_until
        self._crashed_until = now + STEADY
        return again

    def pause(self) -> float:
        """Return the seconds until the index may be rebuilt."""
        return max(self._due - self._clock(), 0.0)

    def tried(self) -> None:
        """Record that the index was emptied, or could not be."""
        self.pending = False
        self._rebuilt_until = self._clock() + STEADY

    def mended(self) -> None:
        """Record that the index is sound."""
        self.reason, self.pending = "", False

    def __str__(self) -> str:
        text = f"The vector index was damaged and is rebuilt from the ledger. {self.reason}"
        if not self._pause:
            return text
        return (
            f"{text} That did not last before, so the next attempt waits for {self._pause:.0f} s. "
            "Check the disk's space and permissions."
        )
