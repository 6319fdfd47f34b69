"""A MemoryAgent that receives its turns."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from local2.agents.memory_agent import MemoryAgent, deliver_turns
from local2.bus.connection import Connection
from local2.memory.tenant import Memories


@asynccontextmanager
async def remembering(
    bus: Connection, memories: Memories, *, turn_timeout: float = 30, is_shared: bool = False
) -> AsyncIterator[MemoryAgent]:
    await deliver_turns(bus, "default", is_shared=is_shared)
    agent = MemoryAgent(bus, memories, turn_timeout=turn_timeout, is_shared=is_shared)
    async with agent:
        yield agent
