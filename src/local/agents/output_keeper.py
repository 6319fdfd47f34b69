"""OutputKeeper: takes tool outputs that are too long for a model, part by part."""

from local.bus.connection import Connection, Message
from local.bus.identity import caller_of
from local.bus.participant import Participant
from local.errors import Local2Error
from local.fair_slots import FairSlots
from local.memory.service import Memory
from local.protocol import subjects
from local.protocol.envelope import decode, encode, seal
from local.protocol.payloads import OutputPart, ToolResult

NAME = "output_keeper"


class OutputKeeper(Participant):
    """Serves `memory.output.keep`; its answer means that the part is on disk."""

    def __init__(self, bus: Connection, memory: Memory) -> None:
        super().__init__(bus, name=NAME, description="Keeps long tool outputs whole.")
        self._memory = memory
        self._slots = FairSlots()
        self.serve(subjects.MEMORY_OUTPUT_KEEP, self._keep, queue=NAME, limit=None)

    async def _keep(self, message: Message) -> None:
        try:
            envelope = decode(message.data, OutputPart)
            caller = caller_of(envelope)
            owner = caller.principal
            with self._slots.admitted(owner, len(message.data)):
                async with self._slots.slot(owner):
                    await self._memory.of(caller).outputs.append(envelope.payload)
        except Local2Error as error:
            result = ToolResult.failed(error)
        else:
            result = ToolResult(ok=True, content="Kept.")
        if message.reply:
            await self.bus.publish(message.reply, encode(seal(result, type="result", source=NAME)))
