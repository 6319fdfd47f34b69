"""Items served by a memory in this process, and a stack in a thread for blocking adapters.

Every test has its own user on the stack.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import local2
from commands import served
from local2.bus.connection import Connection
from local2.integrations.langgraph import LocalSaver, LocalStore
from local2.memory.tenant import Memories, Memory
from local2.protocol.envelope import new_id
from serving import service_host
from stacks import settings_in


@pytest.fixture
async def client(bus: Connection, memory: Memory, nats_url: str) -> AsyncIterator[local2.Memory]:
    """A client of a memory that serves items; the client has no user."""
    async with (
        service_host("item_keeper", bus, Memories(memory)),
        local2.connect(url=nats_url, agent="langgraph") as opened,
    ):
        yield opened


@pytest.fixture
async def store(client: local2.Memory) -> AsyncIterator[LocalStore]:
    opened = LocalStore(client.of(user="ada"))
    yield opened
    await opened.aclose()


@pytest.fixture
async def saver(client: local2.Memory) -> LocalSaver:
    return LocalSaver(client.of(user="ada"))


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a running stack."""
    with served(settings_in(tmp_path_factory.mktemp("home"))) as stack:
        yield stack.folder


@pytest.fixture
def user() -> str:
    """A user about whom nothing is stored yet."""
    return f"user-{new_id()}"
