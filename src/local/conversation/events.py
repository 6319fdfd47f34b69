"""What happens to a conversation's memory, as events for anybody who listens."""

import time
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec


class MemoryResetEvent(msgspec.Struct, frozen=True):
    """A conversation was cleared; whatever was planned from it no longer holds."""

    session_id: str
    agent_name: str


class CompactionEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of a compaction. `duration` is in seconds; the counts after it are 0 before."""

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
    """Takes events without waiting, as an `EventBus` does: the sender may not be a coroutine."""

    def emit(self, event: MemoryEvent) -> None: ...


class EventContext(msgspec.Struct, frozen=True, kw_only=True):
    """Whose conversation it is, and where its events go."""

    agent_name: str
    event_bus: EventSink
    session_id: str = ""


class CompactionProgress:
    """Emits the events of one compaction: started at once, then completed or failed.

    Without a context nothing is emitted.
    """

    def __init__(self, context: EventContext | None, *, tokens: int, messages: int) -> None:
        self._context = context
        self._tokens = tokens
        self._messages = messages
        self._begun = time.perf_counter()
        self._emit(self._event("started"))

    def completed(self, *, tokens: int, messages: int, stages: Sequence[str]) -> None:
        event = self._event("completed", time.perf_counter() - self._begun)
        self._emit(
            msgspec.structs.replace(
                event, post_tokens=tokens, post_messages=messages, stages_run=list(stages)
            )
        )

    def failed(self) -> None:
        self._emit(self._event("failed", time.perf_counter() - self._begun))

    def _event(
        self, status: Literal["started", "completed", "failed"], duration: float | None = None
    ) -> CompactionEvent:
        return CompactionEvent(
            session_id=self._context.session_id if self._context else "",
            agent_name=self._context.agent_name if self._context else "",
            status=status,
            pre_tokens=self._tokens,
            pre_messages=self._messages,
            duration=duration,
        )

    def _emit(self, event: CompactionEvent) -> None:
        if self._context is not None:
            self._context.event_bus.emit(event)
