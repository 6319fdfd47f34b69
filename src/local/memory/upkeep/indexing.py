"""Keeps the vector index equal to the ledger: batches out, vectors back, deletions, comparison.

Everything here happens after the acknowledgement. Whatever fails is tried again, for ever: until it
succeeds the records are found by their words, and answers say `degraded`. An index that is damaged
is emptied, and filled again with the vectors in the ledger.
"""

import asyncio
from contextlib import suppress
from datetime import datetime

import structlog

from local.errors import IndexDamagedError, Local2Error, VectorError
from local.ledger.door import IndexQueue
from local.memory.upkeep.batches import Batches, batches, items_of
from local.memory.upkeep.damage import Damage
from local.memory.vectors import Vectors
from local.protocol.envelope import utc_now
from local.protocol.vectors import VectorStatus

REMOVED = 512
"""Records removed from the index together."""
ID_PAGE = 10_000
SAMPLE = 300
TOLERATED_LOSSES, TOLERATED_SHARE = 2, 0.05
"""A sound index misses some vectors, as its neighbour graph is approximate: one of a hundred in
200,000 made-up ones. One whose files were cut or deleted misses most."""
STARTING = "The memory is still starting."
FIRST_RETRY = 0.1
LAST_RETRY = 5.0

log = structlog.get_logger()


