"""What the memory serves besides its tools: its status, a reindex, and the storing of long outputs.

The Housekeeper reports whether ledger and index agree, and rebuilds the index on request. The
OutputKeeper stores tool outputs that are too long for a model.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from local.bus.connection import BusMessage, Connection
from local.bus.identity import caller_of
from local.bus.participant import Participant
from local.client.maintenance import count_letters
from local.errors import BusError, IndexDamagedError, Local2Error, StorageError, VectorError
from local.fair_slots import FairSlots
from local.ledger.records import Counts
from local.ledger.tasks import TaskCounts
from local.memory.tenant import Memories, Memory
from local.protocol import subjects
from local.protocol.envelope import decode, encode, seal
from local.protocol.payloads import (
    MemoryStatus,
    NextIndex,
    OutputPart,
    Reindex,
    TasksSetAside,
    ToolResult,
)
from local.protocol.upkeep import ConsolidationStatus
from local.protocol.vectors import VectorStatus, WorkerReady

NAME = "housekeeper"
PATIENCE = 3.0
"""Seconds for the vector worker's part of a status: whoever asks waits ten, and wants the rest."""
OUTPUT_KEEPER = "output_keeper"


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


class Housekeeper(Participant):
    """Serves `memory.status` and `memory.reindex`; learns when a vector worker has started."""

    def __init__(
        self,
        bus: Connection,
        memory: Memory,
        turns_problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        super().__init__(bus, name=NAME, description="Keeps the vector index equal to the ledger.")
        self._memory = memory
        self._turns_problem = turns_problem
        self.serve(subjects.MEMORY_STATUS, self._report, queue=NAME)
        self.serve(subjects.MEMORY_REINDEX, self._reindex, queue=NAME)
        self.serve(subjects.VECTOR_READY, self._worker_started, inner=True)

    async def _worker_started(self, message: BusMessage) -> None:
        self._memory.indexer.worker_started(decode(message.data, WorkerReady).payload.worker)

    async def _report(self, message: BusMessage) -> None:
        await self._answer(message, None)

    async def _reindex(self, message: BusMessage) -> None:
        try:
            embedder = decode(message.data, Reindex).payload.embedder if message.data else None
            if embedder is None:
                await self._memory.indexer.rebuild()
            else:
                await self._memory.reembedding.begin(embedder)
        except Local2Error as error:
            await self._answer(message, str(error))
        else:
            await self._answer(message, None)

    async def _status(self, problem: str | None) -> MemoryStatus:
        indexer = self._memory.indexer
        read, failure = await self._ledger_status()
        problem = failure or problem
        dead_letters = 0
        try:
            dead_letters = await count_letters(self.bus, self._memory.tenant)
        except BusError as error:
            problem = problem or str(error)
        worker, failure = await self._worker_status()
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

    async def _ledger_status(self) -> tuple[LedgerStatus, str | None]:
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

    async def _worker_status(self) -> tuple[VectorStatus | None, str | None]:
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

    async def _answer(self, message: BusMessage, problem: str | None) -> None:
        if message.reply:
            status = await self._status(problem)
            await self.bus.publish(message.reply, encode(seal(status, type="status", source=NAME)))


class OutputKeeper(Participant):
    """Serves `memory.output.keep`; its acknowledgement means that the part is on disk."""

    def __init__(self, bus: Connection, memories: Memories) -> None:
        super().__init__(bus, name=OUTPUT_KEEPER, description="Keeps long tool outputs whole.")
        self._memories = memories
        self._slots = FairSlots()
        self.serve(subjects.MEMORY_OUTPUT_KEEP, self._keep, queue=OUTPUT_KEEPER, limit=None)

    async def _keep(self, message: BusMessage) -> None:
        try:
            envelope = decode(message.data, OutputPart)
            caller = caller_of(envelope)
            owner = caller.principal
            with self._slots.admitted(owner, len(message.data)):
                async with self._slots.slot(owner):
                    await self._memories.of(caller).outputs.store_part(envelope.payload)
        except Local2Error as error:
            result = ToolResult.failed(error)
        else:
            result = ToolResult(ok=True, content="Kept.")
        if message.reply:
            await self.bus.publish(
                message.reply, encode(seal(result, type="result", source=OUTPUT_KEEPER))
            )
