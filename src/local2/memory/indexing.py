"""Keep the vector index equal to the ledger: index and remove records, compare, repair.

Everything here happens after the acknowledgement. Until a record is indexed, it is found by its
words, and answers report `degraded`. A damaged index is emptied, and filled again with the vectors
in the ledger.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime

import structlog

from local2.errors import IndexDamagedError, VectorError
from local2.ledger.operations.index import IndexedRecords
from local2.ledger.records import Task, TaskKind
from local2.memory.backlog import Backlog, Job
from local2.memory.vectors import (
    MAX_BATCHES,
    MIN_BATCH_RECORDS,
    REMOVED_PER_REQUEST,
    Damage,
    Vectors,
    batches,
    compare,
    next_batch_size,
    vector_items,
)
from local2.protocol.tool import may_wait
from local2.protocol.vectors import VectorStatus

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
        self._worker: VectorStatus | None = None
        """The worker whose index has been compared with the ledger."""
        self._batch_records = MIN_BATCH_RECORDS
        self.starting = True
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

    @property
    def worker(self) -> VectorStatus | None:
        """The worker whose index has been compared with the ledger, with its status then."""
        return self._worker

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
        self._worker, self.embedder = status, status.embedder

    @property
    def is_caught_up(self) -> bool:
        """Whether it is known that every acknowledged record is in the index.

        Where several stacks share the ledger, only the ledger knows.
        """
        is_known = self._worker is not None and not self._records.is_shared
        return is_known and self._runner.is_caught_up

    @property
    def is_starting(self) -> bool:
        """Whether the stack's first worker is not ready yet, and has not failed."""
        return not self._settled.is_set()

    @property
    def problem(self) -> str | None:
        """The reason why the index may not match the ledger, or None."""
        if self._worker is not None:
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
        if self._worker is None or self._worker.worker != worker:
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
        self._worker = None
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
            if self._worker is None:
                await self._verify()
        except IndexDamagedError as error:
            self.report_damage(str(error))
            raise

    async def do(self, tasks: Sequence[Task]) -> None:
        """Index records or remove them."""
        try:
            if tasks[0].kind == "index":
                await self._index(tasks)
            else:
                ids = [task.id for task in tasks]
                await self._vectors.delete(ids, tenant=self._records.tenant)
                await self._runner.finish(tasks)
        except IndexDamagedError as error:
            self.report_damage(str(error))
            raise

    def all_done(self) -> None:
        """Note that the index is complete and sound."""
        self._filling = False
        if self._worker is not None and self._damage.reason:
            log.info("index_rebuilt")
            self._damage.record_repair()

    async def _index(self, tasks: Sequence[Task]) -> None:
        await self._may_index.wait()
        self._batches_running += 1
        self._idle.clear()
        try:
            worker = self._worker
            if worker is None:
                raise VectorError(REPLACED)
            waiting = await self._records.waiting(tasks, embedder=worker.embedder)
            for batch in batches(waiting, worker.dimensions):
                begun = time.monotonic()
                stored = await self._vectors.upsert(
                    vector_items(batch), tenant=self._records.tenant
                )
                await self._records.store_vectors(batch, stored.vectors, stored.embedder)
                self._batch_records = next_batch_size(len(batch), time.monotonic() - begun)
        finally:
            self._batches_running -= 1
            if not self._batches_running:
                self._idle.set()
        if self._records.next is not None:
            self._backlog.wake("embed")

    async def _verify(self) -> None:
        """Compare the index with the ledger, and from then on trust the worker.

        Raises:
            VectorError: The worker reports a problem, or was lost during the call.
        """
        losses = self._losses
        status = await self._vectors.status(tenant=self._records.tenant)
        if status.problem is not None:
            self._settled.set()
            raise VectorError(status.problem)
        await compare(self._records, self._vectors, status)
        if losses != self._losses:
            raise VectorError(REPLACED)
        self._worker, self.starting = status, False
        self.embedder = status.embedder
        self._settled.set()
        self._backlog.wake("embed")

    async def _empty(self, *, whole: bool) -> None:
        await self._vectors.reset(tenant=self._records.tenant, whole=whole)
        await self._records.queue_all()
