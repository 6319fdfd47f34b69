"""The composition root: opens everything, wires it together, closes it in the opposite order."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from signal import SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV
from typing import Any

import msgspec
import structlog

from local.agents.housekeeper import Housekeeper, OutputKeeper
from local.agents.listener import Listener
from local.agents.memory_agent import MemoryAgent
from local.agents.porter import Porter
from local.agents.stream_keeper import StreamKeeper
from local.bus.connection import Connection, connect
from local.bus.erasure import StreamErasure
from local.bus.identity import new_secret
from local.bus.lease import Holder, Lease, Serving
from local.bus.participant import Participant
from local.bus.server import EmbeddedServer, embedded_server
from local.bus.tool_host import ToolHost
from local.bus.vector_client import VectorClient
from local.client.tools import Toolbox
from local.errors import FolderLockedError
from local.fair_slots import FairSlots
from local.folder import folder_lock
from local.generator.agent import GeneratorAgent
from local.llm.choice import choose_chat_model
from local.llm.models import ChatModel
from local.memory.changes import Announce
from local.memory.tenant import Memories, Memory, Models
from local.models import open_models
from local.opening import open_ledger
from local.protocol.envelope import DEFAULT_TENANT, encode, seal
from local.protocol.payloads import MemoryChange
from local.runtime import is_alive, runtime_file
from local.settings import Settings
from local.supervisor import Child, supervised
from local.tools.catalog import TOOL_NAMES, memory_tools
from local.vectors.config import EXIT_SOFTWARE, WorkerConfig

VECTOR_WORKER = "local.agents.vector_worker"
CRASHES = (
    EXIT_SOFTWARE,
    *(-number for number in (SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGALRM)),
)
"""How a vector worker ends by a fault of Chroma's or the embedder's own; by SIGALRM if it hangs."""
DEATH_PATIENCE = 10.0
"""Seconds that what is left of a killed stack gets to let go of the data folder."""

log = structlog.get_logger()


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """What runs, for those who started it."""

    bus: Connection
    url: str
    memories: Memories
    model: ChatModel | None
    vector_worker: Child


@asynccontextmanager
async def open_stack(
    settings: Settings,
    *,
    log_folder: Path | None = None,
    with_generator: bool = True,
    with_models: bool = True,
) -> AsyncIterator[Stack]:
    """Start everything, and stop it cleanly when the context ends.

    Args:
        settings: Where data lies, which bus, embedder and model.
        log_folder: Where child processes log; None means standard error.
        with_generator: Without it nobody answers queries.
        with_models: Without them no model but the embedder is opened, as for an offline reindex.

    Raises:
        FolderLockedError: Another stack runs on this data folder.
        BusError: The NATS server did not start, or has no JetStream.
        LeaseHeldError: Another stack serves the bus.
        StorageError: The ledger cannot be opened.
        ModelError: The configured chat model is not there.
    """
    data_dir = settings.memory.data_dir
    async with AsyncExitStack() as resources:
        lock = await resources.enter_async_context(_locked(data_dir))
        server = await _embedded(resources, settings, lock)
        url = server.url if server else str(settings.bus.url)
        bus, lease = await _leased_bus(resources, settings, url, embedded=server is not None)
        vectors = VectorClient(bus, search_timeout=settings.memory.vector_timeout)
        memory = await _memory(resources, settings, bus, vectors, with_models=with_models)
        memories = Memories(memory)
        config = WorkerConfig.of(settings.memory, url, bus.secret, log_folder).to_line()
        worker = await _vector_worker(resources, memory, vectors, config, lock)
        keeper = await resources.enter_async_context(StreamKeeper(bus, server))
        serving = Serving(lease, partial(_participants, bus, memories, keeper))
        await resources.enter_async_context(serving)
        await _in_background(
            resources,
            stream_keeper=keeper.run(),
            lease=serving.keep(),
            backlog=memory.backlog.run(),
            retention=memory.retention.run(),
            backfill=memory.ledger.backfill(),
            accesses=memory.accesses.run(),
            consolidation=memory.consolidation.run(),
        )
        model = await _generator(resources, bus, settings) if with_generator else None
        resources.enter_context(runtime_file(data_dir, url))
        log.info("stack_ready", url=bus.url, data=str(data_dir))
        resources.callback(log.info, "stack_stopping")
        yield Stack(bus=bus, url=url, memories=memories, model=model, vector_worker=worker)


async def _leased_bus(
    resources: AsyncExitStack, settings: Settings, url: str, *, embedded: bool
) -> tuple[Connection, Lease]:
    """Connect to the bus, and take the lease on serving it."""
    timeout = settings.bus.request_timeout
    bus = await resources.enter_async_context(
        connect(url, name="local2", request_timeout=timeout, secret=new_secret())
    )
    lease = Lease(bus, Holder.of(settings.memory.data_dir), in_memory=embedded)
    await lease.take()
    resources.push_async_callback(lease.release)
    return bus, lease


async def _memory(
    resources: AsyncExitStack,
    settings: Settings,
    bus: Connection,
    vectors: VectorClient,
    *,
    with_models: bool,
) -> Memory:
    """Open the ledger and the models, and make the memory of them."""
    ledger = await resources.enter_async_context(open_ledger(settings.memory, DEFAULT_TENANT))
    models = await open_models(resources, settings) if with_models else Models()
    toolbox = await resources.enter_async_context(Toolbox(bus, source="memory"))
    return Memory(
        ledger,
        vectors,
        settings.memory,
        announce=_announcer(bus),
        own_tools=TOOL_NAMES,
        announced=toolbox.get,
        models=models,
        streams=StreamErasure(bus, DEFAULT_TENANT),
    )


async def _vector_worker(
    resources: AsyncExitStack, memory: Memory, vectors: VectorClient, config: bytes, lock: int
) -> Child:
    """Start the vector worker, and tell those who wait for its answers when it ends."""

    def worker_lost(exit_code: int) -> None:
        memory.indexer.worker_lost(crashed=exit_code in CRASHES)
        vectors.worker_lost()

    memory.indexer.worker_starting()
    return await resources.enter_async_context(
        supervised(VECTOR_WORKER, config, inherit=(lock,), ended=worker_lost)
    )


async def _embedded(
    resources: AsyncExitStack, settings: Settings, lock: int
) -> EmbeddedServer | None:
    """Start a NATS server of our own unless there is one."""
    if settings.bus.url is not None:
        return None
    folder = settings.memory.data_dir / "nats"
    return await resources.enter_async_context(
        embedded_server(folder, host=settings.bus.host, port=settings.bus.port, inherit=(lock,))
    )


async def _participants(
    bus: Connection, memories: Memories, keeper: StreamKeeper
) -> list[Participant]:
    """Whatever serves the memory on the bus."""
    slots, memory = FairSlots(), memories.tenant(DEFAULT_TENANT)
    tools = [ToolHost(bus, tool, slots=slots) for tool in memory_tools(memories)]
    housekeeper = Housekeeper(bus, memory, lambda: keeper.problem)
    agents = [
        housekeeper,
        OutputKeeper(bus, memories),
        Listener(bus, memories),
        Porter(bus, memories),
    ]
    timeout = memory.settings.turn_timeout
    memory_agent = await MemoryAgent.open(bus, memories, tenant=memory.tenant, turn_timeout=timeout)
    return [*tools, *agents, memory_agent]


async def _generator(resources: AsyncExitStack, bus: Connection, settings: Settings) -> ChatModel:
    wanted = settings.generator
    model = await choose_chat_model(
        wanted.chat,
        model=wanted.model,
        temperature=wanted.temperature,
        context_size=wanted.context_size,
        ollama_url=wanted.ollama_url,
    )
    resources.push_async_callback(model.close)
    await resources.enter_async_context(GeneratorAgent(bus, model, wanted))
    return model


@asynccontextmanager
async def _locked(data_dir: Path) -> AsyncIterator[int]:
    """Take the folder's lock; children of a killed stack get a moment to die."""
    patience = asyncio.get_running_loop().time() + DEATH_PATIENCE
    with ExitStack() as lock:
        while True:
            try:
                descriptor = lock.enter_context(folder_lock(data_dir))
                break
            except FolderLockedError as error:
                if is_alive(error.holder) or asyncio.get_running_loop().time() > patience:
                    raise
                await asyncio.sleep(0.05)
        yield descriptor


def _announcer(bus: Connection) -> Announce:
    async def announce(subject: str, change: MemoryChange) -> None:
        await bus.publish(subject, encode(seal(change, type="event", source="memory")))

    return announce


async def _in_background(resources: AsyncExitStack, **jobs: Coroutine[Any, Any, None]) -> None:
    for name, job in jobs.items():
        await resources.enter_async_context(_background(job, name))


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run something beside the rest; should it fail, say so at once and raise it at the end."""

    def report(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            log.error("background_task_failed", task=name, exc_info=error)

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(report)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
