"""The StreamKeeper says that turns cannot be stored, and restarts no server but the stack's own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from local.agents import stream_keeper
from local.agents.stream_keeper import StreamKeeper
from local.bus.connection import Connection, connect
from local.bus.server import EmbeddedServer
from local.bus.streams import ensure_streams
from waiting import eventually


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_keeper, "PROBE_INTERVAL", 0.02)
    monkeypatch.setattr(stream_keeper, "MAX_PAUSE", 0.02)
    monkeypatch.setattr(stream_keeper, "PROBE_PATIENCE", 0.5)


@asynccontextmanager
async def keeping(bus: Connection, server: EmbeddedServer | None) -> AsyncIterator[StreamKeeper]:
    """A keeper that has heard of a turn, on a server whose stream takes none."""
    async with StreamKeeper(bus, server) as keeper:
        running = asyncio.create_task(keeper.run())
        await bus.publish("response.generation", b"")
        try:
            yield keeper
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def test_of_a_server_of_ones_own_it_says_what_to_do_and_does_not_restart_it(
    server: EmbeddedServer,
) -> None:
    pid = server.pid
    async with connect(server.url, name="test") as bus, keeping(bus, None) as keeper:
        await eventually(lambda: "restart the NATS server" in str(keeper.problem))

        await ensure_streams(bus, "default")
        await eventually(lambda: keeper.problem is None)

    assert server.pid == pid


async def test_the_stacks_own_server_is_restarted(server: EmbeddedServer) -> None:
    pid = server.pid
    async with connect(server.url, name="test") as bus, keeping(bus, server):
        await eventually(lambda: server.pid not in {0, pid})
