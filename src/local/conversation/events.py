"""Events of a conversation's memory, and the bus that delivers them to their handlers.

A conversation's methods are synchronous, so that any code can use them, while a handler may want to
write to a network. The bus stands between the two, within the process, and keeps the order of the
events.
"""

import asyncio
import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, Protocol, Self

import msgspec
import structlog

log = structlog.get_logger()


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
    """Accepts events without waiting, as an `EventBus` does: the sender may not be a coroutine."""

    def emit(self, event: MemoryEvent) -> None: ...


class EventContext(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a conversation, and the sink of its events."""

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


EventType = type | str
"""The class of an event, or the name of it."""
Handler = Callable[[Any], Awaitable[None] | None]


class EventBus:
    """Hands every event to every handler of its type, in the order in which they were emitted.

    A plain function is called at once. An async one is awaited in a task, event by event; what is
    emitted while no loop runs waits until one does. A handler that fails is logged, and still
    receives the next event. As a context manager the bus waits at its end until every event is
    handled.
    """

    def __init__(self) -> None:
        self._listeners: list[_Listener] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def subscribe(self, event_type: EventType, handler: Handler) -> None:
        """Call a handler with all events of a class, given by itself or by its name."""
        self._listeners.append(_Listener(event_type, handler))

    def unsubscribe(self, event_type: EventType, handler: Handler) -> None:
        """Send no new events to a handler; those emitted before still arrive."""
        for listener in self._listeners:
            if (listener.event_type, listener.handler) == (event_type, handler):
                listener.unsubscribed = True

    def emit(self, event: object) -> None:
        """Send an event to all its handlers, without waiting. May be called in any thread."""
        for listener in [*self._listeners]:
            if listener.accepts(event):
                listener.receive(event)
        if not self._deliver() and self._loop is not None and self._loop.is_running():
            with suppress(RuntimeError):  # the loop was closed: the next one delivers
                self._loop.call_soon_threadsafe(self._deliver)

    async def settle(self) -> None:
        """Return when every handler has handled all events that were emitted."""
        while self._deliver():
            deliveries = {listener.delivery for listener in self._listeners}
            tasks = deliveries - {None, asyncio.current_task()}
            if not (pending := [task for task in tasks if task is not None and not task.done()]):
                return
            await asyncio.wait(pending)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.settle()

    def _deliver(self) -> bool:
        """Start deliveries that do not run yet; False if no loop runs in this thread."""
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        self._listeners = [
            each for each in self._listeners if each.waiting or not each.unsubscribed
        ]
        for listener in self._listeners:
            listener.deliver(self._loop)
        return True


class _Listener:
    """A handler, and the events that wait for it."""

    def __init__(self, event_type: EventType, handler: Handler) -> None:
        self.event_type = event_type
        self.handler = handler
        self.name = getattr(handler, "__qualname__", type(handler).__name__)
        self.unsubscribed = False
        self.waiting = deque[Callable[[], Awaitable[None] | None]]()
        self.delivery: asyncio.Task[None] | None = None
        called = getattr(handler, "__call__", None)  # noqa: B004 - a handler may be an object
        self._is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)

    def accepts(self, event: object) -> bool:
        if self.unsubscribed:
            return False
        if isinstance(self.event_type, str):
            return type(event).__name__ == self.event_type
        return isinstance(event, self.event_type)

    def receive(self, event: object) -> None:
        if self._is_async:
            self.waiting.append(partial(self.handler, event))
            return
        try:
            outcome = self.handler(event)
        except Exception:
            log.exception("event_handler_failed", handler=self.name)
            return
        if inspect.isawaitable(outcome):
            self.waiting.append(lambda: outcome)

    def deliver(self, loop: asyncio.AbstractEventLoop) -> None:
        task = self.delivery
        if self.waiting and (task is None or task.done() or task.get_loop().is_closed()):
            self.delivery = loop.create_task(self._run())

    async def _run(self) -> None:
        """Handle events one by one.

        Each is removed only when it is handled, so that an event whose handling a stopping loop
        interrupts is handled again in the next loop.
        """
        task = asyncio.current_task()
        while self.waiting:
            try:
                outcome = self.waiting[0]()
                if outcome is not None:
                    await outcome
            except asyncio.CancelledError:
                if task is not None and task.cancelling():
                    raise
                log.exception("event_handler_failed", handler=self.name)
            except Exception:
                log.exception("event_handler_failed", handler=self.name)
            self.waiting.popleft()
