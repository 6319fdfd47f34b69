"""Fill an index of another embedder while the current one serves searches, then swap them.

The remaining records are tasks in the ledger, and the worker's folder shows which index is being
filled, so the work continues after any kill. A record that is indexed meanwhile also gets a task,
in the transaction that stores its vector; where several stacks index, the next index is compared
with the ledger again instead. When no task is left, the indexes are swapped; until then nothing
changes for searches.
"""

import asyncio
import time
from collections.abc import Sequence

import structlog

from local2.errors import VectorError
from local2.ledger.ledger import Ledger
from local2.ledger.records import Task, TaskKind
from local2.memory.backlog import Backlog, Job
from local2.memory.indexing import (
    BATCH_RECORDS,
    MIN_BATCH_RECORDS,
    Indexer,
    batches,
    next_batch_size,
    vector_items,
)
from local2.memory.vector_index import Vectors, ids_in_index
from local2.protocol.maintenance import NextIndex
from local2.protocol.vectors import VectorStatus

log = structlog.get_logger()


class Reembedding(Job):
    """Fills one tenant's next index, if there is one."""

    name = "reembedding"
    kinds = ("embed",)

    def __init__(
        self, ledger: Ledger, vectors: Vectors, backlog: Backlog, indexer: Indexer
    ) -> None:
        self._ledger = ledger
        self._records = ledger.index
        self._vectors = vectors
        self._indexer = indexer
        self._backlog = backlog
        self._runner = backlog.add_job(self)
        self._filling: VectorStatus | None = None
        self._compared: VectorStatus | None = None
        """The status of the worker when the next index was compared with the ledger."""
        self._changing = asyncio.Lock()
        self._batch_records = MIN_BATCH_RECORDS
        self._swap_due = False

    async def begin(self, embedder: str) -> None:
        """Start to fill an index of this embedder. The current embedder drops the next index.

        Raises:
            VectorError: The embedder does not work, or there is no worker. Nothing has changed.
        """
        async with self._changing:
            status = await self._vectors.begin_next(embedder)
            if (kept := self._ledger.vectors) is not None:  # its other stacks follow
                if status.next is None:
                    await kept.serve(status.embedder)
                else:
                    await kept.begin_next(status.next)
            self._set_filling(status)
            self._compared = None
        self._runner.resume()

    async def status(self) -> NextIndex | None:
        """The progress, or None if no index is being filled."""
        embedder = await self._wanted()
        if embedder is None:
            return None
        begun = self._compared is not None
        return NextIndex(
            embedder=embedder,
            waiting=await (self._records.count_to_embed() if begun else self._records.indexed()),
            problem=self._runner.problem,
        )

    def batch_size(self, kind: TaskKind) -> int:
        """As many as are embedded in the time that a removal may wait."""
        del kind
        return self._batch_records

    async def ready(self) -> None:
        """Compare the next index with the ledger after a start; swap it once it is complete."""
        worker = self._indexer.worker
        if worker is None:
            if self._records.next is not None:
                raise VectorError(self._indexer.problem or "The vector worker is not ready.")
            return
        async with self._changing:
            if worker is not self._compared or await self._wanted() != self._records.next:
                await self._compare()
                self._compared = worker
            if self._filling is not None and not await self._records.count_to_embed():
                # Other stacks go on indexing: a last batch of theirs is left to the swap.
                missing = await self._missing() if self._records.is_shared else []
                if len(missing) > BATCH_RECORDS:
                    await self._records.queue(missing, kind="embed")
                else:
                    await self._swap(self._filling)

    async def do(self, tasks: Sequence[Task]) -> None:
        """Embed records for the next index."""
        filling = self._filling
        if filling is None or filling.next is None:
            raise VectorError("No other index is being filled.")
        waiting = await self._records.waiting(tasks, embedder=filling.next, kind="embed")
        for batch in batches(waiting, filling.next_dimensions):
            begun = time.monotonic()
            stored = await self._vectors.upsert_next(vector_items(batch))
            await self._records.store_vectors(batch, stored.vectors, stored.embedder, kind="embed")
            self._backlog.wake("unindex")  # for records retired while they were embedded
            self._batch_records = next_batch_size(len(batch), time.monotonic() - begun)
        self._swap_due = True

    def all_done(self) -> None:
        """Let `ready` check once more that nothing is missing, and swap."""
        if self._swap_due:
            self._swap_due = False
            self._runner.wake()

    async def _wanted(self) -> str | None:
        """The embedder of the index that is to be filled, whichever stack began it."""
        kept = self._ledger.vectors
        return self._records.next if kept is None else (await kept.embedders()).next

    def _set_filling(self, status: VectorStatus) -> None:
        self._filling = status if status.next is not None else None
        self._records.next = status.next

    async def _compare(self) -> None:
        """Queue the records that the next index lacks, if one is being filled."""
        status = await self._vectors.status()
        if status.problem is not None:
            raise VectorError(status.problem)
        wanted = status.next or await self._wanted()
        if wanted is None or wanted == status.embedder:
            await self._finish(status)
            return
        self._records.next = wanted
        self._set_filling(await self._vectors.begin_next(wanted))
        if self._filling is None:  # another stack has swapped meanwhile
            return
        missing = await self._missing()
        await self._records.queue(missing, kind="embed")
        log.info("reembedding", embedder=wanted, missing=len(missing))

    async def _missing(self) -> list[str]:
        present = await ids_in_index(self._vectors, of_next=True)
        missing, _ = await self._records.compare_ids(present)
        return missing

    async def _swap(self, filling: VectorStatus) -> None:
        """Swap the indexes. Indexing pauses meanwhile, so that the next index is complete."""
        embedder = str(filling.next)
        await self._ledger.searches.prepare(embedder)
        async with self._indexer.paused():
            if await self._records.count_to_embed():
                return
            status = await self._vectors.swap(embedder)
            self._indexer.swapped(status)
            self._compared = status
        log.info("index_swapped", embedder=embedder)
        await self._finish(status)

    async def _finish(self, worker: VectorStatus) -> None:
        """Delete the tasks and vectors of a next index, because none is being filled any more."""
        self._filling = self._records.next = None
        await self._records.drop_embed_tasks()
        self._backlog.wake("index")
        await self._records.keep_vectors_of(worker.embedder)
