"""Messages as they arrive: each runs in a task, and is handed to every receiver of a connection.

nats-py calls one callback after the other; a task for each message lets slow ones overlap, and
gives a stop something to wait for.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription

from local.errors import Local2Error
from local.protocol.envelope import DEFAULT_TENANT
from local.protocol.subjects import address_of

Headers = dict[str, str]

log = structlog.get_logger()


class BusMessage(NamedTuple):
    """A message of the bus; `reply` is empty if nobody waits for an answer.

    `tenant` is known from the server's accounts; the subject is without it.
    """

    subject: str
    data: bytes
    reply: str = ""
    headers: Headers | None = None
    tenant: str = DEFAULT_TENANT


Handler = Callable[[BusMessage], Awaitable[None]]


class Subscription:
    """Runs a task for each message, at most `limit` at a time; with None, all at once.

    `by_tenant`: subjects begin with the message's tenant.
    """

    def __init__(self, handler: Handler, limit: int | None, *, by_tenant: bool = False) -> None:
        self._handler = handler
        self._by_tenant = by_tenant
        self._slots = asyncio.Semaphore(limit) if limit else None
        self._tasks: set[asyncio.Task[None]] = set()
        self._source: NatsSubscription | Fanout | None = None

    def attach(self, source: "NatsSubscription | Fanout") -> None:
        self._source = source

    async def dispatch(self, message: Msg) -> None:
        if self._slots is not None:
            await self._slots.acquire()
        task = asyncio.create_task(self._run(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self, grace: float) -> None:
        """Receive no more messages; cancel those that are not done after `grace` seconds."""
        if (source := self._ending()) is not None:
            try:
                await source.drain()  # type: ignore[no-untyped-call]
            except (TimeoutError, nats.errors.Error) as error:
                log.warning("intake_not_drained", subject=source.subject, error=repr(error))
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=grace)
            for task in late:
                task.cancel()
            if late:
                log.warning("requests_cancelled", count=len(late))
                await asyncio.wait(late)

    async def leave(self) -> None:
        """Receive no more messages, without the server; wait for those in progress."""
        if (source := self._ending()) is not None:
            with suppress(nats.errors.Error):  # without a connection no messages come either
                await source.unsubscribe()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _ending(self) -> NatsSubscription | None:
        """Return what ends with this one: nothing where others receive from the same."""
        source = self._source
        if isinstance(source, Fanout):
            source = source.leave(self)
        return None if source is None or source._closed else source  # noqa: SLF001

    def _received(self, message: Msg) -> BusMessage:
        plain = BusMessage(message.subject, message.data, message.reply, message.headers)
        if self._by_tenant and (address := address_of(message.subject)) is not None:
            return plain._replace(subject=address.subject, tenant=address.tenant)
        return plain

    async def _run(self, message: Msg) -> None:
        try:
            await self._handler(self._received(message))
        except Local2Error as error:  # its message says what was wrong
            log.warning("message_failed", subject=message.subject, reason=error.message)
        except Exception:
            log.exception("handler_failed", subject=message.subject)
        finally:
            if self._slots is not None:
                self._slots.release()


class Fanout:
    """Receives once what goes to all participants of a connection, and hands it to each of them.

    The server sends a message once for every subscription: to fifty tools, fifty times.
    """

    def __init__(self) -> None:
        self.source: NatsSubscription | None = None
        self._receivers: list[Subscription] = []

    @property
    def is_left(self) -> bool:
        """Whether it has no receiver left."""
        return not self._receivers

    def join(self, receiver: Subscription) -> None:
        self._receivers.append(receiver)
        receiver.attach(self)

    def leave(self, receiver: Subscription) -> NatsSubscription | None:
        """Remove the receiver; after the last one, end the subscription at the server."""
        if receiver not in self._receivers:
            return None
        self._receivers.remove(receiver)
        return self.source if self.is_left else None

    async def dispatch(self, message: Msg) -> None:
        for receiver in tuple(self._receivers):
            await receiver.dispatch(message)


class Fanouts:
    """The fanouts of one connection, by their subjects."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._there: dict[str, Fanout] = {}

    async def join(self, subject: str, receiver: Subscription) -> None:
        """Receive with the others; the first receiver subscribes at the server."""
        fanout = self._there.get(subject)
        if fanout is not None and not fanout.is_left:
            fanout.join(receiver)
            return
        fanout = self._there[subject] = Fanout()
        fanout.join(receiver)
        try:
            fanout.source = await self._client.subscribe(subject, cb=fanout.dispatch)
        except BaseException:
            del self._there[subject]
            raise
