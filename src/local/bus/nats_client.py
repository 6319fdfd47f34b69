"""nats-py's client: it reconnects without end, survives what it cannot read, and carries traces.

The server passes on any bytes as headers, subject or reply. Where they are not UTF-8, nats-py stops
reading from its connection for good, and reports nothing to those who wait.

Traces and metrics wrap both ends when these are made, so a message costs nothing extra where they
are off. A trace is carried by the header `traceparent` of W3C, through requests and through
JetStream.
"""

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any

import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg

from local import telemetry
from local.bus.receiving import BusMessage, Handler
from local.errors import BusError, ForbiddenError, StackNotRunningError
from local.tenants.credentials import Credentials

if TYPE_CHECKING:
    from local.telemetry.instruments import Meter
    from local.telemetry.spans import Attributes, Tracer

REQUEST_INFO = b"Nats-Request-Info"
"""The server appends it to headers without an end: it then gets into the last line, behind a header
of the sender's. Headers that have the name twice are not believed."""

TRACE_ROOM = 256
"""The most bytes of `traceparent` and the protocol around headers. A message without so much room
goes untraced: the server closes the connection of a client that sends too much."""
TOOL_REQUEST = "tool.request."
MESSAGES_A_TURN = 32
"""Messages received before the rest of the loop has its turn: a read may hold a thousand small
ones, and each becomes a task."""
OF_THE_SERVER = "$"
"""The beginning of subjects that nats-server itself answers, such as `$JS.API`."""
RECONNECT_WAIT = 0.25
"""Seconds between two attempts to reconnect: long enough to leave the processor alone, short enough
that a restarted server is found before a request times out."""
DRAIN_TIMEOUT = 10
"""Seconds for a closing connection to send what it still holds; more would delay a stop when the
server hangs."""

log = structlog.get_logger()


class TolerantClient(Client):
    """Reads what is readable of a message's headers, and drops a message of an unreadable subject.

    A flood does not keep the loop from its other work, either: nats-py would read on. And a closed
    client stays closed: nats-py reconnects for ever if an attempt fails while it is cancelled, as
    `wait_for` of Python 3.11 loses the cancellation.
    """

    ended = False
    """Whether it was closed from outside. nats-py also closes itself, to try again."""
    _received = 0

    async def close(self) -> None:
        self.ended = True
        await super().close()

    async def drain(self) -> None:
        self.ended = True
        await super().drain()

    async def _connect_to_server(self, *server: Any) -> None:
        if not self.ended:
            await super()._connect_to_server(*server)
        if self.ended:
            if self._transport is not None:
                self._transport.close()  # type: ignore[no-untyped-call]
            raise asyncio.CancelledError

    async def _process_msg(self, *message: Any) -> None:
        await super()._process_msg(*message)
        self._received += 1
        if self._received % MESSAGES_A_TURN == 0:
            await asyncio.sleep(0)

    async def _process_headers(self, headers: bytes | None) -> dict[str, str] | None:
        if headers and headers.count(REQUEST_INFO) > 1:
            log.warning("headers_not_read", reason="They say twice who asks.")
            return None
        try:
            read: dict[str, str] | None = await super()._process_headers(headers)
        except (UnicodeDecodeError, IndexError) as error:
            log.warning("headers_not_read", reason=type(error).__name__)
            _, _, lines = (headers or b"").partition(b"\r\n")
            return self._parse_header_lines(lines) or None
        return read

    def _build_message(self, sid: int, subject: bytes, reply: bytes, *rest: Any) -> Msg | None:
        try:
            message: Msg = super()._build_message(sid, subject, reply, *rest)
        except UnicodeDecodeError:
            log.warning("message_dropped", reason="Its subject or its reply is not UTF-8.")
            return None
        return message


def new_client() -> TolerantClient:
    """Return a client of NATS, which carries traces if these are on."""
    return TolerantClient() if telemetry.tracer is None else _TracedClient(telemetry.tracer)


def observed(participant: str, subject: str, handler: Handler) -> Handler:
    """Return a participant's handler, traced and measured where that is on."""
    if telemetry.meter is not None:
        handler = _measured(telemetry.meter, (participant, subject), handler)
    if telemetry.tracer is not None:
        handler = _traced(telemetry.tracer, subject, handler)
    return handler


