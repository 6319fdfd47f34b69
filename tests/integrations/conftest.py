"""Items served by a memory in this process, and adapters that ask for them over the bus."""

from collections.abc import AsyncIterator

import pytest

from factories import ConnectBus
from local.agents.item_keeper import ItemKeeper
from local.bus.connection import Connection
from local.client.items import Items
from local.integrations import langgraph_checkpoint, langgraph_store
from local.integrations.langgraph import LocalSaver, LocalStore
from local.memory.tenant import Memories, Memory
from local.protocol.envelope import Sender

ADA = Sender(user="ada", agent="langgraph")


@pytest.fixture
async def client(
    bus: Connection, memory: Memory, connect_bus: ConnectBus
) -> AsyncIterator[Connection]:
    """A connection of a client's own, whom the memory serves."""
    async with ItemKeeper(bus, Memories(memory)):
        yield await connect_bus()


@pytest.fixture
async def store(client: Connection) -> AsyncIterator[LocalStore]:
    opened = LocalStore(Items(client, langgraph_store.COLLECTION, ADA))
    yield opened
    await opened.aclose()


@pytest.fixture
async def saver(client: Connection) -> LocalSaver:
    return LocalSaver(Items(client, langgraph_checkpoint.COLLECTION, ADA))
