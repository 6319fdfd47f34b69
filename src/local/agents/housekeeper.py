"""What the memory serves besides its tools: its status, a reindex, and the storing of long outputs.

The Housekeeper reports whether ledger and index agree, and rebuilds the index on request. The
OutputKeeper stores tool outputs that are too long for a model.
"""

from local.agents.status import StatusReader, TurnsProblem
from local.bus.connection import BusMessage, Connection
from local.bus.identity import caller_of
from local.bus.participant import Participant
from local.errors import Local2Error
from local.fair_slots import FairSlots
from local.memory.tenant import Memories, Memory
from local.protocol import subjects
from local.protocol.envelope import decode, encode, seal
from local.protocol.payloads import OutputPart, Reindex, ToolResult
from local.protocol.vectors import WorkerReady

NAME = "housekeeper"


OUTPUT_KEEPER = "output_keeper"


class Housekeeper(Participant):
    """Serves `memory.status` and `memory.reindex`; learns when a vector worker has started."""

    def __init__(
        self,
        bus: Connection,
        memory: Memory,
        turns_problem: TurnsProblem = lambda: None,
    ) -> None:
        super().__init__(bus, name=NAME, description="Keeps the vector index equal to the ledger.")
        self._memory = memory
        self._status = StatusReader(bus, memory, turns_problem)
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

    async def _answer(self, message: BusMessage, problem: str | None) -> None:
        if message.reply:
            status = await self._status.read(problem)
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
