"""How a tenant's memory is: whether ledger and index agree, what waits, what was set aside."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from local.bus.connection import Connection
from local.bus.streams import count_letters
from local.errors import BusError, IndexDamagedError, StorageError, VectorError
from local.ledger.records import Counts
from local.ledger.tasks import TaskCounts
from local.memory.tenant import Memory
from local.protocol.answers import ConsolidationStatus
from local.protocol.maintenance import MemoryStatus, NextIndex, TasksSetAside
from local.protocol.vectors import VectorStatus

PATIENCE = 3.0
"""Seconds for the vector worker's part: whoever asks waits ten, and wants the rest."""

TurnsProblem = Callable[[], str | None]
"""Why JetStream stores no turns, or None."""


class LedgerStatus(msgspec.Struct, kw_only=True):
    """What the status says of the ledger."""

    counts: Counts = Counts(records=0, indexed=0, waiting=0)
    to_anonymise: int = 0
    tasks: Sequence[TaskCounts] = ()
    consolidation: ConsolidationStatus | None = None
    following: NextIndex | None = None

    @property
    def unread(self) -> int:
        """Records that wait to be read by an extractor."""
        return sum(each.waiting for each in self.tasks if each.kind == "extract")

    @property
    def set_aside(self) -> list[TasksSetAside]:
        return [
            TasksSetAside(kind=each.kind, aside=each.aside, errors=list(each.errors))
            for each in self.tasks
            if each.aside
        ]


def degradations(status: MemoryStatus) -> list[str]:
    """What is missing or waits that should not, as people read it."""
    aside = [
        f"{tasks.aside} tasks of the kind {tasks.kind} are set aside: {', '.join(tasks.errors)}"
        for tasks in status.set_aside
    ]
    return [*filter(None, (status.problem, status.turns_problem)), *aside]


class StatusReader:
    """Reads the status of one memory from its ledger, its vector worker and JetStream."""

    def __init__(
        self, bus: Connection, memory: Memory, turns_problem: TurnsProblem = lambda: None
    ) -> None:
        self._bus = bus
        self._memory = memory
        self._turns_problem = turns_problem

    async def read(self, problem: str | None = None) -> MemoryStatus:
        """All of it; `problem` is what went wrong before."""
        indexer = self._memory.indexer
        read, failure = await self._ledger()
        problem = failure or problem
        dead_letters = 0
        try:
            dead_letters = await count_letters(self._bus, self._memory.tenant)
        except BusError as error:
            problem = problem or str(error)
        worker, failure = await self._worker()
        problem = problem or failure or (worker.problem if worker else None)
        return MemoryStatus(
            records=read.counts.records,
            indexed=read.counts.indexed,
            waiting=read.counts.waiting,
            vectors_available=indexer.problem is None,
            in_index=worker.count if worker else None,
            embedder=worker.embedder if worker else None,
            problem=problem
            or indexer.refilling
            or (indexer.delay if read.counts.waiting else None),
            dead_letters=dead_letters,
            turns_problem=self._turns_problem(),
            unread=read.unread,
            waiting_since=indexer.moved_at if read.counts.waiting else None,
            set_aside=read.set_aside,
            consolidation=read.consolidation,
            next=read.following,
            to_anonymise=read.to_anonymise,
        )

    async def _ledger(self) -> tuple[LedgerStatus, str | None]:
        """What can be read of the ledger's status, and why the rest cannot."""
        read = LedgerStatus()
        try:
            read.counts = await self._memory.ledger.counts()
            read.to_anonymise = await self._memory.retention.due()
            read.tasks = await self._memory.ledger.backlog.counts()
            read.consolidation = await self._memory.consolidation.status()
            read.following = await self._memory.reembedding.status()
        except StorageError as error:
            return read, str(error)
        return read, None

    async def _worker(self) -> tuple[VectorStatus | None, str | None]:
        """The status of the vector worker, or why there is none; mends a damaged index."""
        worker: VectorStatus | None = None
        try:
            async with asyncio.timeout(PATIENCE):
                worker = await self._memory.vectors.status(tenant=self._memory.tenant)
            await self._memory.indexer.held(worker.count)
        except IndexDamagedError as error:
            self._memory.indexer.damaged(str(error))
        except (StorageError, VectorError) as error:
            return worker, str(error)
        except TimeoutError:
            silent = f"The vector worker did not answer within {PATIENCE:g} s"
            return worker, f"{silent}: it is busy, or hangs."
        return worker, None
