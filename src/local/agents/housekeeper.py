"""What the memory serves besides its tools: its status, a reindex, and the storing of long outputs.

The Housekeeper reports whether ledger and index agree, and rebuilds the index on request. The
OutputKeeper stores tool outputs that are too long for a model.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import Raw

from local.bus.connection import BusMessage, Connection
from local.bus.dead_letters import count_letters
from local.bus.participant import Participant, error_answer
from local.errors import (
    BusError,
    IndexDamagedError,
    Local2Error,
    RequestError,
    StorageError,
    VectorError,
)
from local.fair_slots import FairSlots
from local.ledger.records import Counts
from local.ledger.tasks import TaskCounts
from local.memory.tenant import Memories, Memory
from local.protocol import subjects
from local.protocol.envelope import Envelope, decode, encode, seal
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
        memories: Memories,
        turns_problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        super().__init__(bus, name=NAME, description="Keeps the vector index equal to the ledger.")
        self._memories = memories
        self._turns_problem = turns_problem
        self.serve(subjects.MEMORY_STATUS, self._report, queue=NAME)
        self.serve(subjects.MEMORY_REINDEX, self._reindex, queue=NAME)
        self.serve(subjects.VECTOR_READY, self._worker_started, inner=True)

    async def _worker_started(self, message: BusMessage) -> None:
        self._memories.worker_started(decode(message.data, WorkerReady).payload.worker)

    async def _report(self, message: BusMessage) -> None:
        await self._answer(message, "status", _no_work)

    async def _reindex(self, message: BusMessage) -> None:
        async def begin(memory: Memory) -> None:
            embedder = decode(message.data, Reindex).payload.embedder if message.data else None
            if embedder is None:
                await memory.indexer.rebuild()
            else:
                await memory.reembedding.begin(embedder)

        await self._answer(message, "reindex", begin)

    async def _status(self, memory: Memory, problem: str | None) -> MemoryStatus:
        indexer = memory.indexer
        read, failure = await _ledger_status(memory)
        problem = failure or problem
        dead_letters = 0
        try:
            dead_letters = await count_letters(self.bus, memory.tenant)
        except BusError as error:
            problem = problem or str(error)
        worker, failure = await _worker_status(memory)
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

    async def _answer(
        self, message: BusMessage, action: str, work: Callable[[Memory], Awaitable[None]]
    ) -> None:
        """Do what was asked for, and answer with the status of the memory, or with the error."""
        problem: str | None = None
        headers: dict[str, str] | None = None
        try:
            envelope = decode(message.data, Raw) if message.data else Envelope(payload=Raw())
            caller = self.bus.identity.caller_of(message, envelope)
            await self._memories.admitted(caller, action)
            memory = self._memories.tenant(caller.tenant)
            try:
                await work(memory)
            except Local2Error as error:
                problem = str(error)
            data = encode(seal(await self._status(memory, problem), type="status", source=NAME))
        except RequestError as error:
            data, headers = error_answer(error, source=NAME)
        if message.reply:
            await self.bus.publish(message.reply, data, headers=headers)


async def _no_work(memory: Memory) -> None:
    """A status is all that was asked for."""


async def _ledger_status(memory: Memory) -> tuple[LedgerStatus, str | None]:
    """What can be read of the ledger's status, and why the rest cannot."""
    read = LedgerStatus()
    try:
        read.counts = await memory.ledger.counts()
        read.to_anonymise = await memory.retention.due()
        read.tasks = await memory.ledger.backlog.counts()
        read.consolidation = await memory.consolidation.status()
        read.following = await memory.reembedding.status()
    except StorageError as error:
        return read, str(error)
    return read, None


async def _worker_status(memory: Memory) -> tuple[VectorStatus | None, str | None]:
    """The status of the vector worker, or why there is none; mends a damaged index."""
    worker: VectorStatus | None = None
    try:
        worker = await memory.vectors.status(tenant=memory.tenant)
        await memory.indexer.held(worker.count)
    except IndexDamagedError as error:
        memory.indexer.damaged(str(error))
    except (StorageError, VectorError) as error:
        return worker, str(error)
    return worker, None


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
            caller = self.bus.identity.caller_of(message, envelope)
            owner = caller.principal
            with self._slots.admitted(owner, len(message.data)):
                async with self._slots.slot(owner):
                    memory = await self._memories.admitted(caller, "turn")
                    await memory.outputs.store_part(envelope.payload)
        except Local2Error as error:
            result = ToolResult.failed(error)
        else:
            result = ToolResult(ok=True, content="Kept.")
        if message.reply:
            await self.bus.publish(
                message.reply, encode(seal(result, type="result", source=OUTPUT_KEEPER))
            )
