"""A tool on the bus, for tests that ask it."""

from collections.abc import AsyncIterator

import pytest

from local.bus.connection import Connection
from local.bus.tool_host import ToolHost
from note_tool import Notes


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def host(bus: Connection, notes: Notes) -> AsyncIterator[ToolHost]:
    async with ToolHost(bus, notes.tool()) as running:
        yield running
