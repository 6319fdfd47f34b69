"""What happens to a conversation's memory, as events for whoever listens."""

from typing import Literal, Protocol

import msgspec


class MemoryResetEvent(msgspec.Struct, frozen=True):
    """A conversation was cleared; whatever was planned from it no longer holds."""

    session_id: str
    agent_name: str


class CompactionEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A compaction's progress. `duration` is in seconds; the counts after it are 0 until then."""

    session_id: str
    agent_name: str
    status: Literal["started", "completed", "failed"]
    pre_tokens: int = 0
    post_tokens: int = 0
    pre_messages: int = 0
    post_messages: int = 0
    duration: float | None = None
    stages_run: list[str] | None = None


MemoryEvent = MemoryResetEvent | CompactionEvent


class EventSink(Protocol):
    """Takes events without waiting, such as an `EventBus`: who emits may not be a coroutine."""

    def emit(self, event: MemoryEvent) -> None: ...


class EventContext(msgspec.Struct, frozen=True, kw_only=True):
    """Whose conversation it is, and who hears of it."""

    agent_name: str
    event_bus: EventSink
    session_id: str = ""
