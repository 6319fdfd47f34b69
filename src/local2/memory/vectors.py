"""What indexing (`indexing.py`) needs: the worker's interface, batches, comparison and damage.

`Vectors` is the vector worker as the memory sees it; the composition root provides its client. A
damaged index is rebuilt immediately the first time. If it is damaged again within ten minutes, the
next rebuild waits, each time twice as long: filling it again does not remove a cause such as a full
disk.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec
import structlog

from local2.background import Backoff
from local2.errors import IndexDamagedError
from local2.ledger.operations.index import IndexedRecords
from local2.ledger.upkeep import Waiting
from local2.protocol.payloads import split_into_parts
from local2.protocol.vectors import VectorHits, VectorItem, VectorsStored, VectorStatus

BATCH_RECORDS = 128
"""Maximum number of records in a batch."""
BATCH_BYTES = 400_000
"""Maximum bytes of a batch's request or reply, well below the bus's limit for a message."""
BYTES_A_DIMENSION = 6
"""Bytes per dimension: a float32 in base64, rounded up."""
MIN_BATCH_RECORDS = 8
"""Minimum number of records to which a slow worker reduces a batch."""
BATCH_SECONDS = 0.4
"""Target duration of a batch in seconds, including the wait for the previous one: a new record
waits for both."""
MAX_BATCHES = 2
"""Batches in flight: one is embedded or stored while the vectors of the other are returned and the
next is read."""
REMOVED_PER_REQUEST = 512
"""Number of records that are removed from the index in one request."""
ID_PAGE = 10_000
"""Number of ids that are read from the index in one request."""
SAMPLE = 300
"""Number of random vectors that are tested after a start."""
FIRST_PAUSE = 5.0
"""Seconds before the second rebuild of an index; doubled before each further one."""
LAST_PAUSE = 600.0
"""Maximum seconds before a rebuild."""
STABLE_SECONDS = 600.0
"""Seconds after which a rebuild counts as successful, and a crash is forgotten."""
TOLERATED_LOSSES, TOLERATED_FRACTION = 2, 0.05
"""Number and fraction of a sample that may be missing from a sound index, whose neighbour graph is
approximate: it misses one in a hundred of 200,000 random vectors. An index whose files were cut or
deleted misses most."""

log = structlog.get_logger()


class Vectors(Protocol):
    """The vector worker. Every method may raise Local2Error."""

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


def next_batch_size(records: int, seconds: float) -> int:
    """The size of the next batch, given the size and duration of the last one."""
    fitting = int(records * BATCH_SECONDS / max(seconds, 1e-6))
    return max(MIN_BATCH_RECORDS, min(fitting, BATCH_RECORDS, 2 * records))


def vector_items(records: Sequence[Waiting]) -> list[VectorItem]:
    """The records in the form that the vector worker takes: with a vector or a text."""
    return [
        VectorItem(id=record.id, vector=record.vector)
        if record.vector is not None
        else VectorItem(id=record.id, text=record.text)
        for record in records
    ]


def batches(records: Sequence[Waiting], dimensions: int) -> Iterator[list[Waiting]]:
    """Cut records into batches whose request and reply both fit into a message of the bus."""
    vector_bytes = dimensions * BYTES_A_DIMENSION

    def size_of(record: Waiting) -> int:
        text = record.text if record.vector is None else ""
        return max(len(msgspec.json.encode(text)), vector_bytes)

    return split_into_parts(records, size_of, max_bytes=BATCH_BYTES, max_items=BATCH_RECORDS)


async def compare(records: IndexedRecords, vectors: Vectors, status: VectorStatus) -> None:
    """Make the index consistent with the ledger after a restart or a crash.

    Missing records are queued for indexing, unknown ones are removed.

    Raises:
        IndexDamagedError: Too many vectors of a random sample are missing.
        VectorError: The worker does not answer.
    """
    if status.count == 0:
        await records.queue_all()
    elif not status.clean or status.count != await records.indexed():
        tenant = records.tenant
        missing, unknown = await records.compare_ids(await ids_in_index(vectors, tenant))
        log.info("index_compared", missing=len(missing), unknown=len(unknown), clean=status.clean)
        await records.queue(missing)
        for start in range(0, len(unknown), REMOVED_PER_REQUEST):
            await vectors.delete(unknown[start : start + REMOVED_PER_REQUEST], tenant=tenant)
    # Test a random sample: an index with cut or deleted files loses vectors without an error.
    sample = await records.sample_indexed(SAMPLE, embedder=status.embedder)
    lost: list[str] = []
    for batch in batches(sample, status.dimensions):
        lost += await vectors.lost(vector_items(batch), tenant=records.tenant)
    if len(lost) > max(TOLERATED_LOSSES, TOLERATED_FRACTION * len(sample)):
        raise IndexDamagedError(f"It misses {len(lost)} of {len(sample)} vectors at random.")
    await records.queue(lost)


async def ids_in_index(vectors: Vectors, tenant: str, *, of_next: bool = False) -> set[str]:
    """All ids in the index; `of_next`: in the index that is filled to replace it."""
    ids: set[str] = set()
    while page := await vectors.ids(len(ids), ID_PAGE, tenant=tenant, of_next=of_next):
        ids.update(page)
    return ids


class Damage:
    """Tracks the damage of one index, and when it may be rebuilt. `reason` is empty if sound."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.reason = ""
        self.pending = False
        """Whether the index must still be emptied; afterwards it is filled again."""
        self._backoff = Backoff(FIRST_PAUSE, LAST_PAUSE)
        self._pause = 0.0
        self._due = 0.0
        self._rebuilt_until = -math.inf
        self._crashed_until = -math.inf

    def record_damage(self, reason: str) -> bool:
        """Record that a call found the index damaged; return whether this was unknown."""
        if self.pending:
            return False
        now = self._clock()
        if now >= self._rebuilt_until:  # it was stable: rebuild it at once
            self._backoff.reset()
            self._pause = 0.0
        else:
            self._pause = self._backoff.next_pause()
        self._due = now + self._pause
        self.reason, self.pending = reason, True
        return True

    def record_crash(self) -> bool:
        """Record a crash of the vector worker; return whether it crashed recently before."""
        now = self._clock()
        again = now < self._crashed_until
        self._crashed_until = now + STABLE_SECONDS
        return again

    def seconds_to_wait(self) -> float:
        """The seconds until the index may be rebuilt."""
        return max(self._due - self._clock(), 0.0)

    def record_attempt(self) -> None:
        """Record an attempt to empty the index."""
        self.pending = False
        self._rebuilt_until = self._clock() + STABLE_SECONDS

    def record_repair(self) -> None:
        """Record that the index is sound."""
        self.reason, self.pending = "", False

    def __str__(self) -> str:
        text = f"The vector index was damaged and is rebuilt from the ledger. {self.reason}"
        if not self._pause:
            return text
        return (
            f"{text} It was damaged again soon after the last rebuild, so the next one waits for "
            f"{self._pause:.0f} s. Check the disk's space and permissions."
        )
