"""Agents get a NATS server of their own, since what is in its streams outlives a test."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from local.agents.memory_agent import MemoryAgent
from local.bus.connection import Connection
from local.bus.server import embedded_server
from local.bus.tool_host import ToolHost
from local.memory.service import Memory
from local.tools.catalog import memory_tools


@pytest.fixture
async def nats_url(tmp_path: Path) -> AsyncIterator[str]:
    async with embedded_server(tmp_path / "nats", host="127.0.0.1", port=-1) as server:
        yield server.url


@pytest.fixture
async def memory_agent(bus: Connection, memory: Memory) -> AsyncIterator[MemoryAgent]:
    async with await MemoryAgent.open(bus, memory) as agent:
        yield agent


@pytest.fixture
async def tools(bus: Connection, memory: Memory) -> AsyncIterator[None]:
    async with AsyncExitStack() as hosts:
        for tool in memory_tools(memory):
            await hosts.enter_async_context(ToolHost(bus, tool))
        yield
