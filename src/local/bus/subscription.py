"""Messages as they come, and who handles them: each in a task of its own, cleanly stopped."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

import nats.errors
import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription

from local.errors import Local2Error

Headers = dict[str, str]

log = structlog.get_logger()


class Message(NamedTuple):
    """A message as it came; `reply` is empty where nobody waits for an answer."""

    subject: str
    data: bytes
    reply: str = ""
    headers: Headers | None = None


Handler = Callable[[Message], Awaitable[None]]


class Subscription:
    """Hands each message to a task of its own, at most `limit` at a time; None: all at once."""

    def __init__(self, handler: Handler, limit: int | None) -> None:
        self._handler = handler
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
        """Take no more messages, then wait for those under way; after `grace` seconds cancel."""
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
        """Take no more messages, without asking the server; wait for those under way."""
        if self._source is not None and not self._source._closed:  # noqa: SLF001
            with suppress(nats.errors.Error):  # there is no connection, so nothing comes
                await self._source.unsubscribe()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, message: Msg) -> None:
        try:
            await self._handler(
                Message(message.subject, message.data, message.reply, message.headers)
            )
        except Local2Error as error:  # what was wrong, it says itself
            log.warning("message_failed", subject=message.subject, reason=error.message)
        except Exception:
            log.exception("handler_failed", subject=message.subject)
        finally:
            if self._slots is not None:
                self._slots.release()
