"""The only access to NATS: publish, request, subscribe, drain, and ask who else subscribes.

A connection reconnects without end, because the stack outlives its server. It checks the size of
what it sends, because the server closes a connection that sends too much.

The memory of several tenants states whom each message is for, and learns whom one comes from
(decision 0068). All others use the plain subjects.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import nats.errors
from nats.aio.client import Client

from local.bus.identity import AUTHORIZATION, Claimed, Identity, bearer
from local.bus.nats_client import RefusedError, close_client, not_connected, open_client
from local.bus.receiving import BusMessage, Fanouts, Handler, Headers, Subscription
from local.bus.tool_results import ToolResults
from local.errors import (
    BusError,
    BusTimeoutError,
    NoRespondersError,
    TooLargeError,
    without_credentials,
)
from local.protocol import subjects
from local.tenants.credentials import Credentials

MESSAGES_AT_ONCE = 256
"""Messages of one subscription that are handled at a time: bounds the tasks, and rarely waits."""
HEADER_ROOM = 512
"""Bytes that the NATS protocol adds around headers, estimated generously."""

__all__ = ["BusMessage", "Connection", "Handler", "Headers", "Subscription", "connect"]
TRACING_SINCE = (2, 11)
"""Version of nats-server; an older one would deliver the traced message."""
TRACE_TIMEOUT = 1.0
"""Seconds. The server answers at once; without an answer the message is assumed to have arrived."""


class Connection:
    """A connection to NATS, made by `connect`. `lost` is set while there is no server.

    `by_tenant`: it is the memory's own connection, on a server with accounts.
    """

    def __init__(  # noqa: PLR0913 - what a connection is
        self,
        client: Client,
        request_timeout: float,
        lost: asyncio.Event,
        secret: str,
        *,
        identity: Identity,
        by_tenant: bool = False,
        token: str | None = None,
    ) -> None:
        self.client = client
        self.secret = secret
        self.lost = lost
        self.identity = identity
        self.by_tenant = by_tenant
        self.tool_results = ToolResults(self)
        self._fanouts = Fanouts(client)
        self._token = bearer(token)
        self._request_timeout = request_timeout

    @property
    def url(self) -> str:
        """The address of the server, without credentials."""
        connected = self.client.connected_url
        return without_credentials(connected.geturl()) if connected else "(not connected)"

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        headers: Headers | None = None,
        reply: str = "",
        tenant: str | None = None,
    ) -> None:
        """Send without waiting for a receiver.

        Args:
            subject: Where to.
            data: The encoded message.
            headers: Further headers, besides the token of the connected client.
            reply: Where answers go.
            tenant: Who receives it, if the memory sends it to its tenants. None sends it to all of
                them, or answers a request.

        Raises:
            TooLargeError: The server's limit is exceeded; it would close the connection for good.
            BusError: The connection is closed.
        """
        headers = self.with_token(headers)
        self.check_size(data, headers)
        if tenant is not None:
            subject = self.sent_on(subject, tenant)
        try:
            await self.client.publish(subject, data, reply=reply, headers=headers)
        except nats.errors.Error as error:
            raise BusError(f"Cannot publish to {subject}: {error}.") from error

    async def request(
        self,
        subject: str,
        data: bytes,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the caller chooses it
        headers: Headers | None = None,
    ) -> BusMessage:
        """Send and wait for one answer.

        Raises:
            NoRespondersError: Nobody serves the subject, which the server reports at once.
            BusTimeoutError: Somebody serves it, but did not answer in time.
        """
        headers = self.with_token(headers)
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
        return BusMessage(answer.subject, answer.data, answer.reply, answer.headers)

    async def subscribe(
        self,
        subject: str,
        handler: Handler,
        *,
        queue: str = "",
        limit: int | None = MESSAGES_AT_ONCE,
        tenant: str | None = subjects.ANY,
    ) -> Subscription:
        """Call `handler` for every message, concurrently; a queue group divides the messages.

        Messages over `limit` wait in memory. With None, the handler itself refuses what is too
        much. `tenant`: whose messages the memory receives; with None, only those of its own
        account. A request that goes to every participant arrives once for the whole connection.
        """
        subscription = Subscription(handler, limit, by_tenant=self.by_tenant)
        place = subject if tenant is None else self.received_on(subject, tenant)
        try:
            if subject in subjects.ASKED_OF_EACH:
                await self._fanouts.join(place, subscription)
            else:
                source = await self.client.subscribe(place, queue=queue, cb=subscription.dispatch)
                subscription.attach(source)
        except nats.errors.Error as error:
            raise BusError(f"Cannot subscribe to {place}: {error}.") from error
        return subscription

    async def flush(self) -> None:
        """Return when the server has received everything sent so far.

        Two pings, because nats-py writes the first one ahead of what its buffer still holds, and
        the second one behind it.
        """
        try:
            await self.client.flush()
            await self.client.flush()
        except nats.errors.Error as error:
            raise BusError(f"The NATS server does not answer: {error}.") from error

    def received_on(self, subject: str, tenant: str) -> str:
        """Return the subject on which this connection receives what a tenant sends."""
        return subjects.from_tenant(tenant, subject) if self.by_tenant else subject

    def sent_on(self, subject: str, tenant: str) -> str:
        """Return the subject on which this connection sends what a tenant receives."""
        return subjects.to_tenant(tenant, subject) if self.by_tenant else subject

    def with_token(self, headers: Headers | None) -> Headers | None:
        """Return the headers, with the token of the connected client unless they have another."""
        if self._token is None or (headers is not None and AUTHORIZATION in headers):
            return headers
        return {**(headers or {}), **self._token}

    def check_size(self, data: bytes, headers: Headers | None = None) -> None:
        """Raise TooLargeError if the server does not carry a message of this size."""
        size = len(data)
        if headers:
            size += HEADER_ROOM + sum(len(k) + len(v) + 4 for k, v in headers.items())
        if size > self.client.max_payload:
            raise TooLargeError(
                f"The message has {size:,} bytes; the bus carries {self.client.max_payload:,}.",
                remedy="Send it in parts.",
            )


@asynccontextmanager
async def connect(  # noqa: PLR0913 - what a connection needs
    url: str,
    *,
    name: str,
    request_timeout: float = 10.0,
    patience: float = 5.0,
    secret: str = "",
    credentials: Credentials | None = None,
    identity: Identity | None = None,
    by_tenant: bool = False,
) -> AsyncIterator[Connection]:
    """Connect, and drain the connection at the end.

    Args:
        url: `nats://[user:password@]host:port`.
        name: Shown in the server's monitoring.
        request_timeout: Seconds that `request` waits by default.
        patience: Seconds to wait for the first connection; later reconnects never end.
        secret: Signs messages on inner subjects; only the stack's own processes know it.
        credentials: Those of the client; None where the server has no accounts.
        identity: Determines who sent a message; None believes what envelopes claim.
        by_tenant: Whether it is the memory of a server with accounts.

    Raises:
        StackNotRunningError: No server answers there.
        ForbiddenError: The server refuses the credentials, or demands some.
    """
    lost = asyncio.Event()
    try:
        async with asyncio.timeout(patience):
            client = await open_client(url, name, lost, credentials)
    except (RefusedError, OSError, TimeoutError, nats.errors.Error) as error:
        raise not_connected(without_credentials(url), error) from error
    try:
        yield Connection(
            client,
            request_timeout,
            lost,
            secret,
            identity=identity or Claimed(),
            by_tenant=by_tenant,
            token=credentials.token if credentials else None,
        )
    finally:
        await close_client(client)


class _TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One step on a message's way; `type` is `eg` for a delivery (egress)."""

    type: str
    cid: int = 0
    queue: str = ""


