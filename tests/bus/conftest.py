"""Fixtures: a tool served on the bus, and a bus with streams."""

from collections.abc import AsyncIterator

import pytest

from local2.bus.connection import Connection, connect
from local2.bus.server import EmbeddedServer
from local2.bus.streams import ensure_streams
from local2.bus.tool_host import ToolHost
from note_tool import Notes


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def host(bus: Connection, notes: Notes) -> AsyncIterator[ToolHost]:
    async with ToolHost(bus, notes.tool()) as running:
        yield running


@pytest.fixture
async def bus_with_streams(server: EmbeddedServer) -> AsyncIterator[Connection]:
    """Connect to a separate server, since streams outlive a test."""
    async with connect(server.url, name="test") as connection:
        await ensure_streams(connection, "default")
        yield connection
