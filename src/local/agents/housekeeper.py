"""What the memory serves besides its tools: its status, a reindex, and the storing of long outputs.

The Housekeeper reports whether ledger and index agree, and rebuilds the index on request. The
OutputKeeper stores tool outputs that are too long for a model.
"""

from msgspec import Raw

from local.admission import Admission
from local.agents.status import StatusReader, TurnsProblem
from local.bus.connection import BusMessage, Connection
from local.bus.participant import Participant
from local.errors import Local2Error
from local.memory.tenant import Memories, Memory
from local.protocol import subjects
from local.protocol.envelope import Envelope, decode
from local.protocol.maintenance import MemoryStatus, Reindex
from local.protocol.payloads import OutputPart, ToolResult
from local.protocol.vectors import WorkerReady

NAME = "housekeeper"
OUTPUT_KEEPER = "output_keeper"


class Housekeeper(Participant):
    """Serves `memory.status` and `memory.reindex`; learns when a vector worker has started."""

    def __init__(
        self,
        bus: Connection,
        memories: Memories,
        turns_problem: TurnsProblem = lambda: None,
    ) -> None:
        super().__init__(bus, name=NAME, description="Keeps the vector index equal to the ledger.")
        self._memories = memories
        self._turns_problem = turns_problem
        self.answer(subjects.MEMORY_STATUS, self._report, type="status")
        self.answer(subjects.MEMORY_REINDEX, self._reindex, type="status")
        self.serve(subjects.VECTOR_READY, self._worker_started, inner=True)

    async def _worker_started(self, message: BusMessage) -> None:
        self._memories.worker_started(decode(message.data, WorkerReady).payload.worker)

    async def _report(self, message: BusMessage) -> MemoryStatus:
        return await self._status(await self._memory(message, "status"))

    async def _reindex(self, message: BusMessage) -> MemoryStatus:
        """Begin it; the status says also why it was not begun."""
        memory = await self._memory(message, "reindex")
        embedder = decode(message.data, Reindex).payload.embedder if message.data else None
        try:
            if embedder is None:
                await memory.indexer.rebuild()
            else:
                await memory.reembedding.begin(embedder)
        except Local2Error as error:
            return await self._status(memory, str(error))
        return await self._status(memory)

    async def _memory(self, message: BusMessage, action: str) -> Memory:
        envelope = decode(message.data, Raw) if message.data else Envelope(payload=Raw())
        caller = self.bus.identity.caller_of(message, envelope)
        await self._memories.admitted(caller, action)
        return self._memories.tenant(caller.tenant)

    async def _status(self, memory: Memory, problem: str | None = None) -> MemoryStatus:
        return await StatusReader(self.bus, memory, self._turns_problem).read(problem)


class OutputKeeper(Participant):
    """Serves `memory.output.keep`; its acknowledgement means that the part is on disk."""

    def __init__(
        self, bus: Connection, memories: Memories, admission: Admission | None = None
    ) -> None:
        super().__init__(bus, name=OUTPUT_KEEPER, description="Keeps long tool outputs whole.")
        self._memories = memories
        self._admission = admission or Admission()
        self.serve(subjects.MEMORY_OUTPUT_KEEP, self._keep, queue=OUTPUT_KEEPER, limit=None)

    async def _keep(self, message: BusMessage) -> None:
        try:
            envelope = decode(message.data, OutputPart)
            caller = self.bus.identity.caller_of(message, envelope)
            owner = caller.principal
            with self._admission.admitted(owner, message.data):
                async with self._admission.slot(owner):
                    memory = await self._memories.admitted(caller, "turn")
                    await memory.outputs.store_part(envelope.payload)
        except Local2Error as error:
            result = ToolResult.failed(error)
        else:
            result = ToolResult(ok=True, content="Kept.")
        await self.acknowledge(message, result)
