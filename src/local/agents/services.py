"""Services of the memory that are no tools, whose results would go to everybody.

Who asks is admitted as a tool's caller is, and only whoever asked is answered.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from local.admission import Admission
from local.bus.connection import BusMessage, Connection
from local.bus.participant import Participant
from local.memory.service import MemoryService
from local.memory.tenant import Memories
from local.protocol.envelope import decode

P = TypeVar("P")


class MemoryServices(Participant):
    """Serves subjects from the caller's memory."""

    def __init__(
        self,
        bus: Connection,
        memories: Memories,
        admission: Admission | None,
        *,
        name: str,
        description: str,
    ) -> None:
        super().__init__(bus, name=name, description=description)
        self._memories = memories
        self._admission = admission or Admission()

    def answer_from_memory(
        self,
        subject: str,
        payload: type[P],
        function: Callable[[MemoryService, P], Awaitable[msgspec.Struct]],
        action: str,
    ) -> None:
        """Answer requests with such a payload, of whoever has a role that may do the action."""

        async def answered(message: BusMessage) -> msgspec.Struct:
            envelope = decode(message.data, payload)
            caller = self.bus.identity.caller_of(message, envelope)
            with self._admission.admitted(caller.principal, message.data):
                async with self._admission.slot(caller.principal):
                    memory = await self._memories.admitted(caller, action)
                    return await function(memory, envelope.payload)

        self.answer(subject, answered, limit=None)
