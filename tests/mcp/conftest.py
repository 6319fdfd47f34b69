"""An MCP server over the shared bus."""

from collections.abc import AsyncIterator

import pytest

from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.client import stack_tools
from local2.memory.tenant import Memories, Memory
from local2.protocol.memory_tools import READ_TOOL_OUTPUT
from local2.settings import BusSettings, McpSettings, Settings
from local2.tools.catalog import bind
from note_tool import Notes
from serving import service_host


@pytest.fixture(autouse=True)
def patient_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists wait for the stack, however busy the machine is."""
    monkeypatch.setattr(stack_tools, "LIST_SECONDS", 60.0)


@pytest.fixture
def settings(nats_url: str) -> Settings:
    """Settings that name the bus of an existing stack, so that none is started."""
    return Settings(bus=BusSettings(url=nats_url), mcp=McpSettings(user="richard"))


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def output_keeper(bus: Connection, memory: Memory) -> AsyncIterator[None]:
    """A memory that stores and reads long outputs."""
    memories = Memories(memory)
    reading = ToolHost(bus, bind(READ_TOOL_OUTPUT, memories))
    async with service_host("output_keeper", bus, memories), reading:
        yield
