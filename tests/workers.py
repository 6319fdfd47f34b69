"""The vector worker in the test's process (its part of the bus, or a stack's child), or forked."""

import asyncio
import multiprocessing
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from unittest.mock import patch

import shared_minilm  # noqa: F401 - for every worker of this process
from forking import Fork
from local2.agents import vector_worker as workers
from local2.agents.vector_worker import VectorWorker
from local2.bus.connection import Connection
from local2.errors import Local2Error
from local2.settings import Settings
from local2.stack import supervisor
from local2.stack.app import Stack, open_stack
from local2.stack.supervisor import ChildProcess
from local2.vectors.config import WorkerConfig
from local2.vectors.cross_encoder import Reranking
from local2.vectors.embedder import Embedder
from local2.vectors.index import CONFIGURATION, VectorIndex
from local2.vectors.store import VectorStore


@asynccontextmanager
async def vector_worker(
    bus: Connection, embedder: Embedder, folder: Path, reranking: Reranking | None = None
) -> AsyncIterator[VectorStore]:
    """Serve `vector.*` with Chroma in `folder` while the context lasts."""
    with VectorIndex.open(folder, "local2.memory") as index:
        store = VectorStore(index, embedder)
        try:
            async with VectorWorker(bus, store, reranking):
                yield store
        finally:
            store.close()


@asynccontextmanager
async def stack_with_worker_here(
    settings: Settings, *, log_folder: Path | None = None, with_generator: bool = True
) -> AsyncIterator[Stack]:
    """A stack that many tests share, with its vector worker in this process."""
    async with AsyncExitStack() as resources:
        with patch.object(supervisor, "supervised", worker_in_this_process):
            opening = open_stack(settings, log_folder=log_folder, with_generator=with_generator)
            stack = await resources.enter_async_context(opening)
        yield stack


@asynccontextmanager
async def worker_in_this_process(
    module: str,
    config: bytes,
    *,
    inherit: tuple[int, ...] = (),
    on_exit: Callable[[int], None] = lambda _: None,
) -> AsyncIterator[ChildProcess]:
    """Run as a task what `supervised` starts as a child, which saves two seconds of imports."""
    stop = asyncio.Event()
    with patch.object(workers, "_stop_event", lambda: stop):
        working = asyncio.create_task(workers.work(WorkerConfig.from_line(config.decode())))
        await asyncio.sleep(0)  # it requests the event immediately
    try:
        yield ChildProcess(module, config, inherit=inherit, on_exit=on_exit)
    finally:
        stop.set()
        with suppress(Local2Error):  # its process would log it and end, without its parent
            await working


class ForkedWorker(ChildProcess):
    """Runs, ends and is restarted like the vector worker, without having to import anything."""

    sync_threshold = 1_000
    """Number of records after which Chroma writes its vector files."""

    async def start(self) -> None:
        theirs, self._ours = multiprocessing.Pipe(duplex=False)
        with theirs:
            forked = _Forked(Fork(_be_the_worker, theirs, self.sync_threshold))
        os.write(self._ours.fileno(), self._config + b"\n")
        self._process = forked  # type: ignore[assignment]


class _Forked:
    """The part of an asyncio process that its supervisor uses."""

    def __init__(self, fork: Fork) -> None:
        self.pid = fork.pid
        self.terminate = fork.terminate
        self.kill = fork.kill
        self._ended = asyncio.ensure_future(asyncio.to_thread(fork.wait))

    @property
    def returncode(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)


def _be_the_worker(alive: Pipe, sync_threshold: int) -> None:
    """Run the worker; its standard input has the configuration, and closes with the stack."""
    CONFIGURATION["hnsw"]["sync_threshold"] = sync_threshold
    os.dup2(alive.fileno(), 0)
    sys.stdin = os.fdopen(0)
    alive.close()
    workers.main()
