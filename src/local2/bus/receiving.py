"""Receive messages: handle several at a time, and fan out those meant for several participants.

nats-py runs callbacks one after another. Here, a task reads and handles one message after the other
until a handler has to wait for something; from then on, this task belongs to that handler, and
another one reads. So slow handlers overlap, `stop` can wait for them, and each handler runs in one
task from its beginning to its end, as timeouts and cancellation require. Most requests are answered
without waiting, and cost no task.

Handlers are wrapped for traces and metrics when they are registered, so messages cost nothing extra
while both are off.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from contextvars import copy_context
from time import perf_counter
from types import coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription

from local2 import telemetry
from local2.background import completed, together
from local2.errors import Local2Error
from local2.logs import get_logger
from local2.protocol.envelope import DEFAULT_TENANT
from local2.protocol.subjects import address_of, is_inbox

if TYPE_CHECKING:
    from local2.telemetry.instruments import Meter
    from local2.telemetry.spans import Tracer

Headers = dict[str, str]
ANSWER = "Local2-Answer"
"""Marks the answer to a request from another account, whose reply subject nobody but the server
knows. Received elsewhere than in an inbox, it is an answer that its requester has redirected."""
STREAM_ACK_PREFIX = "$JS.ACK."
"""Beginning of the reply subject of a message that a stream delivers."""

MESSAGES_IN_A_ROW = 32
"""Messages that a subscription handles, or that are published, before other tasks get their turn:
many may have waited."""

log = get_logger()


class BusMessage(NamedTuple):
    """A message of the bus; `reply` is empty if the sender expects no answer.

    `tenant` comes from the server's accounts; `subject` does not contain it.
    """

    subject: str
    data: bytes
    reply: str = ""
    headers: Headers | None = None
    tenant: str = DEFAULT_TENANT


Handler = Callable[[BusMessage], Awaitable[None]]


def is_redirected(message: BusMessage | Msg) -> bool:
    """Whether this is an answer that its requester had sent to a subject of its choice."""
    return ANSWER in (message.headers or {}) and not is_inbox(message.subject)


@coroutine
def noticing_wait(
    work: Coroutine[Any, Any, None], notice: Callable[[], None]
) -> Generator[Any, Any, None]:
    """Await `work`, and call `notice` when it waits for the first time, if it does."""
    try:
        awaited = work.send(None)
        notice()
        while True:
            try:
                value = yield awaited
            except BaseException as error:  # noqa: BLE001 - of the task, such as a cancellation
                awaited = work.throw(error)
            else:
                awaited = work.send(value)
    except StopIteration:
        pass


class Subscription:
    """Handles each message, at most `limit` at a time; None means no limit.

    `by_tenant`: whether received subjects contain the tenant that sent the message. Handlers share
    a context: one that reads a context variable must have set it.
    """

    def __init__(self, handler: Handler, limit: int | None, *, by_tenant: bool = False) -> None:
        self._handler = handler
        self._by_tenant = by_tenant
        self._slots = asyncio.Semaphore(limit) if limit else None
        self.tasks = set[asyncio.Task[None]]()
        """Those of the handlers in progress that had to wait."""
        self._context = copy_context()
        self._source: NatsSubscription | Fanout | None = None

    def attach(self, source: "NatsSubscription | Fanout") -> None:
        """Receive from a source: a subscription without a callback, or a fanout that dispatches."""
        self._source = source
        if not isinstance(source, Fanout):
            self._begin_reading(source)

    def _begin_reading(self, source: NatsSubscription) -> None:
        # nats-py ends this task with the subscription or the connection.
        source._wait_for_msgs_task = asyncio.create_task(  # type: ignore[assignment] # noqa: SLF001
            self._read(source), context=self._context.copy()
        )

    async def _read(self, source: NatsSubscription) -> None:
        """Handle messages until a handler waits; that one ends in this task, and another reads."""
        queue, task = source._pending_queue, asyncio.current_task()  # noqa: SLF001

        def let_another_read() -> None:
            self.tasks.add(task)  # type: ignore[arg-type]
            self._begin_reading(source)

        handled = 0
        try:
            while source._wait_for_msgs_task is task:  # noqa: SLF001
                handled += 1
                if handled % MESSAGES_IN_A_ROW == 0:
                    await asyncio.sleep(0)
                message = await queue.get()
                source._pending_size -= len(message.data)  # noqa: SLF001
                try:
                    accepted = await self._accept(message)
                finally:
                    queue.task_done()
                if accepted:
                    await noticing_wait(self._run(message), let_another_read)
        finally:
            self.tasks.discard(task)

    async def dispatch(self, message: Msg) -> None:
        """Handle a message in a task of its own."""
        if await self._accept(message):
            task = asyncio.create_task(self._run(message))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _accept(self, message: Msg) -> bool:
        """Wait for a slot; return False for a message that is not handled."""
        # Whoever consumes a stream has to acknowledge even a redirected answer.
        if is_redirected(message) and not message.reply.startswith(STREAM_ACK_PREFIX):
            log.warning("answer_ignored", subject=message.subject)
            return False
        if self._slots is not None:
            await self._slots.acquire()
        return True

    async def stop(self, grace: float) -> None:
        """Stop receiving; cancel handlers that are not done after `grace` seconds."""
        await stop_all([self], grace)

    async def leave(self, grace: float | None = None) -> None:
        """Stop receiving, even without a server; wait for handlers in progress.

        Those that are not done after `grace` seconds are cancelled.
        """
        await leave_all([self], grace)

    def detach(self) -> NatsSubscription | None:
        """Choose the NATS subscription to end; None if it has other receivers or is closed."""
        source = self._source
        if isinstance(source, Fanout):
            source = source.leave(self)
        return None if source is None or source._closed else source  # noqa: SLF001

    async def _run(self, message: Msg) -> None:
        try:
            incoming = BusMessage(message.subject, message.data, message.reply, message.headers)
            if self._by_tenant and (address := address_of(message.subject)) is not None:
                incoming = incoming._replace(subject=address.subject, tenant=address.tenant)
            await self._handler(incoming)
        except Local2Error as error:  # its message says enough
            log.warning("message_failed", subject=message.subject, reason=error.message)
        except Exception:
            log.exception("handler_failed", subject=message.subject)
        finally:
            if self._slots is not None:
                self._slots.release()


async def stop_all(subscriptions: Sequence[Subscription], grace: float) -> None:
    """Stop several subscriptions as `Subscription.stop` does one, in the same time."""
    await completed(_stop(subscriptions, grace))


async def _stop(subscriptions: Sequence[Subscription], grace: float) -> None:
    await together(_drain(source) for one in subscriptions if (source := one.detach()) is not None)
    await _end_handlers(subscriptions, grace)


async def _drain(source: NatsSubscription) -> None:
    try:
        await source.drain()  # type: ignore[no-untyped-call]
    except (TimeoutError, nats.errors.Error) as error:
        log.warning("intake_not_drained", subject=source.subject, error=repr(error))


async def leave_all(subscriptions: Sequence[Subscription], grace: float | None = None) -> None:
    """Leave several subscriptions as `Subscription.leave` does one, in the same time."""
    await completed(_leave(subscriptions, grace))


async def _leave(subscriptions: Sequence[Subscription], grace: float | None) -> None:
    for subscription in subscriptions:
        if (source := subscription.detach()) is not None:
            with suppress(nats.errors.Error):  # without a connection, no messages arrive
                await source.unsubscribe()
    await _end_handlers(subscriptions, grace)


async def _end_handlers(subscriptions: Sequence[Subscription], grace: float | None) -> None:
    if tasks := set[asyncio.Task[None]]().union(*(one.tasks for one in subscriptions)):
        _, late = await asyncio.wait(tasks, timeout=grace)
        for task in late:
            task.cancel()
        if late:
            log.warning("requests_cancelled", count=len(late))
            await asyncio.wait(late)


class Fanout:
    """One NATS subscription that passes each message to all participants of a connection.

    Otherwise the server would send the message once per subscription: fifty times to fifty tools.
    """

    def __init__(self) -> None:
        self.source: NatsSubscription | None = None
        self._receivers: list[Subscription] = []

    @property
    def is_empty(self) -> bool:
        """Whether no receiver is left."""
        return not self._receivers

    def join(self, receiver: Subscription) -> None:
        self._receivers.append(receiver)
        receiver.attach(self)

    def leave(self, receiver: Subscription) -> NatsSubscription | None:
        """Remove the receiver; return the NATS subscription to end if it was the last one."""
        if receiver not in self._receivers:
            return None
        self._receivers.remove(receiver)
        return self.source if self.is_empty else None

    async def dispatch(self, message: Msg) -> None:
        for receiver in tuple(self._receivers):
            await receiver.dispatch(message)


class Fanouts:
    """The fanouts of one connection, by subject."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._by_subject: dict[str, Fanout] = {}

    async def join(self, subject: str, receiver: Subscription) -> None:
        """Add a receiver to the subject's fanout; the first one subscribes at the server."""
        fanout = self._by_subject.get(subject)
        if fanout is not None and not fanout.is_empty:
            fanout.join(receiver)
            return
        fanout = self._by_subject[subject] = Fanout()
        fanout.join(receiver)
        try:
            fanout.source = await self._client.subscribe(subject, cb=fanout.dispatch)
        except BaseException:
            del self._by_subject[subject]
            raise


