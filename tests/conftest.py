"""Shared fixtures: a NATS server, connections to it, a memory over real SQLite and Chroma."""

import asyncio
import gc
import os
import shutil
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
import uvloop
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from calling import RICHARD
from clocks import MovableClock
from factories import ConnectBus, Listen, StartWorker
from local2.bus import connection as bus_connection
from local2.bus.connection import BusMessage, Connection, connect
from local2.bus.server import EmbeddedServer, embedded_server
from local2.bus.tool_host import ToolHost
from local2.bus.vector_client import VectorClient, VectorRequests
from local2.client.tools import Toolbox
from local2.endpoint import clients
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.operations import working_sets
from local2.llm import budget
from local2.logs import logging_to
from local2.memory import facts
from local2.memory.service import MemoryService
from local2.memory.tenant import Memories, Memory, Models
from local2.protocol.memory_tools import TOOL_NAMES
from local2.protocol.payloads import MemoryChange
from local2.settings import MemorySettings
from local2.stack import supervisor
from local2.tools.catalog import memory_tools
from local2.vectors.index import VectorIndex
from local2.vectors.minilm import MiniLM
from nats_servers import nats_server
from stand_ins.ollama_server import OllamaStandIn
from stand_ins.openai_server import OpenAIStandIn
from stand_ins.rerank_server import RerankStandIn
from workers import ForkedWorker, vector_worker, worker_in_this_process
from working import working

if TYPE_CHECKING:
    from postgres_server import PostgresServer

# Examples may be slow on a busy machine; fixtures are kept between examples.
settings.register_profile(
    "explore",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
# The same examples each time: a change fails for what it changes. `--hypothesis-profile explore`
# looks for others.
settings.register_profile("local2", settings.get_profile("explore"), derandomize=True)
settings.load_profile("local2")

# Without bytecode, each of the tests' many processes would compile everything that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Every new client of HTTP would read all certificates, for 30 ms.
ssl.create_default_context = cache(ssl.create_default_context)  # type: ignore[assignment]

# In RAM, where there is room: else the processes wait for one disk, which must sync every file.
RAM = Path("/dev/shm")  # noqa: S108
RAM_NEEDED = 4 * 1024**3
if RAM.is_dir() and os.access(RAM, os.W_OK) and shutil.disk_usage(RAM).free > RAM_NEEDED:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(RAM))

# Imported modules and collected tests stay: the garbage collector need not scan a million objects.
gc.disable()

INTEGRATIONS = Path(__file__).parent / "integrations"
LONGEST = {
    "test_integrations.py",
    "test_http_clients.py",
    "test_memories_page.py",
    "test_conformance.py",
    "test_crash.py",
    "test_faults.py",
}
"""Files that take longest. They come first: else one process would run them after all others."""
TOGETHER = ("tests/web/pages/", "tests/web/")
"""Folders whose files share a stack and a server, which each other process would start again."""


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """A process runs all tests of a file, and one process those of a folder of TOGETHER."""

    def _split_scope(self, nodeid: str) -> str:
        folder = next((name for name in TOGETHER if nodeid.startswith(name)), None)
        return folder or super()._split_scope(nodeid)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", action="store_true", help="Write the pictures of docs/web.md.")


