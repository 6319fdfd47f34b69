"""ItemKeeper: stores and finds items for frameworks."""

from local.admission import Admission
from local.agents.services import MemoryServices
from local.bus.connection import Connection
from local.memory.tenant import Memories
from local.protocol import subjects
from local.protocol.items import DeleteItems, GetItems, ListNamespaces, PutItems, SearchItems

NAME = "item_keeper"
READS, WRITES = "read_items", "write_items"
"""What roles are asked for."""


class ItemKeeper(MemoryServices):
    """Serves `memory.items.*`."""

    def __init__(
        self, bus: Connection, memories: Memories, admission: Admission | None = None
    ) -> None:
        described = "Stores items of frameworks exactly."
        super().__init__(bus, memories, admission, name=NAME, description=described)
        serve = self.answer_from_memory
        serve(subjects.MEMORY_ITEMS_PUT, PutItems, lambda m, ask: m.items.put(ask), WRITES)
        serve(subjects.MEMORY_ITEMS_DELETE, DeleteItems, lambda m, ask: m.items.delete(ask), WRITES)
        serve(subjects.MEMORY_ITEMS_GET, GetItems, lambda m, ask: m.items.get(ask), READS)
        serve(subjects.MEMORY_ITEMS_SEARCH, SearchItems, lambda m, ask: m.items.search(ask), READS)
        listing = subjects.MEMORY_ITEMS_LIST
        serve(listing, ListNamespaces, lambda m, ask: m.items.namespaces(ask), READS)