class Indexer:
    """Indexes one tenant's records while `run` runs; `wake` it after every write."""

    def __init__(self, queue: IndexQueue, vectors: Vectors, *, patience: float) -> None:
        """`patience`: seconds that a search waits for a worker that is starting."""
        self._queue = queue
        self._vectors = vectors
        self._work = asyncio.Event()
        self._new_worker = asyncio.Event()
        self._worker: VectorStatus | None = None
        self.caught_up = False
        """Every record whose write was acknowledged is in the index."""
        self._batches = Batches(queue, vectors)
        self._losses = 0
        self._damage = Damage()
        self._rebuilding = asyncio.Lock()
        self._filling = False
        self._reported = ""
        self._was_ready = False
        self._patience = patience
        self._settled = asyncio.Event()
        """No worker is starting: one is ready, or has died, or says why it cannot serve."""
        self._settled.set()

    @property
    def problem(self) -> str | None:
        """Why the index cannot be trusted to hold what the ledger says it holds."""
        if self._worker is not None:
            return None
        if self._damage.pending:
            return str(self._damage)
        if not self._settled.is_set():
            return STARTING
        return self._reported or "The vector index is not ready yet."

    @property
    def delay(self) -> str | None:
        """Why the last attempt to index failed, until one succeeds."""
        return self._reported or None

    @property
    def moved_at(self) -> datetime:
        """When a record was indexed last, or the first of those that wait was written."""
        return self._batches.moved_at

    @property
    def refilling(self) -> str | None:
        """Why the index does not hold everything yet, if it was damaged."""
        return str(self._damage) if self._damage.reason else None

    def wake(self) -> None:
        """There is something to index, or to remove."""
        if self.caught_up:
            self._batches.moved_at = utc_now()
        self.caught_up = False
        self._work.set()

    def worker_starting(self) -> None:
        """A vector worker's process was started: searches wait for it, but not for the next one."""
        self._settled.clear()

    async def settled(self) -> None:
        """Wait until the worker that is starting is ready, or has failed, or patience ends."""
        if not self._settled.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await self._settled.wait()

    def worker_started(self, worker: str) -> None:
        """A vector worker of this id is on the bus: its index is compared before anything else."""
        if self._worker is None or self._worker.worker != worker:
            self._start_over()

    def worker_lost(self, *, crashed: bool = False) -> None:
        """The vector worker has ended: the next one's index is not to be trusted untested."""
        self._settled.set()
        self._distrust()
        if crashed and self._damage.crashed():
            self.damaged("The vector worker crashes over it again and again.")

    def damaged(self, reason: str) -> None:
        """A call has shown that the index is damaged: it is rebuilt before anything else."""
        if self._damage.found(reason):
            log.warning("index_damaged", reason=reason)
            self._settled.set()
            self._distrust()
        self._work.set()

    async def held(self, count: int) -> None:
        """The index seems to hold `count` records: if it should hold more, they are compared."""
        if self.caught_up and count < await self._queue.indexed() and self.caught_up:
            log.warning("index_contradicts_ledger", count=count)
            self._start_over()

    def _distrust(self) -> None:
        self._losses += 1
        self._worker = None
        self._filling = False
        self.caught_up = False

    async def rebuild(self) -> None:
        """Empty the index and let every record wait for it; vectors that fit are not made again.

        Nothing happens while it is being filled from the last time.
        """
        async with self._rebuilding:
            if self._filling:
                return
            self.worker_lost()
            try:
                await self._empty(whole=False)
                self._damage.mended()
            finally:
                self._start_over()
            self._filling = True

    def _start_over(self) -> None:
        self._distrust()
        self._new_worker.set()
        self._work.set()

    async def run(self) -> None:
        """Index until cancelled."""
        delay = FIRST_RETRY
        self._work.set()
        while True:
            await self._work.wait()
            self._work.clear()
            self._new_worker.clear()
            try:
                await self._rebuild_damaged()
                await self._catch_up()
            except IndexDamagedError as error:
                self.damaged(str(error))
            except Local2Error as error:
                self._report(str(error))
                await self._pause(delay)
                delay = min(delay * 2, LAST_RETRY)
            else:
                delay = FIRST_RETRY
                self._report("")

    def _report(self, problem: str) -> None:
        """Log a problem when it begins and when it ends, not at every attempt.

        Until the worker was ready once, that it is not there is none.
        """
        if problem and problem != self._reported:
            say = log.warning if self._was_ready else log.info
            say("indexing_delayed", reason=problem)
        elif self._reported and not problem:
            log.info("indexing_resumed")
        self._reported = problem

    async def _pause(self, seconds: float) -> None:
        """Wait before another attempt; a new worker cuts the wait short, new work does not."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._new_worker.wait()
        self._work.set()

    async def _rebuild_damaged(self) -> None:
        """Empty an index that is damaged, unless that was done too often of late."""
        while self._damage.pending and (seconds := self._damage.pause()):
            await self._pause(seconds)
            self._new_worker.clear()
        if not self._damage.pending:
            return
        try:
            await self._empty(whole=True)
        except IndexDamagedError:
            self._damage.tried()
            raise
        self._damage.tried()

    async def _catch_up(self) -> None:
        if self._worker is None:
            losses = self._losses
            status = await self._compare()
            if losses != self._losses:
                return  # the worker that was compared is gone
            self._worker = status
            self._was_ready = True
            self._settled.set()
        worker = self._worker
        await self._batches.send_all(worker)
        while ids := await self._queue.to_remove(REMOVED):
            await self._vectors.delete(ids, tenant=self._queue.tenant)
            await self._queue.removed(ids)
        self.caught_up = self._worker is worker and not self._work.is_set()
        self._filling = self._filling and not self.caught_up
        if self.caught_up and self._damage.reason:
            log.info("index_rebuilt")
            self._damage.mended()

    async def _compare(self) -> VectorStatus:
        """Find what the index lacks, or has too much, after a restart or a crash."""
        status = await self._vectors.status(tenant=self._queue.tenant)
        if status.problem is not None:
            self._settled.set()
            raise VectorError(status.problem)
        if status.count == 0:
            await self._queue.index_anew()
        elif not status.clean or status.count != await self._queue.indexed():
            await self._compare_ids(clean=status.clean)
        await self._probe(status)
        return status

    async def _compare_ids(self, *, clean: bool) -> None:
        missing, unknown = await self._queue.compared(await self._ids_in_index())
        log.info("index_compared", missing=len(missing), unknown=len(unknown), clean=clean)
        await self._queue.index_again(missing)
        for start in range(0, len(unknown), REMOVED):
            page = unknown[start : start + REMOVED]
            await self._vectors.delete(page, tenant=self._queue.tenant)

    async def _empty(self, *, whole: bool) -> None:
        await self._vectors.reset(tenant=self._queue.tenant, whole=whole)
        await self._queue.index_anew()

    async def _probe(self, status: VectorStatus) -> None:
        """Files that were cut short or deleted lose vectors without an error: a sample tells."""
        sample = await self._queue.sample_indexed(SAMPLE)
        lost: list[str] = []
        for batch in batches(sample, status.dimensions):
            lost += await self._vectors.lost(items_of(batch), tenant=self._queue.tenant)
        if len(lost) > max(TOLERATED_LOSSES, TOLERATED_SHARE * len(sample)):
            raise IndexDamagedError(f"It misses {len(lost)} of {len(sample)} vectors at random.")
        await self._queue.index_again(lost)

    async def _ids_in_index(self) -> set[str]:
        ids: set[str] = set()
        while page := await self._vectors.ids(len(ids), ID_PAGE, tenant=self._queue.tenant):
            ids.update(page)
        return ids
