"""The StreamMonitor reports that turns cannot be stored; it restarts only the stack's server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from local2.agents import stream_monitor
from local2.agents.stream_monitor import StreamMonitor
from local2.bus.connection import BusMessage, Connection, connect
from local2.bus.server import EmbeddedServer
from local2.bus.streams import ensure_streams
from local2.protocol.envelope import decode
from local2.protocol.payloads import Empty
from nats_servers import nats_server
from waiting import eventually


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_monitor, "PROBE_INTERVAL", 0.02)
    monkeypatch.setattr(stream_monitor, "MAX_PAUSE", 0.02)
    monkeypatch.setattr(stream_monitor, "PROBE_PATIENCE", 0.5)


@asynccontextmanager
async def monitor_of(
    bus: Connection, server: EmbeddedServer | None
) -> AsyncIterator[StreamMonitor]:
    """Run a monitor that has received a turn, on a server without a stream for it."""
    async with StreamMonitor(bus, server) as monitor:
        running = asyncio.create_task(monitor.run())
        await bus.publish("response.generation", b"")
        try:
            yield monitor
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def test_an_external_server_is_not_restarted_but_a_remedy_is_reported(
    server: EmbeddedServer,
) -> None:
    pid = server.pid
    async with connect(server.url, name="test") as bus, monitor_of(bus, None) as monitor:
        await eventually(lambda: "restart the NATS server" in str(monitor.problem))

        await ensure_streams(bus, "default")
        await eventually(lambda: monitor.problem is None)

    assert server.pid == pid


async def test_a_probe_is_an_envelope_like_every_message(server: EmbeddedServer) -> None:
    probes: list[bytes] = []

    async def receive(message: BusMessage) -> None:
        probes.append(message.data)

    async with connect(server.url, name="test") as bus:
        await ensure_streams(bus, "default")
        await bus.subscribe("memory.probe", receive)
        async with monitor_of(bus, None):
            await eventually(lambda: len(probes) > 0)

    assert decode(probes[0], Empty).type == "probe"


async def test_a_cluster_that_elects_its_leader_is_given_time_before_its_disks_are_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two servers never leads JetStream."""
    lines = (
        'server_name: "alone"',
        f'jetstream {{ store_dir: "{tmp_path}" }}',
        'cluster { name: "test", listen: "127.0.0.1:-1", routes: ["nats://127.0.0.1:1"] }',
    )
    with nats_server(tmp_path, *lines) as url:
        async with connect(url, name="test") as bus, monitor_of(bus, None) as monitor:
            await eventually(lambda: "elect a leader" in str(monitor.problem))

            monkeypatch.setattr(stream_monitor, "ELECTION_TIMEOUT", 0.0)
            await eventually(lambda: "Restart those whose disks were full" in str(monitor.problem))


async def test_the_stacks_own_server_is_restarted(server: EmbeddedServer) -> None:
    pid = server.pid
    async with connect(server.url, name="test") as bus, monitor_of(bus, server):
        await eventually(lambda: server.pid not in {0, pid})