@pytest.hookimpl(optionalhook=True)  # not without processes
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests of the supervisor on the stack's event loop, whose pipes behave differently."""
    is_supervisor = item.path.name == "test_supervisor.py"
    return {"loop": uvloop.new_event_loop if is_supervisor else asyncio.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the adapters' tests to `test_integrations.py`, unless they were asked for."""
    if collection_path != INTEGRATIONS or "PYTEST_XDIST_WORKER" not in os.environ:
        return None
    return not any(INTEGRATIONS.name in word for word in config.args)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Log to this folder, as a running stack does."""
    file = tmp_path_factory.mktemp("logs") / "tests.log"
    with logging_to(file):
        yield file


@pytest.fixture(scope="session")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with JetStream that all tests share; its streams outlive a test."""
    folder = tmp_path_factory.mktemp("nats")
    with nats_server(folder, f'jetstream {{ store_dir: "{folder}" }}') as url:
        yield url


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """A separate server for one test."""
    async with embedded_server(tmp_path / "nats", host="127.0.0.1", port=-1) as running:
        yield running


@pytest.fixture
async def connect_bus(nats_url: str) -> AsyncIterator[ConnectBus]:
    """Open as many connections as a test needs."""
    async with AsyncExitStack() as connections:

        async def connect_one() -> Connection:
            return await connections.enter_async_context(connect(nats_url, name="test"))

        yield connect_one


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a server that is not there for a moment only."""
    monkeypatch.setattr(bus_connection, "PATIENCE", 0.2)


@pytest.fixture
async def bus(connect_bus: ConnectBus) -> Connection:
    return await connect_bus()


@pytest.fixture
async def listen(connect_bus: ConnectBus) -> Listen:
    """Collect the messages of a subject, over a separate connection."""
    subscriber = await connect_bus()

    async def subscribe(subject: str) -> list[BusMessage]:
        messages: list[BusMessage] = []

        async def receive(message: BusMessage) -> None:
            messages.append(message)

        await subscriber.subscribe(subject, receive)
        await subscriber.flush()
        return messages

    return subscribe


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty ledger, which tests copy instead of creating its tables."""
    folder = tmp_path_factory.mktemp("empty-ledger")

    async def create() -> None:
        async with Database.open(folder / "ledger.sqlite3"):
            pass

    asyncio.run(create())
    return folder


@pytest.fixture(scope="session")
def empty_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty vector index, whose tables Chroma need not create again."""
    folder = tmp_path_factory.mktemp("empty-index")
    with VectorIndex.open(folder, "local2.memory"):
        pass
    return folder


@pytest.fixture(scope="session")
def postgres_databases() -> Iterator["PostgresServer"]:
    """A PostgreSQL server, started for the first test that needs one."""
    from postgres_server import postgres_server  # noqa: PLC0415 - few tests need its driver

    with postgres_server() as server:
        yield server


@pytest.fixture
async def database(tmp_path: Path, empty_ledger: Path) -> AsyncIterator[Database]:
    shutil.copytree(empty_ledger, tmp_path, dirs_exist_ok=True)
    async with Database.open(tmp_path / "ledger.sqlite3") as opened:
        yield opened


@pytest.fixture
def announced() -> list[tuple[str, MemoryChange]]:
    """The changes that the memory announced to the bus."""
    return []


@pytest.fixture
async def toolbox(bus: Connection) -> AsyncIterator[Toolbox]:
    """The tools that the memory knows from announcements."""
    async with Toolbox(bus, source="memory") as opened:
        yield opened


@pytest.fixture
def models() -> Models:
    """The models of the memory: none, unless a test overrides this."""
    return Models()


@pytest.fixture
async def memory(
    bus: Connection,
    database: Database,
    toolbox: Toolbox,
    announced: list[tuple[str, MemoryChange]],
    models: Models,
) -> AsyncIterator[Memory]:
    """A memory whose jobs run; it has no vector worker until `start_worker` is called."""

    def announce(subject: str, change: MemoryChange) -> None:
        announced.append((subject, change))

    vectors = VectorClient(VectorRequests(bus, search_timeout=5.0), "default")
    opened = Memory(
        Ledger(database, "default"),
        vectors,
        MemorySettings(),
        announce=announce,
        own_tools=TOOL_NAMES,
        announced=toolbox.get,
        models=models,
    )
    # Writes say that they had no time to look for related facts; on a busy machine, they have none.
    with patch.object(facts, "RELATED_SECONDS", 60.0):
        async with working(opened.backlog):
            yield opened


@pytest.fixture
def richard(memory: Memory) -> MemoryService:
    return memory.of(RICHARD)


@pytest.fixture
async def tools(bus: Connection, memory: Memory) -> AsyncIterator[Memory]:
    """The memory, with its tools on the bus."""
    hosts = [ToolHost(bus, tool) for tool in memory_tools(Memories(memory))]
    async with AsyncExitStack() as opened:
        # Together, their subscriptions are sent in a few writes.
        await asyncio.gather(*(opened.enter_async_context(host) for host in hosts))
        yield memory
        # Draining would double the end of most tests.
        await asyncio.gather(*(host.leave() for host in hosts))


@pytest.fixture(scope="session")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> MiniLM:
    return MiniLM.load(tmp_path_factory.mktemp("models"))


@pytest.fixture
def worker_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run stacks' vector workers in this process: stacks then start in a fraction of a second.

    For tests of everything but that process: its end, its files, its secrets.
    """
    monkeypatch.setattr(supervisor, "supervised", worker_in_this_process)


@pytest.fixture
def worker_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the vector worker, for tests of its end and its replacement but not of its imports."""
    monkeypatch.setattr(supervisor, "ChildProcess", ForkedWorker)


@pytest.fixture
async def start_worker(
    connect_bus: ConnectBus, memory: Memory, embedder: MiniLM, empty_index: Path, tmp_path: Path
) -> AsyncIterator[StartWorker]:
    """Serve `vector.*` from this process, with Chroma in a temporary folder."""
    folder = tmp_path / "chroma"
    async with AsyncExitStack() as workers:

        async def start() -> None:
            if not folder.exists():
                shutil.copytree(empty_index, folder)
            store = await workers.enter_async_context(
                vector_worker(await connect_bus(), embedder, folder)
            )
            memory.indexer.worker_started(store.id)

        yield start


@pytest.fixture
async def searchable(memory: Memory, start_worker: StartWorker) -> Memory:
    """The memory with its vector worker."""
    await start_worker()
    return memory


@pytest.fixture
def by_words(searchable: Memory, database: Database) -> Memory:
    """A memory in which nothing is found by its meaning alone."""
    only_words = MemorySettings(min_score=0.999)
    memory = Memory(
        Ledger(database, "default"), searchable.vectors, only_words, announce=lambda _, __: None
    )
    memory.indexer = searchable.indexer
    memory.recaller._retrieval._indexer = searchable.indexer
    return memory


@pytest.fixture
def ollama() -> Iterator[OllamaStandIn]:
    with OllamaStandIn() as server:
        yield server


@pytest.fixture
def openai() -> Iterator[OpenAIStandIn]:
    with OpenAIStandIn() as server:
        yield server


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask endpoints again without a pause."""
    monkeypatch.setattr(clients, "FIRST_PAUSE", 0.001)


@pytest.fixture
def reranking() -> Iterator[RerankStandIn]:
    with RerankStandIn() as server:
        yield server


@pytest.fixture
def model_clock(monkeypatch: pytest.MonkeyPatch) -> MovableClock:
    """The clock of the budgets and pauses of memories' models that are opened later."""
    clock = MovableClock()
    monkeypatch.setattr(budget, "utc_now", clock)
    return clock


@pytest.fixture(params=["whole", "candidates"])
def either_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test twice: memory searched in full (small), and by candidates (large)."""
    if request.param == "candidates":
        monkeypatch.setattr(working_sets, "MAX_RECORDS", -1)
