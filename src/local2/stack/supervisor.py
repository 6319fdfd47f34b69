"""Run the vector worker as a child process, and restart it whenever it exits by itself.

The stack's other child, nats-server, is restarted by its own `watch` (`bus/server.py`).

The child's standard input stays open while the parent lives, so that the child notices the parent's
death. A descriptor that the child inherits keeps the data folder locked until it exits (decision
0014).
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from signal import SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV

import structlog

from local2.background import Backoff, running_task
from local2.bus.vector_client import VectorRequests
from local2.memory.tenant import Memories
from local2.vectors.config import EXIT_SOFTWARE

STOP_PATIENCE = 10.0
"""Seconds from SIGTERM to SIGKILL: time to finish a batch and close files."""
FIRST_DELAY = 0.1
"""Seconds before the first restart: short, because searches lack vectors until then."""
LAST_DELAY = 10.0
"""Maximum seconds before a restart. The delay doubles up to it, so that a child that cannot start
does not occupy a core."""
STEADY_SECONDS = 30.0
"""Seconds that a child must run for its next restart to wait only FIRST_DELAY again."""
VECTOR_WORKER = "local2.agents.vector_worker"
CRASH_EXIT_CODES = (
    EXIT_SOFTWARE,
    *(-number for number in (SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGALRM)),
)
"""Exit codes of a worker that Chroma or the embedder crashed; SIGALRM ends a hanging one."""


log = structlog.get_logger()


class ChildProcess:
    """A Python module that runs as a child process; `watch` restarts it."""

    def __init__(
        self,
        module: str,
        config: bytes,
        *,
        inherit: tuple[int, ...],
        on_exit: Callable[[int], None],
    ) -> None:
        self._module = module
        self._config = config
        self._inherit = inherit
        self._on_exit = on_exit
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """The process id, or None while the child does not run."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # import nothing from the current folder
            "-m",
            "local2.child_main",
            self._module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            pass_fds=self._inherit,
            start_new_session=True,  # Ctrl-C reaches only the stack, which stops its children
            env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        )
        if process.stdin is not None and not process.stdin.is_closing():  # uvloop raises an error
            process.stdin.write(self._config + b"\n")
            with suppress(ConnectionError):  # the child exited at once, which `watch` notices
                await process.stdin.drain()

    async def watch(self) -> None:
        """Restart the child whenever it ends, until cancelled."""
        loop = asyncio.get_running_loop()
        backoff = Backoff(FIRST_DELAY, LAST_DELAY)
        while self._process is not None:
            begun = loop.time()
            code = await self._process.wait()
            self._on_exit(code)
            if loop.time() - begun > STEADY_SECONDS:
                backoff.reset()
            delay = backoff.next_pause()
            log.warning("child_ended", module=self._module, exit_code=code, restart_in=delay)
            await asyncio.sleep(delay)
            try:
                await self.start()
            except OSError as error:  # retried, since `_process` has still ended
                log.warning("child_not_started", module=self._module, reason=str(error))

    async def stop(self) -> None:
        """Stop the child with SIGTERM, and with SIGKILL after STOP_PATIENCE."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_PATIENCE)
        except TimeoutError:
            log.warning("child_killed", module=self._module, pid=process.pid)
            process.kill()
            await process.wait()


@asynccontextmanager
async def supervised(
    module: str,
    config: bytes,
    *,
    inherit: tuple[int, ...] = (),
    on_exit: Callable[[int], None] = lambda _: None,
) -> AsyncIterator[ChildProcess]:
    """Keep a child process running while the context lasts.

    Args:
        module: The module to run with `python -m`.
        config: One line for its standard input, which stays open while the parent lives.
        inherit: File descriptors for the child to keep open.
        on_exit: Called with the exit code whenever the child exits by itself.
    """
    child = ChildProcess(module, config, inherit=inherit, on_exit=on_exit)
    try:
        await child.start()
        async with running_task(child.watch(), module):
            yield child
    finally:
        await child.stop()


async def start_vector_worker(
    resources: AsyncExitStack, memories: Memories, vectors: VectorRequests, config: bytes, lock: int
) -> ChildProcess:
    """Start the vector worker; when it exits, fail the requests that wait for its answers."""

    def worker_lost(exit_code: int) -> None:
        for memory in memories:
            memory.indexer.worker_lost(crashed=exit_code in CRASH_EXIT_CODES)
        vectors.worker_lost()

    for memory in memories:
        memory.indexer.worker_starting()
    return await resources.enter_async_context(
        supervised(VECTOR_WORKER, config, inherit=(lock,), on_exit=worker_lost)
    )
