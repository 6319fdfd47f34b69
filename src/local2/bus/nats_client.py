"""A client based on nats-py that never stops reconnecting, tolerates bad input, and carries traces.

Any of its methods may be cancelled: nats-py loses cancellations while it sends, and stops reading
for good when a ping is answered whose sender has been cancelled or has lost patience.

The server forwards any bytes as headers, subject or reply. If they are not UTF-8, nats-py stops
reading from its connection for good, and pending requests get no error.

The W3C header `traceparent` carries a trace through requests and through JetStream. Which client
is made decides whether it does, so messages cost nothing extra while traces are off.
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import nats.errors
from nats.aio.client import DEFAULT_PING_INTERVAL, PING_PROTO, Client
from nats.aio.msg import Msg

from local2 import telemetry
from local2.background import cancellation_kept, completed, give_up
from local2.bus.receiving import message_attributes
from local2.errors import BusError, ForbiddenError, StackNotRunningError
from local2.logs import get_logger
from local2.tenants.credentials import Credentials

if TYPE_CHECKING:
    from local2.telemetry.spans import Tracer

REQUEST_INFO = b"Nats-Request-Info"
"""The header in which the server names the sender. If a client's headers are unterminated, it ends
up in their last line. So headers that contain the name twice are not trusted."""

TRACE_OVERHEAD = 256
"""Maximum bytes that `traceparent` adds to a message. A message without that much room is not
traced, because the server closes the connection of a client that sends too much."""
TOOL_REQUEST_PREFIX = "tool.request."
MESSAGES_BEFORE_YIELD = 32
"""Messages received before other tasks get their turn: one read may contain a thousand small
messages, and each is handled."""
SERVER_SUBJECT_PREFIX = "$"
"""First character of subjects that nats-server itself answers, such as `$JS.API`."""
PING_INTERVAL = 1.0
"""Seconds between two pings where there are several servers. One that has gone silent, because its
machine or the network failed, counts as lost after three intervals; what it has received from a
client may be lost too. A server that is the only one is given longer: it may just be busy."""
RECONNECT_WAIT = 0.25
"""Seconds between two attempts to reconnect: a restarted server is found before requests fail."""
NOT_PERMITTED = (
    "All else works. If the accounts in the server's configuration are of an earlier local2, "
    "replace them with what `local2 tenants server-config` prints."
)
DRAIN_TIMEOUT = 10
"""Seconds for a closing connection to send buffered messages; the server may hang."""

log = get_logger()


class TolerantClient(Client):
    """A client that survives unreadable messages, floods, and a close while it reconnects.

    It reads as many headers of a message as it can, and drops a message with an unreadable subject.
    During a flood it yields to other tasks. Once closed, it stays closed: nats-py would reconnect
    forever, because `wait_for` of Python 3.11 loses the cancellation of a failing attempt.
    """

    closed_for_good = False
    """Whether its owner has closed it; nats-py also closes itself between attempts to connect."""
    _received = 0
    _write_due = False
    """Whether what is pending is about to be written."""

    def __init__(self) -> None:
        super().__init__()
        self._asking: list[asyncio.Future[Any]] = []
        """What is done when the server answers the next ping."""

    async def close(self) -> None:
        self.closed_for_good = True
        await super().close()

    async def drain(self) -> None:
        self.closed_for_good = True
        await super().drain()

    async def _close(self, *args: Any) -> None:
        try:
            await super()._close(*args)
        except asyncio.CancelledError:
            # Closing cancels a reconnection; asyncio cancels with it the future of the socket's
            # end, which both await.
            if asyncio.current_task().cancelling():  # type: ignore[union-attr] # runs in a task
                raise

    async def _select_next_server(self) -> None:
        # The lost one comes last: a server that is silent costs the timeout of a connection.
        self._server_pool.sort(key=lambda server: server is self._current_server)
        await super()._select_next_server()

    async def _connect_to_server(self, *server: Any) -> None:
        if self._transport is not None:  # nats-py would drop a rejected attempt's socket unclosed
            self._transport.close()  # type: ignore[no-untyped-call]
        if not self.closed_for_good:
            await super()._connect_to_server(*server)
        if self.closed_for_good:
            if self._transport is not None:
                self._transport.close()  # type: ignore[no-untyped-call]
            raise asyncio.CancelledError

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        """Ask for an answer that comes once the server has all that was sent before.

        Whoever asks in one turn of the loop shares a ping: hundreds of subscriptions end together.
        nats-py's own ping would overtake what is pending.
        """
        self._asking.append(future or asyncio.Future())
        self._write_soon()

    async def _flush_pending(self, force_flush: bool = False) -> None:
        if self.is_closed:  # closing must not end halfway
            await super()._flush_pending(force_flush)
        elif force_flush or not self.is_connected:
            with cancellation_kept():
                await super()._flush_pending(force_flush)
        else:
            self._write_soon()

    def _write_soon(self) -> None:
        if not self._write_due:
            self._write_due = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        """Write what is pending at once: nats-py's flusher would take a turn of the loop and 10 µs.

        While the socket takes no more, that is left to the flusher, which waits for it.
        """
        self._write_due = False
        socket: asyncio.Transport = self._transport._io_writer.transport  # type: ignore[union-attr] # noqa: SLF001
        if not self.is_connected or socket.is_closing():  # it is kept for the next connection
            return
        if self._asking:
            pong: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            pong.add_done_callback(partial(_answer, self._asking))
            self._pongs.append(pong)
            self._pending.append(PING_PROTO)
            self._pending_data_size += len(PING_PROTO)
            self._asking = []
        if socket.get_write_buffer_size():
            queue = self._flush_queue
            if queue is not None and queue.empty():  # one turn of the flusher writes everything
                queue.put_nowait(asyncio.Future())
        elif self._pending:
            socket.writelines(self._pending)
            self._pending, self._pending_data_size = [], 0

    async def flush(self, *args: Any, **kwargs: Any) -> None:
        with cancellation_kept():
            await super().flush(*args, **kwargs)

    async def request(self, *args: Any, **kwargs: Any) -> Msg:
        with cancellation_kept():
            return await super().request(*args, **kwargs)

    async def _process_msg(self, *message: Any) -> None:
        self._pings_outstanding = 0  # the server lives: in a flood, its pongs are late
        await super()._process_msg(*message)
        self._received += 1
        if self._received % MESSAGES_BEFORE_YIELD == 0:
            await asyncio.sleep(0)

    async def _process_headers(self, headers: bytes | None) -> dict[str, str] | None:
        if headers and headers.count(REQUEST_INFO) > 1:
            log.warning("headers_not_read", reason="They name the sender twice.")
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


def _answer(asking: Iterable[asyncio.Future[Any]], _: object) -> None:
    for future in asking:
        if not future.done():  # whoever waited may have been cancelled, or have lost patience
            future.set_result(True)


class _TracedClient(TolerantClient):
    """Adds `traceparent` to messages, and makes a span for each request and JetStream publish."""

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
        trace_headers = self._spans.trace_headers()
        size = len(payload) + sum(len(k) + len(v) + 4 for k, v in (headers or {}).items())
        if trace_headers and size + TRACE_OVERHEAD <= self.max_payload:
            headers = {**(headers or {}), **trace_headers}
        await super().publish(subject, payload, reply, headers)

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,  # noqa: ASYNC109 - as in nats-py
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        if subject.startswith(SERVER_SUBJECT_PREFIX):
            return await super().request(subject, payload, timeout, old_style, headers)
        name = f"request {subject}"
        attributes = message_attributes(subject, "send")
        if subject.startswith(TOOL_REQUEST_PREFIX):
            tool = subject.removeprefix(TOOL_REQUEST_PREFIX)
            name = f"execute_tool {tool}"
            attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
        with self._spans.request_span(name, attributes):
            return await super().request(subject, payload, timeout, old_style, headers)


class RefusedError(Exception):
    """The server refuses the client."""


class _ConnectionState:
    """The state that nats-py reports; `refused` is done once the server refuses the client."""

    def __init__(self, name: str, lost: asyncio.Event) -> None:
        self._name = name
        self._lost = lost
        self._last = ""
        self.refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def failed(self, error: Exception) -> None:
        problem = str(error).lower()
        if "authorization violation" in problem and not self.refused.done():
            self.refused.set_result(str(error))
        if repr(error) != self._last:  # a server that is down causes many equal errors
            self._last = repr(error)
            hint = {"remedy": NOT_PERMITTED} if "permissions violation" in problem else {}
            log.warning("bus_error", error=self._last, connection=self._name, **hint)

    async def disconnected(self) -> None:
        self._lost.set()

    async def reconnected(self) -> None:
        self._last = ""
        self._lost.clear()
        log.info("bus_reconnected", connection=self._name)


async def open_client(
    url: str,
    name: str,
    lost: asyncio.Event,
    credentials: Credentials | None,
    *,
    no_echo: bool = False,
) -> Client:
    """Connect, and keep reconnecting; `lost` is set while the server is unreachable.

    With `no_echo`, the client does not receive what it publishes itself.

    Raises:
        RefusedError: The server refuses the client.
    """
    tracer, state = telemetry.tracer, _ConnectionState(name, lost)
    client = TolerantClient() if tracer is None else _TracedClient(tracer)
    identity: dict[str, Any] = {}
    if credentials:
        identity = {"nkeys_seed_str": credentials.seed, "inbox_prefix": credentials.inbox}
    servers = url.split(",")
    ping_interval = PING_INTERVAL if len(servers) > 1 else DEFAULT_PING_INTERVAL
    opening = asyncio.create_task(
        client.connect(
            servers,
            name=name,
            error_cb=state.failed,
            disconnected_cb=state.disconnected,
            reconnected_cb=state.reconnected,
            max_reconnect_attempts=-1,
            ping_interval=ping_interval,  # type: ignore[arg-type] # only slept for
            reconnect_time_wait=RECONNECT_WAIT,  # type: ignore[arg-type] # only slept for
            drain_timeout=DRAIN_TIMEOUT,
            no_echo=no_echo,
            **identity,
        )
    )
    try:
        await asyncio.wait((opening, state.refused), return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            opening.result()
            return client
    except BaseException:
        await completed(_abandon(client, opening))
        raise
    await completed(_abandon(client, opening))
    raise RefusedError(state.refused.result())


async def _abandon(client: TolerantClient, opening: asyncio.Task[None]) -> None:
    """Cancel the attempt to connect; close the client if it has connected anyway."""
    client.closed_for_good = True
    await give_up(opening)
    if client.is_connecting or client.is_connected or client.is_reconnecting:
        await client.close()  # raises for a client that never began to connect


async def close_client(client: Client) -> None:
    """Send buffered messages, and disconnect."""
    for end in (client.drain, client.close):
        if client.is_closed:
            return
        try:
            await end()
        except (nats.errors.Error, TimeoutError, OSError, RuntimeError, TypeError) as error:
            # The server stopped first: uvloop raises RuntimeError, asyncio of 3.13 TypeError.
            log.warning("bus_not_drained", error=repr(error))


def connection_error(url: str, error: Exception) -> BusError | ForbiddenError:
    """Explain a failed `open_client`; `url` must not contain a password."""
    if isinstance(error, RefusedError):
        return ForbiddenError(
            f"The NATS server at {url} refuses the connection: {error}.",
            remedy="Identify yourself with `--tenant NAME`, or with a credentials file in "
            "LOCAL2_BUS__CREDENTIALS; `local2 tenants list` shows who may connect.",
        )
    return StackNotRunningError(
        f"No NATS server answers at {url}.",
        remedy="Start the stack with `local2 up`, or correct `url` in config/bus.yaml. "
        "The URL must contain the user and the password if the server requires them.",
    )