def instrument(participant: str, subject: str, handler: Handler) -> Handler:
    """Wrap a participant's handler for traces and metrics, if they are on."""
    if telemetry.meter is not None:
        handler = _measure_handler(telemetry.meter, (participant, subject), handler)
    if telemetry.tracer is not None:
        handler = _trace_handler(telemetry.tracer, subject, handler)
    return handler


def message_attributes(subject: str, operation: str) -> dict[str, str]:
    return {
        "messaging.system": "nats",
        "messaging.operation.type": operation,
        "messaging.destination.name": subject,
    }


def _trace_handler(tracer: "Tracer", subject: str, handler: Handler) -> Handler:
    name, attributes = f"process {subject}", message_attributes(subject, "process")

    async def trace(message: BusMessage) -> None:
        with tracer.message_span(name, attributes, message.headers):
            await handler(message)

    return trace


def _measure_handler(meter: "Meter", labels: tuple[str, str], handler: Handler) -> Handler:
    seconds = meter.request_seconds.labels(*labels)
    in_progress = meter.requests_in_progress.labels(*labels)

    async def measure(message: BusMessage) -> None:
        begun = perf_counter()
        in_progress.inc()
        try:
            await handler(message)
        finally:
            in_progress.dec()
            seconds.observe(perf_counter() - begun)

    return measure
