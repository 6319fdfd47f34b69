"""The vector worker: the embedder and, unless the ledger keeps the vectors, Chroma.

It is a child process of the stack. The embedder and Chroma have a thread each, so that one batch is
embedded while the previous one is stored. In both threads, searches have priority. A reranker has a
thread of its own.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

import msgspec
import structlog

from local2.bus.connection import BusMessage, Connection, connect
from local2.bus.identity import signed
from local2.bus.participant import Participant
from local2.child_process import call_when_parent_ends, run_child
from local2.errors import BusError, Local2Error, VectorError
from local2.malloc import M_PERTURB, set_malloc_option
from local2.protocol import subjects
from local2.protocol.envelope import decode, encode, seal
from local2.protocol.payloads import Empty, Running
from local2.protocol.vectors import (
    TenantOnly,
    VectorCheck,
    VectorDelete,
    VectorIds,
    VectorNext,
    VectorRerank,
    VectorReset,
    VectorSearch,
    VectorUpsert,
    WorkerReady,
)
from local2.telemetry import tracing
from local2.vectors.choice import choose_embedder, fixed_embedder, named_embedder
from local2.vectors.config import WorkerConfig
from local2.vectors.cross_encoder import CrossEncoder, Reranking
from local2.vectors.elsewhere import IndexElsewhere
from local2.vectors.embedder import Embedder, MissingEmbedder
from local2.vectors.index import VectorIndex
from local2.vectors.store import Guard, Index, VectorStore

NAME = "vector_worker"
HANG_TIMEOUT = 60
"""Seconds after which a call of Chroma counts as hanging; on the largest index, one takes a few."""
RETRY_EMBEDDER_AFTER = 60.0
"""Seconds for which a worker without an embedder answers with that error, before it exits and the
next worker tries again. A failed download may succeed later, but a restart loop would occupy a
core."""

log = structlog.get_logger()


class VectorWorker(Participant):
    """Serves `vector.*` from one index and one embedder, and from a reranker if there is one."""

    def __init__(
        self, bus: Connection, store: VectorStore, reranking: Reranking | None = None
    ) -> None:
        super().__init__(bus, name=NAME, description="Embeds texts and searches their vectors.")
        self._store = store
        self._running = set[str]()
        """The ids of the requests that are not answered yet."""
        self.serve(subjects.VECTOR_RUNNING, self._tell_running, inner=True)
        self._answer_with(subjects.VECTOR_SEARCH, VectorSearch, store.search)
        self._answer_with(subjects.VECTOR_UPSERT, VectorUpsert, store.upsert)
        self._answer_with(subjects.VECTOR_DELETE, VectorDelete, store.delete)
        self._answer_with(subjects.VECTOR_IDS, VectorIds, store.ids)
        self._answer_with(subjects.VECTOR_LOST, VectorCheck, store.lost)
        self._answer_with(subjects.VECTOR_STATUS, TenantOnly, store.status)
        self._answer_with(subjects.VECTOR_RESET, VectorReset, store.reset)
        self._answer_with(subjects.VECTOR_NEXT, VectorNext, store.change)
        if reranking is not None:
            self._answer_with(subjects.VECTOR_RERANK, VectorRerank, reranking.rerank)

    async def started(self) -> None:
        await _announce(self.bus, WorkerReady(worker=self._store.id))

    def _answer_with(
        self,
        subject: str,
        payload: type[Any],
        function: Callable[[Any], Awaitable[msgspec.Struct]],
    ) -> None:
        async def handle(message: BusMessage) -> msgspec.Struct:
            request = decode(message.data, payload)
            self._running.add(request.id)
            try:
                return await function(request.payload)
            finally:
                self._running.discard(request.id)

        self.answer(subject, handle, inner=True)

    async def _tell_running(self, message: BusMessage) -> None:
        """Tell a stack whether its request is here; every worker receives this."""
        asked = decode(message.data, Empty).correlation_id
        answer = seal(Running(running=asked in self._running), type="running", source=NAME)
        await self.bus.answer(message, encode(answer))


@contextmanager
def exit_if_hanging() -> Iterator[None]:
    """Let the kernel end this process with SIGALRM if the body takes longer than HANG_TIMEOUT.

    Chroma may deadlock, for example after a full disk, while holding the interpreter's lock, so no
    other thread could react. The supervisor then starts another process.
    """
    signal.alarm(HANG_TIMEOUT)
    try:
        yield
    finally:
        signal.alarm(0)


async def work(config: WorkerConfig, guard: Guard = nullcontext) -> None:
    """Run the vector worker until standard input closes or SIGTERM arrives."""
    stop = _stop_event()

    # glibc overwrites freed memory from now on: Chroma writes memory that it never filled to its
    # files, where forgotten or encrypted words would survive.
    set_malloc_option(M_PERTURB, 1)

    connection = partial(
        connect, config.bus_url, name=NAME, secret=config.secret, credentials=config.credentials
    )
    async with AsyncExitStack() as resources:
        await resources.enter_async_context(tracing("local2.vector_worker", on=config.traces))
        index: Index = IndexElsewhere()
        if config.chroma_path is not None:
            opening = asyncio.to_thread(VectorIndex.open, config.chroma_path, config.collection)
            try:
                index = await opening
            except Local2Error as error:
                # The memory reports why this worker ends before it serves.
                with suppress(BusError):  # the log names the error, too
                    async with connection() as bus:
                        await _announce(bus, WorkerReady(worker="", problem=str(error)))
                raise
        resources.callback(index.close)

        recorded = config.recorded_embedder
        if recorded is None:
            recorded = next(filter(None, map(index.recorded_embedder, index.tenants())), None)
        embedder = await asyncio.to_thread(_choose_embedder, config, recorded)
        store = VectorStore(index, embedder, partial(_embedder_named, config), guard)
        resources.callback(store.close)

        reranking: Reranking | None = None
        if config.reranker is not None:
            try:
                reranking = Reranking(await asyncio.to_thread(CrossEncoder.load, config.reranker))
            except VectorError as error:  # searches work without it, and say so
                log.warning("reranker_broken", reason=str(error))
                reranking = Reranking(error)
            resources.callback(reranking.close)
        if stop.is_set():
            return

        bus = await resources.enter_async_context(connection())
        await resources.enter_async_context(VectorWorker(bus, store, reranking))
        log.info("vector_worker_ready", embedder=embedder.name, clean=index.opened_clean)
        patience = RETRY_EMBEDDER_AFTER if isinstance(embedder, MissingEmbedder) else None
        with suppress(TimeoutError):  # then the supervisor restarts the worker
            async with asyncio.timeout(patience):
                await stop.wait()


async def _announce(bus: Connection, state: WorkerReady) -> None:
    data = encode(seal(state, type="event", source=NAME))
    headers = signed(bus.secret, subjects.VECTOR_READY, data)
    await bus.publish(subjects.VECTOR_READY, data, headers=headers)


def _choose_embedder(config: WorkerConfig, recorded: str | None) -> Embedder:
    try:
        return choose_embedder(config, recorded)
    except VectorError as error:
        log.warning("embedder_missing", reason=str(error))
        return MissingEmbedder(recorded or config.embedder, error)


def _embedder_named(config: WorkerConfig, name: str) -> Embedder:
    """Open the embedder of this name, if the next start would choose it for an index of it."""
    embedder = named_embedder(config, name)
    wanted = fixed_embedder(config)
    if wanted not in {None, embedder.name}:
        embedder.close()
        raise VectorError(
            f"config/memory.yaml requires `embedder: {config.embedder}`, which is {wanted}: the "
            f"next start would not serve an index of {embedder.name}.",
            remedy="Set `embedder: auto` there, restart the stack, and then reindex.",
        )
    return embedder


def _stop_event() -> asyncio.Event:
    """Make an event that SIGTERM or the parent's exit sets, so that an opening index is closed."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    call_when_parent_ends(stop.set)
    return stop


def main() -> None:
    """Run the child process."""
    run_child(NAME, WorkerConfig, partial(work, guard=exit_if_hanging))


if __name__ == "__main__":
    main()
