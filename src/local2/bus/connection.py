"""The only access to NATS: publish, request, subscribe, and drain.

A connection never stops reconnecting, because the stack outlives its server. It checks the size of
each message, because the server closes a connection that sends one that is too large.

On a server with accounts, the memory's subjects contain the tenant that sends or receives a message
(decision 0010). All others use the plain subjects.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any, NamedTuple

import msgspec
import nats.errors
from nats.aio.client import Client

from local2.background import completed, go_on
from local2.bus.identity import AUTHORIZATION, Claimed, Identity, bearer
from local2.bus.lost_requests import sent_until_answered
from local2.bus.nats_client import RefusedError, close_client, connection_error, open_client
from local2.bus.receiving import (
    ANSWER,
    MESSAGES_IN_A_ROW,
    BusMessage,
    Fanouts,
    Handler,
    Headers,
    Subscription,
    leave_all,
)
from local2.bus.tool_calls import ToolCaller
from local2.errors import (
    BusError,
    BusTimeoutError,
    Local2Error,
    NoRespondersError,
    RequestError,
    TooLargeError,
    without_credentials,
)
from local2.logs import get_logger
from local2.protocol import subjects
from local2.protocol.envelope import Envelope, decode, encode
from local2.protocol.payloads import Empty, Running
from local2.tenants.credentials import Credentials

CONCURRENT_MESSAGES = 256
"""Default number of messages of one subscription that are handled concurrently: it bounds the
number of tasks, and is rarely reached."""
HEADER_OVERHEAD = 512
"""Bytes that the NATS protocol adds to headers, estimated generously."""

__all__ = ["BusMessage", "Connection", "Handler", "Headers", "Subscription", "connect"]
log = get_logger()

TRACING_SINCE = (2, 11)
"""First version of nats-server that traces messages; an older one would deliver the message."""
PATIENCE = 5.0
"""Seconds to wait for the first connection to a server."""
INTERRUPTION = 1.0
"""Seconds for which a subject that has been served before may have no responders: a server that
reads its accounts again interrupts subscriptions for a moment."""
RETRY_INTERVAL = 0.05
"""Seconds between two attempts to reach it: an interruption takes milliseconds."""
RUNNING_TIMEOUT = 0.5
"""Seconds to wait for the answers of those who may have a request."""
TRACE_TIMEOUT = 1.0
"""Seconds to wait for a trace. The server answers at once; without an answer, a subscriber is
assumed."""


class Interest(NamedTuple):
    """Messages to receive, as `Connection.subscribe` describes it."""

    subject: str
    handler: Handler
    queue: str = ""
    limit: int | None = CONCURRENT_MESSAGES
    tenant: str | None = subjects.ANY_TENANT


class _Waiting(NamedTuple):
    """A message that waits to be published."""

    subject: str
    encode: Callable[[], bytes]
    tenant: str | None


class Connection:
    """A connection to NATS, made by `connect`.

    `lost` is set while the server is unreachable. `by_tenant` is True for the memory's own
    connection to a server with accounts.
    """

    def __init__(
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
        self.tool_calls = ToolCaller(self)
        self._fanouts = Fanouts(client)
        self._waiting: deque[_Waiting] = deque()
        self._publishing: asyncio.Task[None] | None = None
        self._token = bearer(token)
        self._request_timeout = request_timeout
        self._served: set[str] = set()
        """The subjects on which requests have been answered."""

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
        """Send a message without waiting for a receiver.

        Args:
            subject: The subject, without a tenant.
            data: The encoded message.
            headers: Headers besides the token of the connected client.
            reply: The subject for answers.
            tenant: The tenant to send it to, if the memory sends it. None answers a request, or
                sends to all tenants.

        Raises:
            TooLargeError: The message exceeds the server's limit.
            BusError: The connection is closed.
        """
        headers = self.with_token(headers)
        self.check_size(data, headers)
        if tenant is not None and self.by_tenant:
            subject = subjects.to_tenant(tenant, subject)
        try:
            await self.client.publish(subject, data, reply=reply, headers=headers)
        except nats.errors.Error as error:
            raise BusError(f"Cannot publish to {subject}: {error}.") from error

    def publish_soon(
        self,
        subject: str,
        encode: Callable[[], bytes],
        *,
        tenant: str | None = None,
    ) -> None:
        """Publish a message that nobody waits for, behind the answer that is being made.

        `encode` makes it when its turn comes: a write may announce thousands. A failure is logged.
        """
        self._waiting.append(_Waiting(subject, encode, tenant))
        if self._publishing is None or self._publishing.done():
            # In no request's trace: messages of other requests may join.
            self._publishing = asyncio.create_task(self.publish_waiting(), context=Context())

    async def publish_waiting(self) -> None:
        """Publish what `publish_soon` was given; `connect` calls this before it disconnects."""
        failed, reason = 0, ""
        while self._waiting:
            subject, encode, tenant = self._waiting.popleft()
            try:
                await self.publish(subject, encode(), tenant=tenant)
            except Local2Error as error:
                failed, reason = failed + 1, error.logged
            if len(self._waiting) % MESSAGES_IN_A_ROW == 0:
                await asyncio.sleep(0)
        if failed:
            log.warning("not_published", messages=failed, reason=reason)

    async def answer(
        self, message: BusMessage, data: bytes, headers: Headers | None = None
    ) -> None:
        """Answer a message, if its sender waits for an answer in an inbox.

        Nothing is sent to any other reply subject: the sender may have no right to publish there.

        Raises:
            TooLargeError: The answer exceeds the server's limit.
            BusError: The connection is closed.
        """
        if not message.reply:
            return
        if not subjects.is_inbox(message.reply):
            log.warning("not_answered", subject=message.subject, reason="Its reply is no inbox.")
            return
        await self.publish(message.reply, data, headers=_marked(message, headers))

    async def request(
        self,
        subject: str,
        data: bytes,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the caller chooses it
        headers: Headers | None = None,
    ) -> BusMessage:
        """Send a request and return the first answer.

        Raises:
            NoRespondersError: Nobody serves the subject; the server reports that at once.
            BusTimeoutError: Somebody serves the subject, but did not answer in time.
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
            raise BusError(f"Cannot send a request to {subject}: {error}.") from error
        return BusMessage(answer.subject, answer.data, answer.reply, answer.headers)

    async def request_patiently(
        self,
        subject: str,
        data: bytes,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the caller chooses it
        headers: Headers | None = None,
    ) -> BusMessage:
        """Send a request, and again while a subject that has been served before is interrupted.

        Raises:
            NoRespondersError: Nobody serves the subject, now or, if requests have been answered
                there, for INTERRUPTION seconds.
            BusTimeoutError: Somebody serves the subject, but did not answer in time.
        """
        loop = asyncio.get_running_loop()
        seconds = self._request_timeout if timeout is None else timeout
        patient_until = loop.time() + (min(seconds, INTERRUPTION) if subject in self._served else 0)
        while True:
            try:
                answer = await self.request(subject, data, timeout=seconds, headers=headers)
            except NoRespondersError:  # nobody has received it, so it may be sent again
                if loop.time() >= patient_until:
                    raise
            else:
                self._served.add(subject)
                return answer
            await asyncio.sleep(RETRY_INTERVAL)

    async def request_until_answered(
        self,
        subject: str,
        request: Envelope[Any],
        *,
        running: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the caller chooses it
        headers: Headers | None = None,
    ) -> BusMessage:
        """Send a request, and again if it is lost; return the first answer.

        `running`: the subject that asks who has it (`Running`).

        Raises what `request_patiently` raises.
        """
        data = encode(request)

        async def send(seconds: float) -> BusMessage:
            return await self.request_patiently(subject, data, timeout=seconds, headers=headers)

        async def is_lost() -> bool:
            question = msgspec.structs.replace(
                request, payload=Empty(), type="running", correlation_id=request.id
            )
            return await self.has_request(running, encode(question), headers) is False

        seconds = self._request_timeout if timeout is None else timeout
        return await sent_until_answered(send, is_lost, seconds)

    async def has_request(
        self, subject: str, data: bytes, headers: Headers | None = None
    ) -> bool | None:
        """Ask everybody who serves a subject whether one of them has a request (`Running`).

        It is lost if somebody answers, and nobody has it. If nobody answers, that is not known:
        None.
        """
        loop = asyncio.get_running_loop()
        someone_has_it: asyncio.Future[None] = loop.create_future()
        others = 0

        async def receive(message: BusMessage) -> None:
            nonlocal others
            try:
                running = decode(message.data, Running).payload.running
            except RequestError:  # the server says that nobody serves the subject
                return
            if not running:
                others += 1
            elif not someone_has_it.done():
                someone_has_it.set_result(None)

        try:
            inbox = self.client.new_inbox()
            subscription = await self.subscribe(inbox, receive)
            try:
                await self.publish(subject, data, reply=inbox, headers=headers)
                async with asyncio.timeout(RUNNING_TIMEOUT):
                    await someone_has_it
            except TimeoutError:
                return False if others else None
            finally:
                await subscription.leave()
        except BusError:  # the connection is closed: nobody was asked
            return None
        return True

    async def subscribe(
        self,
        subject: str,
        handler: Handler,
        *,
        queue: str = "",
        limit: int | None = CONCURRENT_MESSAGES,
        tenant: str | None = subjects.ANY_TENANT,
    ) -> Subscription:
        """Call `handler` for each message; members of a queue group share the messages.

        At most `limit` messages are handled at a time; others wait in memory. With None, the
        handler itself must refuse an overload. `tenant`: the tenant whose messages the memory
        receives; None means only those of its own account. A request that goes to every
        participant is received once for the whole connection.
        """
        (opened,) = await self.subscribe_all([Interest(subject, handler, queue, limit, tenant)])
        return opened

    async def subscribe_all(self, interests: Iterable[Interest]) -> list[Subscription]:
        """Subscribe to several subjects together: to all, or to none if that fails."""
        opened: list[Subscription] = []

        async def open_each() -> None:
            for one in interests:
                subscription = Subscription(one.handler, one.limit, by_tenant=self.by_tenant)
                opened.append(subscription)
                await self._attach(subscription, one)

        opening = go_on(open_each())
        try:
            await asyncio.shield(opening)
        except BusError:
            await leave_all(opened)
            raise
        except asyncio.CancelledError:
            opening.add_done_callback(lambda _: go_on(leave_all(opened)))
            raise
        return opened

    async def _attach(self, subscription: Subscription, to: Interest) -> None:
        subject = to.subject if to.tenant is None else self.incoming_subject(to.subject, to.tenant)
        try:
            if to.subject in subjects.RECEIVED_ONCE:
                await self._fanouts.join(subject, subscription)
            else:
                subscription.attach(await self.client.subscribe(subject, queue=to.queue))
        except nats.errors.Error as error:
            raise BusError(f"Cannot subscribe to {subject}: {error}.") from error

    async def flush(self) -> None:
        """Wait until the server has received everything sent so far."""
        try:
            await self.client.flush()
        except nats.errors.Error as error:
            raise BusError(f"The NATS server does not answer: {error}.") from error

    def incoming_subject(self, subject: str, tenant: str) -> str:
        """The subject on which this connection receives a tenant's messages."""
        return subjects.from_tenant(tenant, subject) if self.by_tenant else subject

    def with_token(self, headers: Headers | None) -> Headers | None:
        """Add the connected client's token to the headers, unless they contain a token."""
        if self._token is None or (headers is not None and AUTHORIZATION in headers):
            return headers
        return {**(headers or {}), **self._token}

    def check_answer(
        self, message: BusMessage, data: bytes, headers: Headers | None = None
    ) -> None:
        """Raise TooLargeError if this answer to the message exceeds the server's limit."""
        self.check_size(data, _marked(message, headers))

    def check_size(self, data: bytes, headers: Headers | None = None) -> None:
        """Raise TooLargeError if the message exceeds the server's limit."""
        size = len(data)
        if headers:
            size += HEADER_OVERHEAD + sum(len(k) + len(v) + 4 for k, v in headers.items())
        if size > self.client.max_payload:
            raise TooLargeError(
                f"The message has {size:,} bytes; the bus carries {self.client.max_payload:,}.",
                remedy="Send it in parts.",
            )