class _TracedClient(TolerantClient):
    """Adds the header, and makes a span for each request; publishing to JetStream is one, too."""

    def __init__(self, tracer: "Tracer") -> None:
        super().__init__()
        self._spans = tracer

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        reply: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        carried = self._spans.carried()
        if carried and self._has_room(payload, headers):
            headers = {**(headers or {}), **carried}
        await super().publish(subject, payload, reply, headers)

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,  # noqa: ASYNC109 - as in nats-py
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        if subject.startswith(OF_THE_SERVER):
            return await super().request(subject, payload, timeout, old_style, headers)
        with self._spans.requested(*_request_of(subject)):
            return await super().request(subject, payload, timeout, old_style, headers)

    def _has_room(self, payload: bytes, headers: dict[str, str] | None) -> bool:
        size = len(payload) + sum(len(k) + len(v) + 4 for k, v in (headers or {}).items())
        return size + TRACE_ROOM <= self.max_payload


def _request_of(subject: str) -> "tuple[str, Attributes]":
    """Return the name and the attributes of a span for a request."""
    about = _about(subject, "send")
    if not subject.startswith(TOOL_REQUEST):
        return f"request {subject}", about
    tool = subject.removeprefix(TOOL_REQUEST)
    about |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    return f"execute_tool {tool}", about


def _about(subject: str, operation: str) -> dict[str, str]:
    return {
        "messaging.system": "nats",
        "messaging.operation.type": operation,
        "messaging.destination.name": subject,
    }


def _traced(tracer: "Tracer", subject: str, handler: Handler) -> Handler:
    name, about = f"process {subject}", _about(subject, "process")

    async def trace(message: BusMessage) -> None:
        with tracer.received(name, about, message.headers):
            await handler(message)

    return trace


def _measured(meter: "Meter", labels: tuple[str, str], handler: Handler) -> Handler:
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


class RefusedError(Exception):
    """The server refuses the client."""


class _State:
    """A connection's state by nats-py; `refused` is done once the server refuses it."""

    def __init__(self, name: str, lost: asyncio.Event) -> None:
        self._name = name
        self._lost = lost
        self._last = ""
        self.refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def failed(self, error: Exception) -> None:
        if "authorization violation" in str(error).lower() and not self.refused.done():
            self.refused.set_result(str(error))
        if repr(error) != self._last:  # while the server is down, every attempt reports the same
            self._last = repr(error)
            log.warning("bus_error", error=self._last, connection=self._name)

    async def disconnected(self) -> None:
        self._lost.set()

    async def reconnected(self) -> None:
        self._last = ""
        self._lost.clear()
        log.info("bus_reconnected", connection=self._name)


async def open_client(
    url: str, name: str, lost: asyncio.Event, credentials: Credentials | None
) -> Client:
    """Connect, and reconnect without end; `lost` is set while there is no server.

    Raises:
        RefusedError: The server refuses the client.
    """
    client, state = new_client(), _State(name, lost)
    who: dict[str, Any] = {}
    if credentials:
        who = {"nkeys_seed_str": credentials.seed, "inbox_prefix": credentials.inbox}
    opening = asyncio.create_task(
        client.connect(
            url,
            name=name,
            error_cb=state.failed,
            disconnected_cb=state.disconnected,
            reconnected_cb=state.reconnected,
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT_WAIT,  # type: ignore[arg-type] # it sleeps so long
            drain_timeout=DRAIN_TIMEOUT,
            **who,
        )
    )
    try:
        await asyncio.wait((opening, state.refused), return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            opening.result()
            return client
    except BaseException:
        await _give_up(client, opening)
        raise
    await _give_up(client, opening)
    raise RefusedError(state.refused.result())


async def _give_up(client: TolerantClient, opening: asyncio.Task[None]) -> None:
    """Close a client that may have connected all the same."""
    client.ended = True
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    if client.is_connecting or client.is_connected or client.is_reconnecting:
        await client.close()  # it would raise before it began to connect


async def close_client(client: Client) -> None:
    """Send what is still buffered, and disconnect."""
    for end in (client.drain, client.close):
        if client.is_closed:
            return
        try:
            await end()
        except (nats.errors.Error, TimeoutError, OSError, RuntimeError, TypeError) as error:
            # The server stopped first. A closed transport raises RuntimeError (uvloop) or TypeError
            # (asyncio of Python 3.13) when the client writes what it has not sent yet.
            log.warning("bus_not_drained", error=repr(error))


def not_connected(url: str, error: Exception) -> BusError | ForbiddenError:
    """Return the error of a failed `open_client`; the address is without a password."""
    if isinstance(error, RefusedError):
        return ForbiddenError(
            f"The NATS server at {url} refuses to be connected to: {error}.",
            remedy="Say who you are with `--tenant NAME`, or name a file of credentials in "
            "LOCAL2_BUS__CREDENTIALS; `local2 tenants list` shows who may connect.",
        )
    return StackNotRunningError(
        f"No NATS server answers at {url}.",
        remedy="Start the stack with `local2 up`, or correct `url` in config/bus.yaml. "
        "It holds the user and the password, too, if the server asks for them.",
    )
