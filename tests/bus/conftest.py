"""Fixtures: a tool served on the bus, and a bus with streams."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from local2.bus import connection
from local2.bus.connection import BusMessage, Connection, connect
from local2.bus.server import EmbeddedServer
from local2.bus.streams import ensure_streams
from local2.bus.tool_host import ToolHost
from local2.errors import NoRespondersError
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


@pytest.fixture
def refused(bus: Connection, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once nobody serves a request of `bus`, which is patient for longer than a test takes."""
    monkeypatch.setattr(connection, "INTERRUPTION", 60.0)
    request, refused = bus.request, asyncio.Event()

    async def noting(*args: Any, **options: Any) -> BusMessage:
        try:
            return await request(*args, **options)
        except NoRespondersError:
            refused.set()
            raise

    monkeypatch.setattr(bus, "request", noting)
    return refused
