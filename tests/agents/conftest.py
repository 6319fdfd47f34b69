"""Fixtures for agents, which create streams on the shared NATS server."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from factories import StartGenerator
from local2.agents.listener import Listener
from local2.agents.memory_agent import MemoryAgent
from local2.bus.connection import Connection, connect
from local2.client.queries import QueryClient
from local2.generator.agent import GeneratorAgent
from local2.llm.ollama import OllamaModel
from local2.memory.tenant import Memories, Memory
from local2.settings import GeneratorSettings
from local2.tools.catalog import memory_tools
from remembering import remembering
from stand_ins.ollama_server import OllamaStandIn
from turns import delete_streams
from waiting import eventually


@pytest.fixture
async def nats_url(nats_url: str) -> AsyncIterator[str]:
    """The shared server; a test's streams are deleted when it ends."""
    yield nats_url
    await delete_streams(nats_url)


@pytest.fixture
async def memory_agent(bus: Connection, memory: Memory) -> AsyncIterator[MemoryAgent]:
    async with remembering(bus, Memories(memory)) as agent:
        yield agent


@pytest.fixture
async def listener(nats_url: str, memory: Memory) -> AsyncIterator[Listener]:
    """A listener on a connection of its own, which the server does not send its own messages."""
    async with (
        connect(nats_url, name="tools", no_echo=True) as tools,
        Listener(tools, Memories(memory)) as running,
    ):
        yield running


@pytest.fixture
async def start(
    bus: Connection, ollama: OllamaStandIn, memory: Memory, memory_agent: MemoryAgent
) -> AsyncIterator[StartGenerator]:
    """Start generator agents.

    Each waits until it knows `tools` tools, by default the memory's, and offers only `only`.
    """
    assert memory_agent, "it creates the stream that turns are published to"
    async with AsyncExitStack() as agents:

        async def start_one(
            *,
            tools: int | None = None,
            only: tuple[str, ...] = (),
            is_shared: bool = False,
            **settings: Any,
        ) -> GeneratorAgent:
            model = await OllamaModel.open(
                "gemma4", temperature=0, context_size=8192, url=ollama.url
            )
            agents.push_async_callback(model.close)
            agent = GeneratorAgent(
                bus,
                model,
                GeneratorSettings(tools=only, **settings),
                is_shared=is_shared,
            )
            await agents.enter_async_context(agent)
            expected = len(memory_tools(Memories(memory))) if tools is None else tools
            await eventually(lambda: len(agent._toolbox.schemas) == expected)
            return agent

        yield start_one


@pytest.fixture
async def client(bus: Connection) -> AsyncIterator[QueryClient]:
    async with QueryClient(bus) as query_client:
        yield query_client
