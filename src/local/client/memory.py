"""Asking the Housekeeper over the bus."""

from local.bus.connection import Connection
from local.protocol import subjects
from local.protocol.envelope import decode, encode, seal
from local.protocol.payloads import Empty, MemoryStatus

REINDEX_TIMEOUT = 60.0


async def memory_status(bus: Connection) -> MemoryStatus:
    """Whether ledger and index agree, and what is wrong if they do not."""
    return await _ask(bus, subjects.MEMORY_STATUS, None)


async def start_reindex(bus: Connection) -> MemoryStatus:
    """Empty the index and let it be filled again; `waiting` of later statuses counts down."""
    return await _ask(bus, subjects.MEMORY_REINDEX, REINDEX_TIMEOUT)


async def _ask(bus: Connection, subject: str, seconds: float | None) -> MemoryStatus:
    ask = encode(seal(Empty(), type="request", source="client"))
    answer = await bus.request(subject, ask, timeout=seconds)
    return decode(answer.data, MemoryStatus).payload
