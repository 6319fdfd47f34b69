"""What happens to a session's memory, told to everybody on the bus."""

import asyncio

import structlog

from local.bus.connection import Connection
from local.conversation.events import CompactionEvent, MemoryEvent
from local.errors import BusError
from local.protocol import subjects
from local.protocol.caller import Caller
from local.protocol.codec import encode
from local.protocol.envelope import seal

log = structlog.get_logger()


class Announcements:
    """Publishes without making anybody wait; `settle` waits for what is under way."""

    def __init__(self, bus: Connection) -> None:
        self._bus = bus
        self._under_way: set[asyncio.Task[None]] = set()
        self._last: asyncio.Task[None] | None = None

    def of(self, caller: Caller) -> "SessionEvents":
        return SessionEvents(self, caller)

    def announce(self, event: MemoryEvent, caller: Caller) -> None:
        """Publish in the order of the calls."""
        self._last = asyncio.create_task(self._publish(event, caller, self._last))
        self._under_way.add(self._last)
        self._last.add_done_callback(self._under_way.discard)

    async def settle(self) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def _publish(
        self, event: MemoryEvent, caller: Caller, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None and not before.done():
            await asyncio.wait({before})
        compaction = isinstance(event, CompactionEvent)
        subject = subjects.SESSION_COMPACTION if compaction else subjects.SESSION_RESET
        envelope = seal(
            event,
            type="event",
            source=caller.agent or "",
            user=caller.user,
            session_id=caller.session_id,
        )
        try:
            await self._bus.publish(subject, encode(envelope))
        except BusError as error:
            log.warning("event_not_published", subject=subject, reason=str(error))


class SessionEvents:
    """One caller's EventBus."""

    def __init__(self, announcements: Announcements, caller: Caller) -> None:
        self._announcements = announcements
        self._caller = caller

    def emit(self, event: MemoryEvent) -> None:
        self._announcements.announce(event, self._caller)