def _marked(message: BusMessage, headers: Headers | None) -> Headers | None:
    """The headers of an answer, which say that it is one if the server hides who gets it."""
    if not message.reply.startswith(subjects.FOREIGN_INBOX):
        return headers
    return {**(headers or {}), ANSWER: "yes"}


@asynccontextmanager
async def connect(
    url: str,
    *,
    name: str,
    request_timeout: float = 10.0,
    patience: float = PATIENCE,
    secret: str = "",
    credentials: Credentials | None = None,
    identity: Identity | None = None,
    by_tenant: bool = False,
    no_echo: bool = False,
) -> AsyncIterator[Connection]:
    """Connect to a NATS server; drain the connection when the context ends.

    Args:
        url: `nats://[user:password@]host:port`; several of one cluster with commas between them.
        name: The client's name in the server's monitoring.
        request_timeout: Seconds that `request` waits by default.
        patience: Seconds to wait for the first connection; reconnects are tried without limit.
        secret: Signs messages on inner subjects; only the stack's own processes know it.
        credentials: The client's credentials; None if the server has no accounts.
        identity: Determines who sent a message; None trusts the envelopes.
        by_tenant: Whether the client is the memory on a server with accounts.
        no_echo: Whether the client does not receive what it publishes itself.

    Raises:
        StackNotRunningError: No server answers at this address.
        ForbiddenError: The server refuses the credentials, or requires some.
    """
    lost = asyncio.Event()
    try:
        async with asyncio.timeout(patience):
            client = await open_client(url, name, lost, credentials, no_echo=no_echo)
    except (RefusedError, OSError, TimeoutError, nats.errors.Error) as error:
        raise connection_error(without_credentials(url), error) from error
    connection = Connection(
        client,
        request_timeout,
        lost,
        secret,
        identity=identity or Claimed(),
        by_tenant=by_tenant,
        token=credentials.token if credentials else None,
    )

    async def close() -> None:
        try:
            await connection.publish_waiting()
        finally:
            await close_client(client)

    try:
        yield connection
    finally:
        await completed(close())


class _TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a message through the server; `type` is `eg` for a delivery (egress)."""

    type: str
    queue: str = ""


class _Trace(msgspec.Struct, frozen=True, kw_only=True):
    events: list[_TraceEvent]


async def has_other_subscribers(bus: Connection, subject: str, queue: str) -> bool:
    """Whether anyone subscribes besides the queue group of this connection's subscription.

    A subscriber that only listens hides the server's "no responders" from callers. This function
    tells it that nobody else would answer, so that it can report that to the caller instead. The
    server traces an empty message without delivering it. Also True if it cannot be determined.
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
        async with asyncio.timeout(TRACE_TIMEOUT):
            data = await traced
        steps = msgspec.json.decode(data, type=_Trace).events
    except (TimeoutError, msgspec.DecodeError):
        return True
    finally:
        await subscription.stop(grace=0)
    return any(step.type == "eg" and step.queue != queue for step in steps)
