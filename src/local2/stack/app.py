"""The composition root: open everything, wire it together, close it in reverse order.

`open_stack` is for commands, `open_memory` for programs that use the memory as a library. A stack
has two children, which it restarts whenever they end: nats-server (`bus/server.py`, unless another
one is configured) and the vector worker (`supervisor.py`). Nothing restarts the stack itself but
what runs it: a service manager, or the next client of a stack that clients started.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import structlog

from local2 import telemetry
from local2.admission import Admission
from local2.agents.health import GAUGES, HealthAgent
from local2.agents.listener import Listener
from local2.agents.memory_agent import MemoryAgent, deliver_turns
from local2.agents.services import SERVICES, ServiceHost, ServiceParts
from local2.agents.stream_monitor import StreamMonitor
from local2.background import in_background
from local2.backup.files import with_keys
from local2.backup.service import Backups
from local2.bus.connection import Connection
from local2.bus.participant import Participant
from local2.bus.streams import turns_stored
from local2.bus.tool_host import ToolHost
from local2.bus.vector_client import VectorRequests
from local2.config_files import load_settings
from local2.home import runtime_file
from local2.ledger.records import Quota
from local2.llm.choice import choose_chat_model
from local2.llm.models import ChatModel
from local2.logs import is_configured, logging_to
from local2.memory.tenant import Memories
from local2.protocol.envelope import utc_now
from local2.settings import Settings
from local2.stack.joining import join, lock_data_folder
from local2.stack.ledgers import Ledgers, content_keys
from local2.stack.memory_models import open_models
from local2.stack.serving import Serving
from local2.stack.shared_ledger import AnswerSharing, sharing_ledger
from local2.stack.shared_tools import SharedTools
from local2.stack.supervisor import ChildProcess, start_vector_worker
from local2.stack.tenancy import Parts, Tenancy
from local2.tools.catalog import memory_tools
from local2.vectors.config import WorkerConfig

log = structlog.get_logger()


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """A running stack, as `open_stack` yields it."""

    bus: Connection
    url: str
    memories: Memories
    model: ChatModel | None
    vector_worker: ChildProcess


@asynccontextmanager
async def open_stack(
    settings: Settings,
    *,
    log_folder: Path | None = None,
    with_generator: bool = True,
    with_models: bool = True,
    for_clients: bool = False,
) -> AsyncIterator[Stack]:
    """Start everything, and stop it cleanly when the context ends.

    Args:
        settings: The data folder, bus, embedder and models to use.
        log_folder: The folder that child processes log to; None means standard error.
        with_generator: Whether to answer queries.
        with_models: Whether to open models besides the embedder; an offline reindex needs none.
        for_clients: Whether clients started it; it then stops when a user starts a stack on the
            same folder, and never stops another one.

    Raises:
        ConfigError: The server would listen beyond loopback without accounts, or they are invalid.
        FolderLockedError: Another stack runs on this data folder.
        BusError: The NATS server did not start, or has no JetStream.
        LeaseHeldError: Another stack serves the bus.
        LedgerKeyError: The ledger is encrypted, and its key is missing or wrong.
        StorageError: The ledger cannot be opened.
        ModelError: The configured chat model is not available.
    """
    data_dir = settings.memory.data_dir
    async with AsyncExitStack() as resources:
        locked = lock_data_folder(data_dir, for_clients=for_clients)
        lock = await resources.enter_async_context(locked)
        # Before anything that reports traces or metrics exists.
        tracing = telemetry.tracing("local2", on=settings.telemetry.traces)
        await resources.enter_async_context(tracing)
        resources.enter_context(telemetry.metering(on=settings.telemetry.metrics_port > 0))
        # A database is opened first: its stacks trust each other by what it says. Files are not
        # touched before it is sure that no other stack serves the bus.
        quota = Quota(records=settings.limits.tenant_records, bytes=settings.limits.tenant_bytes)
        ledgers = Ledgers(settings.memory, content_keys(settings), quota)
        await resources.enter_async_context(ledgers)
        database = await ledgers.open_database()
        joined = await join(resources, settings, lock, database.secret if database else None)
        bus, directory = joined.bus, joined.directory
        await ledgers.prepare(joined.tenants)

        # What all tenants share besides: vector client and models.
        chat: ChatModel | None = None
        if with_generator:
            chat = await choose_chat_model(settings.generator)
            resources.push_async_callback(chat.close)
        vectors = VectorRequests(bus, search_timeout=settings.memory.vector_timeout)
        memories = Memories(roles=directory.roles if directory else None)
        await resources.enter_async_context(sharing_ledger(ledgers, memories))
        answers: AnswerSharing | None = None
        if database is not None:
            answers = AnswerSharing(joined.tools, memories)
            await resources.enter_async_context(answers)
        parts = Parts(
            joined=joined,
            settings=settings,
            ledgers=ledgers,
            vectors=vectors,
            chat=chat,
            answers=answers,
            models=await open_models(resources, settings, vectors) if with_models else None,
        )
        tenancy = Tenancy(parts, memories)
        await resources.enter_async_context(tenancy.opened())
        config = WorkerConfig.from_settings(
            settings, joined.url, bus.secret, log_folder, joined.credentials
        )
        for memory in memories:
            if memory.ledger.vectors is not None:  # it keeps them itself, and names who made them
                made_by = (await memory.ledger.vectors.embedders()).serving
                if made_by is not None:
                    config = msgspec.structs.replace(config, recorded_embedder=made_by)
                    break
        worker = await start_vector_worker(
            resources, memories, parts.vectors, config.to_line(), lock
        )

        # All participants are put on the bus, and the background tasks started.
        monitor = StreamMonitor(
            bus,
            joined.server,
            lambda: joined.tenants,
            on_turn=memories.turn_published if parts.is_shared else lambda _tenant: None,
        )
        await resources.enter_async_context(monitor)

        async def wait_for_turns() -> int:
            return await turns_stored(bus, *(memory.tenant for memory in memories))

        key_of = content_keys(settings)
        readable = partial(with_keys, data_dir, key_of)
        backups = Backups(settings.memory, readable, wait_for_turns, utc_now, key_of)
        serving = Serving(
            joined.lease, partial(_make_participants, parts, memories, monitor, backups)
        )
        health = HealthAgent(
            bus, memories, serves=lambda: serving.serves, turns_problem=lambda: monitor.problem
        )
        await resources.enter_async_context(health)
        await resources.enter_async_context(serving)
        await in_background(
            resources, stream_monitor=monitor.run(), lease=serving.run(), backups=backups.run()
        )
        await resources.enter_async_context(tenancy.running())
        await in_background(resources, tenants=tenancy.follow_directory())
        if telemetry.meter is not None:
            await resources.enter_async_context(
                telemetry.meter.serve(settings.telemetry, GAUGES, health.gauges)
            )
        resources.enter_context(runtime_file(data_dir, joined.url, for_clients=for_clients))
        log.info("stack_ready", url=bus.url, data=str(data_dir))
        resources.callback(log.info, "stack_stopping")
        yield Stack(
            bus=bus, url=joined.url, memories=memories, model=parts.chat, vector_worker=worker
        )


@asynccontextmanager
async def open_memory(folder: Path | str = ".") -> AsyncIterator[Memories]:
    """Open or create the memory of a folder; `of(caller)` returns a MemoryService.

    This starts the whole stack except for the generator, so other processes can reach the memory
    over the bus. Settings are read from `config` in the folder. Logs go to `.local2/logs`, unless
    the program has configured structlog itself.

    Raises:
        FolderLockedError: A stack runs on this folder: connect to it (`client.memory.connect`).
        ConfigError: A file in `config/` or an environment override is wrong.
        BusError: The NATS server did not start.
        StorageError: The ledger cannot be opened.
    """
    settings = load_settings(home=Path(folder))
    logs = settings.memory.data_dir / "logs"
    async with AsyncExitStack() as resources:
        if not is_configured():
            resources.enter_context(logging_to(logs / "library.log"))
        stack = await resources.enter_async_context(
            open_stack(settings, log_folder=logs, with_generator=False)
        )
        yield stack.memories


async def _make_participants(
    parts: Parts, memories: Memories, monitor: StreamMonitor, backups: Backups
) -> list[Participant]:
    """Make the participants that serve the memory on the bus, while the lease is held.

    If the ledger is shared, other stacks' participants share the requests with them. The generators
    are not among them: `Tenancy` starts one for each tenant.
    """
    bus, directory = parts.joined.bus, parts.joined.directory
    admission = Admission(parts.settings.limits)
    tools = [
        ToolHost(parts.joined.tools, tool, admission=admission, is_shared=parts.is_shared)
        for tool in memory_tools(memories)
    ]
    for memory in memories:
        await deliver_turns(bus, memory.tenant, is_shared=parts.is_shared)
    sharing = [SharedTools(bus, directory.shares)] if directory else []
    service_parts = ServiceParts(
        bus=bus,
        memories=memories,
        backups=backups,
        admission=admission,
        turns_problem=lambda: monitor.problem,
        limits=parts.settings.limits,
        directory=directory,
    )
    return [
        *tools,
        *sharing,
        *(ServiceHost(group, service_parts) for group in SERVICES),
        Listener(parts.joined.tools, memories),
        MemoryAgent(
            bus,
            memories,
            turn_timeout=parts.settings.memory.turn_timeout,
            is_shared=parts.is_shared,
        ),
    ]
