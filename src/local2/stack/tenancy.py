"""Open, serve and close the tenants of a running stack.

Without accounts there is one tenant. With accounts, the directory lists the tenants, and
`follow_directory` applies its changes while the stack runs.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import msgspec
import structlog

from local2.admission import FairSlots
from local2.agents.memory_agent import NAME as MEMORY_AGENT
from local2.agents.memory_agent import catch_up, deliver_turns
from local2.background import in_background, together
from local2.bus.attested import Attested
from local2.bus.connection import connect
from local2.bus.stream_erasure import StreamErasure
from local2.bus.streams import count_undelivered
from local2.bus.vector_client import VectorClient, VectorRequests
from local2.client.tools import Toolbox
from local2.errors import Local2Error
from local2.generator.agent import GeneratorAgent
from local2.llm.models import ChatModel
from local2.memory.intake.waiting_turns import WaitingTurns
from local2.memory.recall.recaller import SEARCH_LIMITS, SHARED_SEARCH_LIMITS
from local2.memory.tenant import Memories, Memory
from local2.protocol.envelope import encode, seal
from local2.protocol.memory_tools import TOOL_NAMES
from local2.protocol.payloads import MemoryChange
from local2.settings import Settings
from local2.stack.joining import Joined
from local2.stack.ledgers import Ledgers
from local2.stack.memory_models import SharedModels
from local2.stack.shared_ledger import AnswerSharing
from local2.tenants.credentials import GENERATOR, read_credentials

CHECK_INTERVAL = 0.5
"""Seconds between two checks of the directory's file."""
RETRY_DELAY = 3.0
"""Seconds before what failed is tried again: a change of the tenants, or opening one."""

