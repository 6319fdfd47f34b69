"""The one door to NATS: publish, request, subscribe, drain. Endless reconnects, a size guard."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import nats
import nats.errors
import structlog
from nats.aio.client import Client

from local.bus.subscription import Handler, Headers, Message, Subscription
from local.bus.tool_results import ToolResults
from local.errors import (
    BusError,
    BusTimeoutError,
    NoRespondersError,
    StackNotRunningError,
    TooLargeError,
)

RECONNECT_WAIT = 0.25
HEADER_ROOM = 512
"""Bytes the NATS protocol adds around headers, generously."""

__all__ = ["Connection", "Handler", "Headers", "Message", "Subscription", "connect"]

log = structlog.get_logger()


class Connection:
    """A connection to NATS. Made by `connect`; `lost` is set while there is no server."""

    def __init__(
        self, client: Client, request_timeout: float, lost: asyncio.Event, secret: str
    ) -> None:
        self.client = client
        self.secret = secret
        self.lost = lost
        self.tool_results = ToolResults(self)
        self._request_timeout = request_timeout

    @property
    def url(self) -> str:
        """Where the server is, without credentials."""
        connected = self.client.connected_url
        return _without_credentials(connected.geturl()) if connected else "(not connected)"

    async def publish(
        self, subject: str, data: bytes, *, headers: Headers | None = None, reply: str = ""
    ) -> None:
        """Send without waiting for anyone.

        Raises:
            TooLargeError: Over the server's limit, which would end the connection for good.
            BusError: The connection is closed.
        """
        self.check_size(data, headers)
        try:
            await self.client.publish(subject, data, reply=reply, headers=headers)
        except nats.errors.Error as error:
            raise BusError(f"Cannot publish to {subject}: {error}.") from error

    async def request(
        self,
        subject: str,
        data: bytes,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - it is the caller's to choose
        headers: Headers | None = None,
    ) -> Message:
        """Send and wait for one answer.

        Raises:
            NoRespondersError: Nobody serves the subject; known at once.
            BusTimeoutError: Somebody does, and did not answer in time.
        """
        self.check_size(data, headers)
        seconds = self._request_timeout if timeout is None else timeout
        try:
            answer = await self.client.request(subject, data, timeout=seconds, headers=headers)
        except nats.errors.NoRespondersError as error:
            raise NoRespondersError(f"Nobody serves {subject}.") from error
        except (nats.errors.TimeoutError, TimeoutError) as error:
            raise BusTimeoutError(f"No answer from {subject} within {seconds:g} s.") from error
        except nats.errors.Error as error:
            raise BusError(f"Cannot ask {subject}: {error}.") from error
        return Message(answer.subject, answer.data, answer.reply, answer.headers)

    async def subscribe(
        self, subject: str, handler: Handler, *, queue: str = "", limit: int | None = 256
    ) -> Subscription:
        """Call `handler` for every message, concurrently; a queue group shares them out.

        What is over `limit` waits in memory; with None the handler refuses what is too much.
        """
        subscription = Subscription(handler, limit)
        try:
            source = await self.client.subscribe(subject, queue=queue, cb=subscription.dispatch)
        except nats.errors.Error as error:
            raise BusError(f"Cannot subscribe to {subject}: {error}.") from error
        subscription.attach(source)
        return subscription

    async def flush(self) -> None:
        """Return when the server has seen everything sent so far.

        nats-py writes the first ping past what its buffer still holds, the second one behind it.
        """
        try:
            await self.client.flush()
            await self.client.flush()
        except nats.errors.Error as error:
            raise BusError(f"The NATS server does not answer: {error}.") from error

    def check_size(self, data: bytes, headers: Headers | None = None) -> None:
        size = len(data)
        if headers:
            size += HEADER_ROOM + sum(len(k) + len(v) + 4 for k, v in headers.items())
        if size > self.client.max_payload:
            raise TooLargeError(
                f"The message has {size} bytes; the bus carries {self.client.max_payload}."
            )


@asynccontextmanager
async def connect(
    url: str,
    *,
    name: str,
    request_timeout: float = 10.0,
    patience: float = 5.0,
    secret: str = "",
) -> AsyncIterator[Connection]:
    """Connect, and drain when done.

    Args:
        url: `nats://[user:password@]host:port`.
        name: Shown by the server's monitoring.
        request_timeout: Seconds that `request` waits by default.
        patience: Seconds to wait for the server at first; afterwards reconnects never end.
        secret: What the stack's own processes sign messages on inner subjects with.

    Raises:
        StackNotRunningError: No server answers there.
    """
    lost = asyncio.Event()
    try:
        client = await asyncio.wait_for(_open(url, name, lost), patience)
    except (OSError, TimeoutError, nats.errors.Error) as error:
        raise StackNotRunningError(
            f"No NATS server answers at {_without_credentials(url)}.",
            remedy="Start the stack with `local2 up`, or correct `url` in config/bus.yaml.",
        ) from error
    try:
        yield Connection(client, request_timeout, lost, secret)
    finally:
        await _close(client)


async def _open(url: str, name: str, lost: asyncio.Event) -> Client:
    last = ""

    async def on_error(error: Exception) -> None:
        nonlocal last
        if repr(error) != last:  # a server that is gone is refused four times a second
            last = repr(error)
            log.warning("bus_error", error=last, connection=name)

    async def on_disconnect() -> None:
        lost.set()

    async def on_reconnect() -> None:
        nonlocal last
        last = ""
        lost.clear()
        log.info("bus_reconnected", connection=name)

    return await nats.connect(
        url,
        name=name,
        error_cb=on_error,
        disconnected_cb=on_disconnect,
        reconnected_cb=on_reconnect,
        max_reconnect_attempts=-1,
        reconnect_time_wait=RECONNECT_WAIT,
        drain_timeout=10,
    )


async def _close(client: Client) -> None:
    for end in (client.drain, client.close):
        if client.is_closed:
            return
        try:
            await end()
        except (nats.errors.Error, TimeoutError, OSError, RuntimeError, TypeError) as error:
            # The server went first. A closed transport raises RuntimeError (uvloop) or TypeError
            # (asyncio of Python 3.13) when the client writes what it had not sent yet.
            log.warning("bus_not_drained", error=repr(error))


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port}" if parts.hostname else url
