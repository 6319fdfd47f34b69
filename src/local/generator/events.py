"""What happens to a session's memory, told to everybody on the bus."""

import msgspec
import structlog

from local.bus.connection import Connection
from local.conversation.event_bus import EventBus
from local.conversation.events import CompactionEvent, MemoryEvent
from local.errors import BusError
from local.protocol import subjects
from local.protocol.envelope import Caller, encode, seal

log = structlog.get_logger()


class _Announced(msgspec.Struct, frozen=True):
    event: MemoryEvent
    caller: Caller


class Announcements:
    """Publishes in order, without making anybody wait; `settle` waits for what is under way."""

    def __init__(self, bus: Connection) -> None:
        self._bus = bus
        self._events = EventBus()
        self._events.subscribe(_Announced, self._publish)

    def of(self, caller: Caller) -> "SessionEvents":
        return SessionEvents(self, caller)

    def announce(self, event: MemoryEvent, caller: Caller) -> None:
        self._events.emit(_Announced(event, caller))

    async def settle(self) -> None:
        await self._events.settle()

    async def _publish(self, announced: _Announced) -> None:
        event, caller = announced.event, announced.caller
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
    """Where one caller's conversation emits its events."""

    def __init__(self, announcements: Announcements, caller: Caller) -> None:
        self._announcements = announcements
        self._caller = caller

    def emit(self, event: MemoryEvent) -> None:
        self._announcements.announce(event, self._caller)