log = structlog.get_logger()


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What all tenants share.

    `chat` is None if the stack does not answer queries, `models` if it is started without any.
    `answers` is None if no other stack shares the ledger.
    """

    joined: Joined
    settings: Settings
    ledgers: Ledgers
    vectors: VectorRequests
    models: SharedModels | None
    chat: ChatModel | None
    answers: AnswerSharing | None

    @property
    def is_shared(self) -> bool:
        """Whether other stacks may serve the same memory."""
        return self.ledgers.shared is not None


class Tenancy:
    """The tenants of one stack: opened, then running, then closed in reverse order."""

    def __init__(self, parts: Parts, memories: Memories) -> None:
        self._parts = parts
        self._memories = memories
        alone = parts.joined.directory is None
        self._searches = FairSlots(SEARCH_LIMITS if alone else SHARED_SEARCH_LIMITS)
        self._opened: dict[str, AsyncExitStack] = {}
        self._running: dict[str, AsyncExitStack] = {}
        self._not_before: dict[str, float] = {}

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep every tenant's memory open while the context lasts."""
        try:
            for tenant in self._parts.joined.tenants:
                await self._open_memory(tenant)
            yield
        finally:
            closing = [
                await _close(tenant, self._opened.pop(tenant))
                for tenant in reversed(list(self._opened))
            ]
            _raise_first(closing)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the tenants' jobs and generators while the context lasts; enter once tools serve."""
        try:
            await together(self._start_work(memory) for memory in self._memories)
            yield
        finally:
            ending = [_close(tenant, self._running.pop(tenant)) for tenant in list(self._running)]
            _raise_first(await asyncio.gather(*ending))

    async def follow_directory(self) -> None:
        """Open and close tenants when the directory's file changes, until cancelled."""
        joined = self._parts.joined
        if joined.directory is None:
            return
        changed = False
        while True:
            await asyncio.sleep(RETRY_DELAY if changed else CHECK_INTERVAL)
            try:
                changed |= await asyncio.to_thread(joined.directory.reload_if_changed)
                if changed:
                    if joined.server is not None:
                        await joined.server.reload()
                    for tenant in set(self._opened) - set(joined.tenants):
                        self._memories.remove(tenant)
                        await _close(tenant, self._running.pop(tenant))
                        await _close(tenant, self._opened.pop(tenant))
                        log.info("tenant_closed", tenant=tenant)
                    changed = False
                now = asyncio.get_running_loop().time()
                for tenant in set(joined.tenants) - set(self._running):
                    if self._not_before.get(tenant, now) <= now:
                        await self._add_tenant(tenant)
            except (Local2Error, OSError) as error:  # the previous entries stay in force
                log.error("tenants_not_changed", reason=str(error))  # noqa: TRY400

    async def _add_tenant(self, tenant: str) -> None:
        """Open and start a tenant; if that fails, schedule a retry, and do not delay the others.

        A retry helps, because an external server may get the tenant's account later.
        """
        try:
            memory = await self._open_memory(tenant)
            await deliver_turns(self._parts.joined.bus, tenant, is_shared=self._parts.is_shared)
            await self._start_work(memory)
        except Local2Error as error:
            log.error("tenant_not_opened", tenant=tenant, reason=str(error))  # noqa: TRY400
            self._not_before[tenant] = asyncio.get_running_loop().time() + RETRY_DELAY
            self._memories.remove(tenant)
            if tenant in self._opened:
                await _close(tenant, self._opened.pop(tenant))
        else:
            log.info("tenant_opened", tenant=tenant)

    async def _open_memory(self, tenant: str) -> Memory:
        parts = self._parts

        def announce(subject: str, change: MemoryChange) -> None:
            # Whoever changed the memory does not wait for it.
            parts.joined.tools.publish_soon(
                subject,
                lambda: encode(seal(change, type="event", source="memory")),
                tenant=tenant,
            )

        async with AsyncExitStack() as resources:
            ledger = await resources.enter_async_context(parts.ledgers.open(tenant))
            toolbox = Toolbox(parts.joined.bus, source="memory", tenant=tenant)
            await resources.enter_async_context(toolbox)
            memory = Memory(
                ledger,
                VectorClient(parts.vectors, tenant),
                parts.settings.memory,
                announce=announce,
                own_tools=TOOL_NAMES,
                announced=toolbox.get,
                models=await parts.models.of(tenant) if parts.models else None,
                streams=StreamErasure(parts.joined.bus, tenant),
                turns=WaitingTurns(
                    partial(count_undelivered, parts.joined.bus, MEMORY_AGENT, tenant)
                ),
                searches=self._searches,
            )
            self._opened[tenant] = resources.pop_all()
        if parts.answers is not None:
            parts.answers.share(memory)
        self._memories.add(memory)
        return memory

    async def _start_work(self, memory: Memory) -> None:
        async with AsyncExitStack() as resources:
            if memory.ledger_vectors is not None:
                await in_background(
                    resources, large_places=memory.ledger_vectors.index_large_places()
                )
            await in_background(
                resources,
                backlog=self._work_off(memory),
                retention=memory.retention.run(),
                accesses=memory.accesses.run(),
                consolidation=memory.consolidation.run(),
            )
            if self._parts.chat is not None:
                await self._start_generator(resources, memory.tenant, self._parts.chat)
            self._running[memory.tenant] = resources.pop_all()

    async def _work_off(self, memory: Memory) -> None:
        """Have the turns stored that an earlier stack left, and only then run the jobs."""
        if not self._parts.is_shared:
            await catch_up(self._parts.joined.bus, memory.tenant)
        await memory.backlog.run()

    async def _start_generator(
        self, resources: AsyncExitStack, tenant: str, chat: ChatModel
    ) -> None:
        """Start the tenant's generator; with accounts, it connects as an agent of the tenant."""
        bus, directory = self._parts.joined.bus, self._parts.joined.directory
        if directory is not None:
            credentials = await asyncio.to_thread(
                read_credentials, directory.folder, tenant, GENERATOR
            )
            if credentials is None:
                return
            bus = await resources.enter_async_context(
                connect(
                    self._parts.joined.url,
                    name=f"local2 generator of {tenant}",
                    secret=bus.secret,
                    credentials=credentials,
                    identity=Attested(directory, within=tenant),
                )
            )
        await resources.enter_async_context(
            GeneratorAgent(
                bus,
                chat,
                self._parts.settings.generator,
                is_shared=self._parts.is_shared,
            )
        )


async def _close(tenant: str, resources: AsyncExitStack) -> Exception | None:
    """Close what is open of a tenant; log and return a failure, so that others are closed, too."""
    try:
        await resources.aclose()
    except Exception as error:
        log.exception("tenant_not_closed", tenant=tenant)
        return error
    return None


def _raise_first(outcomes: Iterable[Exception | None]) -> None:
    for failure in outcomes:
        if failure is not None:
            raise failure
