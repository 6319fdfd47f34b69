"""Items served by a memory in this process; and a stack in a thread of it, for adapters that wait.

On the stack every test is a user of its own.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from commands import served
from factories import ConnectBus
from local.agents.services import ItemKeeper
from local.bus.connection import Connection
from local.client.items import Items
from local.integrations import langgraph_checkpoint, langgraph_store
from local.integrations.langgraph import LocalSaver, LocalStore
from local.memory.tenant import Memories, Memory
from local.protocol.envelope import Sender, new_id
from stacks import settings_in

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
    with served(settings_in(tmp_path_factory.mktemp("home"))) as stack:
        yield stack.folder


@pytest.fixture
def user() -> str:
    """Somebody of whom nothing is known yet."""
    return f"user-{new_id()}"
