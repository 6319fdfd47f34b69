"""ItemKeeper: stores and finds items for frameworks, for whoever asked and nobody else.

They are no tools, whose results go to everybody.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from local.admission import Admission
from local.bus.connection import BusMessage, Connection
from local.bus.participant import Participant
from local.memory.items import Items
from local.memory.tenant import Memories
from local.protocol import subjects
from local.protocol.envelope import decode
from local.protocol.items import DeleteItems, GetItems, ListNamespaces, PutItems, SearchItems

NAME = "item_keeper"
READS, WRITES = "read_items", "write_items"
"""What roles are asked for."""

P = TypeVar("P")


class ItemKeeper(Participant):
    """Serves `memory.items.*`."""

    def __init__(
        self, bus: Connection, memories: Memories, admission: Admission | None = None
    ) -> None:
        super().__init__(bus, name=NAME, description="Stores items of frameworks exactly.")
        self._memories = memories
        self._admission = admission or Admission()
        self._answer_with(subjects.MEMORY_ITEMS_PUT, PutItems, Items.put, WRITES)
        self._answer_with(subjects.MEMORY_ITEMS_DELETE, DeleteItems, Items.delete, WRITES)
        self._answer_with(subjects.MEMORY_ITEMS_GET, GetItems, Items.get, READS)
        self._answer_with(subjects.MEMORY_ITEMS_SEARCH, SearchItems, Items.search, READS)
        self._answer_with(subjects.MEMORY_ITEMS_LIST, ListNamespaces, Items.namespaces, READS)

    def _answer_with(
        self,
        subject: str,
        payload: type[P],
        function: Callable[[Items, P], Awaitable[msgspec.Struct]],
        action: str,
    ) -> None:
        async def answered(message: BusMessage) -> msgspec.Struct:
            envelope = decode(message.data, payload)
            caller = self.bus.identity.caller_of(message, envelope)
            with self._admission.admitted(caller.principal, message.data):
                async with self._admission.slot(caller.principal):
                    memory = await self._memories.admitted(caller, action)
                    return await function(memory.items, envelope.payload)

        self.answer(subject, answered, limit=None)
