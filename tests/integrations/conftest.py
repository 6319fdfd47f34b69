"""Items served by a memory in this process; and a stack in one of its own, for adapters that wait.

On the stack every test is a user of its own.
"""

import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from commands import Running
from factories import ConnectBus
from local.agents.services import ItemKeeper
from local.bus.connection import Connection
from local.client.items import Items
from local.integrations import langgraph_checkpoint, langgraph_store
from local.integrations.langgraph import LocalSaver, LocalStore
from local.memory.tenant import Memories, Memory
from local.protocol.envelope import Sender, new_id

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


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a stack that runs."""
    folder = tmp_path_factory.mktemp("home")
    running = Running(folder, LOCAL2_MEMORY__EMBEDDER="minilm")
    try:
        yield folder
    finally:
        running.stop(signal.SIGTERM)


@pytest.fixture
def user() -> str:
    """Somebody of whom nothing is known yet."""
    return f"user-{new_id()}"
