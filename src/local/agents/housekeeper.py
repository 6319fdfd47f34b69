"""What the memory serves besides its tools: its status, a reindex, and the storing of long outputs.

The Housekeeper reports whether ledger and index agree, and rebuilds the index on request. The
OutputKeeper stores tool outputs that are too long for a model.
"""

from collections.abc import Awaitable, Callable

from msgspec import Raw

from local.admission import Admission
from local.agents.status import StatusReader, TurnsProblem
from local.bus.connection import BusMessage, Connection
from local.bus.participant import Participant, error_answer
from local.errors import Local2Error, RequestError
from local.memory.tenant import Memories, Memory
from local.protocol import subjects
from local.protocol.envelope import Envelope, decode, encode, seal
from local.protocol.payloads import OutputPart, Reindex, ToolResult
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
            reader = StatusReader(self.bus, memory, self._turns_problem)
            data = encode(seal(await reader.read(problem), type="status", source=NAME))
        except RequestError as error:
            data, headers = error_answer(error, source=NAME)
        if message.reply:
            await self.bus.publish(message.reply, data, headers=headers)


async def _no_work(memory: Memory) -> None:
    """A status is all that was asked for."""


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
                async with self._admission.slot(owner, message.data):
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
