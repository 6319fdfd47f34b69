"""Events of a conversation's memory, and the in-process bus that delivers them to handlers.

A conversation's methods are synchronous, so that any code can call them, while a handler may need
to write to a network. The bus connects the two and keeps the events in order.
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

from local2.conversation.checked import Checked

log = structlog.get_logger()


class MemoryResetEvent(Checked, frozen=True):
    """A conversation was cleared, so anything planned from it is obsolete."""

    session_id: str
    agent_name: str


class CompactionEvent(Checked, frozen=True, omit_defaults=True):
    """The progress of a compaction. `duration` is in seconds.

    The `post_` counts are 0 until the compaction is completed.
    """

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
    """Accepts events without waiting, because senders may be synchronous. `EventBus` is one."""

    def emit(self, event: MemoryEvent) -> None: ...


class EventContext(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a conversation, and the sink of its events."""

    agent_name: str
    event_bus: EventSink
    session_id: str = ""


class CompactionProgress:
    """Emits the events of one compaction: started at once, then completed or failed.

    Without a context it emits nothing.
    """

    def __init__(self, context: EventContext | None, *, tokens: int, messages: int) -> None:
        self._context = context
        self._begun = time.perf_counter()
        self._started = CompactionEvent(
            session_id=context.session_id if context else "",
            agent_name=context.agent_name if context else "",
            status="started",
            pre_tokens=tokens,
            pre_messages=messages,
        )
        self._emit(self._started)

    def completed(self, *, tokens: int, messages: int, stages: Sequence[str]) -> None:
        self._end(
            status="completed",
            post_tokens=tokens,
            post_messages=messages,
            stages_run=list(stages),
        )

    def failed(self) -> None:
        self._end(status="failed")

    def _end(self, **outcome: Any) -> None:
        duration = time.perf_counter() - self._begun
        self._emit(msgspec.structs.replace(self._started, duration=duration, **outcome))

    def _emit(self, event: CompactionEvent) -> None:
        if self._context is not None:
            self._context.event_bus.emit(event)


EventType = type | str
"""The class of an event, or the class's name."""
Handler = Callable[[Any], Awaitable[None] | None]


class EventBus:
    """Passes every event to every handler of its type, in the order in which they were emitted.

    A plain function is called at once. An async function is awaited in a task, event by event;
    events that are emitted while no loop runs wait until one does. If a handler fails, the failure
    is logged and the handler still receives the next event. On exit from its context, the bus waits
    until all events are handled.
    """

    def __init__(self) -> None:
        self._listeners: list[_Listener] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def subscribe(self, event_type: EventType, handler: Handler) -> None:
        """Call a handler with all events of a class, given as the class or its name."""
        self._listeners.append(_Listener(event_type, handler))

    def unsubscribe(self, event_type: EventType, handler: Handler) -> None:
        """Send no new events to a handler; it still receives those emitted before."""
        for listener in self._listeners:
            if (listener.event_type, listener.handler) == (event_type, handler):
                listener.unsubscribed = True

    def emit(self, event: object) -> None:
        """Send an event to all its handlers without waiting. Any thread may call this."""
        for listener in [*self._listeners]:
            if listener.accepts(event):
                listener.receive(event)
        if not self._deliver() and self._loop is not None and self._loop.is_running():
            with suppress(RuntimeError):  # the loop was closed: the next one delivers
                self._loop.call_soon_threadsafe(self._deliver)

    async def settle(self) -> None:
        """Wait until every handler has handled all emitted events."""
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
        """Start deliveries that do not run yet; return False if no loop runs in this thread."""
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        self._listeners = [
            listener
            for listener in self._listeners
            if listener.waiting or not listener.unsubscribed
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

        An event is removed only after it was handled. If a stopping loop interrupts the handler,
        the next loop handles the event again.
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
