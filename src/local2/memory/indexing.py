"""Keep the vector index equal to the ledger: index and remove records, compare, repair.

Everything here happens after the acknowledgement. Until a record is indexed, it is found by its
words, and answers report `degraded`. A damaged index is emptied, and filled again with the vectors
in the ledger: at once the first time. If it is damaged again within ten minutes, the next rebuild
waits, each time twice as long: filling it again does not remove a cause such as a full disk.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime

import msgspec
import structlog

from local2.background import Backoff
from local2.errors import IndexDamagedError, VectorError
from local2.ledger.operations.index import IndexedRecords, Waiting
from local2.ledger.records import Task, TaskKind
from local2.memory.backlog import Backlog, Job
from local2.memory.vector_index import Vectors, ids_in_index
from local2.protocol.payloads import split_into_parts
from local2.protocol.tool import may_wait
from local2.protocol.vectors import VectorItem, VectorStatus

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
STARTING = "The memory is still starting."
REPLACED = "The vector worker has ended, or its index is damaged."

log = structlog.get_logger()


class Indexer(Job):
    """Indexes one tenant's records, and removes retired ones from the index."""

    name = "indexing"
    kinds = ("index", "unindex")
    max_batches = MAX_BATCHES
    longest_pause = 5.0

    def __init__(
        self, records: IndexedRecords, vectors: Vectors, backlog: Backlog, *, patience: float
    ) -> None:
        """`patience`: maximum seconds that searches should wait for a starting worker."""
        self._records = records
        self._vectors = vectors
        self._runner = backlog.add_job(self)
        self.worker: VectorStatus | None = None
        """The worker whose index has been compared with the ledger, with its status then."""
        self._batch_records = MIN_BATCH_RECORDS
        self.was_ready = False
        self._losses = 0
        self._damage = Damage()
        self._rebuilding = asyncio.Lock()
        self._filling = False
        self.patience = patience
        self._batches_running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._may_index = asyncio.Event()
        self._may_index.set()
        self._backlog = backlog
        self.failure: str | None = None
        """Why the last worker could not open the index, until one starts."""
        self.embedder: str | None = None
        """The embedder of the current worker, or of the last one."""
        self._settled = asyncio.Event()
        """Cleared while the first worker starts; set when it is ready, has died, or reports a
        problem."""
        self._settled.set()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Stop indexing while the context is open, once the batches in flight are done."""
        self._may_index.clear()
        try:
            await self._idle.wait()
            yield
        finally:
            self._may_index.set()

    def swapped(self, status: VectorStatus) -> None:
        """Note that the index of another embedder, with the same records, has taken over."""
        self.worker, self.embedder = status, status.embedder

    @property
    def is_caught_up(self) -> bool:
        """Whether it is known that every acknowledged record is in the index.

        Where several stacks share the ledger, only the ledger knows.
        """
        is_known = self.worker is not None and not self._records.is_shared
        return is_known and self._runner.is_caught_up

    @property
    def is_starting(self) -> bool:
        """Whether the stack's first worker is not ready yet, and has not failed."""
        return not self._settled.is_set()

    @property
    def problem(self) -> str | None:
        """The reason why the index may not match the ledger, or None."""
        if self.worker is not None:
            return None
        if self._damage.pending:
            return str(self._damage)
        if self.failure is not None:
            return self.failure
        if self.is_starting:
            return STARTING
        return self._runner.problem or "The vector index is not ready yet."

    @property
    def delay(self) -> str | None:
        """The reason why the last attempt to index failed, until one succeeds."""
        return self._runner.problem

    @property
    def last_progress(self) -> datetime:
        """When a record was last indexed, or when the first of the waiting records was written."""
        return self._runner.last_progress

    @property
    def refilling(self) -> str | None:
        """The reason why a damaged index is not complete yet, or None."""
        return str(self._damage) if self._damage.reason else None

    def worker_starting(self) -> None:
        """Note that the first worker is starting. Searches wait for this one only."""
        self._settled.clear()

    async def wait_for_start(self, within: float = math.inf) -> None:
        """Wait until the starting worker is ready or has failed, while the caller waits.

        At most `within` seconds.
        """
        seconds = min(within, may_wait())
        if self.is_starting and seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds if seconds < math.inf else None):
                    await self._settled.wait()

    def worker_started(self, worker: str) -> None:
        """Note that a worker with this id is on the bus; its index is compared first."""
        self.failure = None
        if self.worker is None or self.worker.worker != worker:
            self._start_over()

    def worker_failed(self, problem: str) -> None:
        """Note why a worker could not open the index."""
        self.failure = problem
        self._settled.set()

    def worker_lost(self, *, crashed: bool = False) -> None:
        """Note that the worker has ended; the index of the next one must be compared."""
        self._settled.set()
        self._forget_worker()
        if crashed and self._damage.record_crash():
            self.report_damage("The vector worker crashes over it again and again.")

    def report_damage(self, reason: str) -> None:
        """Note that a call found the index damaged; it is rebuilt first."""
        if self._damage.record_damage(reason):
            log.warning("index_damaged", reason=reason)
            self._settled.set()
            self._forget_worker()
        self._runner.resume()

    async def check_count(self, count: int) -> None:
        """Compare the index with the ledger if it holds `count` records and should hold more."""
        if self.is_caught_up and count < await self._records.indexed() and self.is_caught_up:
            log.warning("index_contradicts_ledger", count=count)
            self._start_over()

    def _forget_worker(self) -> None:
        self._losses += 1
        self.worker = None
        self._filling = False
        self._runner.is_caught_up = False

    async def rebuild(self) -> None:
        """Empty the index and queue every record for it. Vectors in the ledger are used again.

        Does nothing while the last rebuild is in progress.
        """
        async with self._rebuilding:
            if self._filling:
                return
            self.worker_lost()
            try:
                await self._empty(whole=False)
                self._damage.record_repair()
            finally:
                self._start_over()
            self._filling = True

    def _start_over(self) -> None:
        self._forget_worker()
        self._runner.resume()

    def batch_size(self, kind: TaskKind) -> int:
        """As many as are embedded in the time that another owner's record may wait."""
        return self._batch_records if kind == "index" else REMOVED_PER_REQUEST

    async def ready(self) -> None:
        """Rebuild a damaged index, and compare the index of a new worker with the ledger."""
        try:
            # A damaged index is emptied once the pause after the last rebuild is over.
            while self._damage.pending and (seconds := self._damage.seconds_to_wait()):
                await self._runner.pause(seconds)
            if self._damage.pending:
                try:
                    await self._empty(whole=True)
                except IndexDamagedError:
                    self._damage.record_attempt()
                    raise
                self._damage.record_attempt()
            if self.worker is None:
                await self._compare()
        except IndexDamagedError as error:
            self.report_damage(str(error))
            raise

    async def do(self, tasks: Sequence[Task]) -> None:
        """Index records or remove them."""
        try:
            if tasks[0].kind == "unindex":
                await self._vectors.delete([task.id for task in tasks])
                await self._runner.finish(tasks)
                return
            await self._may_index.wait()
            self._batches_running += 1
            self._idle.clear()
            try:
                if self.worker is None:
                    raise VectorError(REPLACED)
                embedder, dimensions = self.worker.embedder, self.worker.dimensions
                waiting = await self._records.waiting(tasks, embedder=embedder)
                for batch in batches(waiting, dimensions):
                    begun = time.monotonic()
                    stored = await self._vectors.upsert(vector_items(batch))
                    if stored.embedder != embedder:  # another stack has changed it
                        self._start_over()
                        raise VectorError(REPLACED)
                    await self._records.store_vectors(batch, stored.vectors, stored.embedder)
                    self._batch_records = next_batch_size(len(batch), time.monotonic() - begun)
            finally:
                self._batches_running -= 1
                if not self._batches_running:
                    self._idle.set()
            if self._records.next is not None:
                self._backlog.wake("embed")
        except IndexDamagedError as error:
            self.report_damage(str(error))
            raise

    def all_done(self) -> None:
        """Note that the index is complete and sound."""
        self._filling = False
        if self.worker is not None and self._damage.reason:
            log.info("index_rebuilt")
            self._damage.record_repair()

    async def _compare(self) -> None:
        """Make the index equal to the ledger after a restart or a crash, and then trust the worker.

        Missing records are queued for indexing, unknown ones are removed.

        Raises:
            IndexDamagedError: Too many vectors of a random sample are missing.
            VectorError: The worker reports a problem, or was lost during the call.
        """
        losses = self._losses
        records, vectors = self._records, self._vectors
        status = await vectors.status()
        if status.problem is not None:
            self._settled.set()
            raise VectorError(status.problem)
        if status.count == 0:
            await records.queue_all()
        elif not status.clean or status.count != await records.indexed():
            missing, unknown = await records.compare_ids(await ids_in_index(vectors))
            log.info(
                "index_compared", missing=len(missing), unknown=len(unknown), clean=status.clean
            )
            await records.queue(missing)
            for start in range(0, len(unknown), REMOVED_PER_REQUEST):
                await vectors.delete(unknown[start : start + REMOVED_PER_REQUEST])
        # Test a random sample: an index with cut or deleted files loses vectors without an error.
        sample = await records.sample_indexed(SAMPLE, embedder=status.embedder)
        lost: list[str] = []
        for batch in batches(sample, status.dimensions):
            lost += await vectors.lost(vector_items(batch))
        if len(lost) > max(TOLERATED_LOSSES, TOLERATED_FRACTION * len(sample)):
            raise IndexDamagedError(f"It misses {len(lost)} of {len(sample)} vectors at random.")
        await records.queue(lost)
        if losses != self._losses:
            raise VectorError(REPLACED)
        self.worker, self.was_ready = status, True
        self.embedder = status.embedder
        self._settled.set()
        self._backlog.wake("embed")

    async def _empty(self, *, whole: bool) -> None:
        await self._vectors.reset(whole=whole)
        await self._records.queue_all()


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