class _Trace(msgspec.Struct, frozen=True, kw_only=True):
    events: list[_TraceEvent]


async def others_hear(bus: Connection, subject: str) -> bool:
    """Return whether a message reaches anybody besides this connection's own plain subscription.

    A listener that subscribes beside the participants that answer hides the server's "no
    responders" from the caller. With this function the listener learns that no participant answers,
    and can report that in the server's place. The server traces an empty message without delivering
    it. The result is True, too, if this cannot be determined.
    """
    version = bus.client.connected_server_version
    if (version.major, version.minor) < TRACING_SINCE:
        return True
    loop = asyncio.get_running_loop()
    traced: asyncio.Future[bytes] = loop.create_future()

    async def receive(message: BusMessage) -> None:
        if not traced.done():
            traced.set_result(message.data)

    inbox = bus.client.new_inbox()
    subscription = await bus.subscribe(inbox, receive)
    try:
        headers = {"Nats-Trace-Dest": inbox, "Nats-Trace-Only": "true"}
        await bus.publish(subject, b"", headers=headers)
        data = await asyncio.wait_for(traced, TRACE_TIMEOUT)
        steps = msgspec.json.decode(data, type=_Trace).events
    except (TimeoutError, msgspec.DecodeError):
        return True
    finally:
        await subscription.stop(grace=0)
    own = _TraceEvent(type="eg", cid=bus.client.client_id or 0)
    return any(step.type != "in" and step != own for step in steps)
