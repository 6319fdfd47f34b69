"""A compaction's events: started at once, then completed or failed."""

import time
from collections.abc import Sequence
from typing import Literal

import msgspec

from local.conversation.events import CompactionEvent, EventContext


class Progress:
    """Says how far one compaction is; silent where nobody listens."""

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
