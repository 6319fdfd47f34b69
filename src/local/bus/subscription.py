"""Messages of the bus, each handled in a task of its own.

nats-py calls one callback after the other; a task for each message lets slow ones overlap, and
gives a stop something to wait for.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

import nats.errors
import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription

from local.errors import Local2Error
from local.protocol.envelope import DEFAULT_TENANT
from local.protocol.subjects import address_of

Headers = dict[str, str]

log = structlog.get_logger()


class BusMessage(NamedTuple):
    """A message of the bus; `reply` is empty if nobody waits for an answer.

    `tenant` is what the server says, whose accounts it is known from; the subject is without it.
    """

    subject: str
    data: bytes
    reply: str = ""
    headers: Headers | None = None
    tenant: str = DEFAULT_TENANT


Handler = Callable[[BusMessage], Awaitable[None]]


class Subscription:
    """Runs a task for each message, at most `limit` at a time; with None, all at once.

    `by_tenant`: subjects say whose message it is.
    """

    def __init__(self, handler: Handler, limit: int | None, *, by_tenant: bool = False) -> None:
        self._handler = handler
        self._by_tenant = by_tenant
        self._slots = asyncio.Semaphore(limit) if limit else None
        self._tasks: set[asyncio.Task[None]] = set()
        self._source: NatsSubscription | None = None

    def attach(self, source: NatsSubscription) -> None:
        self._source = source

    async def dispatch(self, message: Msg) -> None:
        if self._slots is not None:
            await self._slots.acquire()
        task = asyncio.create_task(self._run(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self, grace: float) -> None:
        """Receive no more messages; cancel those that are not done after `grace` seconds."""
        if self._source is not None and not self._source._closed:  # noqa: SLF001
            try:
                await self._source.drain()  # type: ignore[no-untyped-call]
            except (TimeoutError, nats.errors.Error) as error:
                log.warning("intake_not_drained", subject=self._source.subject, error=repr(error))
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=grace)
            for task in late:
                task.cancel()
            if late:
                log.warning("requests_cancelled", count=len(late))
                await asyncio.wait(late)

    async def leave(self) -> None:
        """Receive no more messages, without the server; wait for those in progress."""
        if self._source is not None and not self._source._closed:  # noqa: SLF001
            with suppress(nats.errors.Error):  # without a connection no messages come either
                await self._source.unsubscribe()
        if self._tasks:
            await asyncio.wait(self._tasks)

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
