"""A stack in a separate process, for tests that kill it."""

import asyncio
import multiprocessing
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from forking import Fork
from local2.agents import stream_monitor
from local2.bus import streams
from local2.generator import publication
from local2.home import RUNTIME_FILE, running_url
from local2.logs import logging_to
from local2.stack.app import open_stack
from stacks import settings_in
from waiting import eventually
from workers import stack_with_worker_here

NEVER = 3600.0
"""Seconds until JetStream by itself redelivers a turn that a killed process was handling: the next
process must have it delivered."""
START_SECONDS = 60.0
UNSTORED = 0.5
"""Seconds after which a turn that the stream does not acknowledge counts as not stored."""


class StackProcess:
    def __init__(self, folder: Path, process: Fork) -> None:
        self.url = running_url(settings_in(folder))
        self.pid = process.pid
        self._process = process
        self._nats = folder / ".local2" / "nats"

    @property
    def server_pid(self) -> int:
        """Return the process id of its NATS server; fail while that is being started."""
        (ports_file,) = self._nats.glob("*.ports")
        return int(ports_file.stem.rpartition("_")[2])

    async def kill(self) -> None:
        """Kill it as a power cut would: no signal handler runs, nothing is flushed."""
        self._process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(self._process.wait)


@asynccontextmanager
async def stack_process(folder: Path, *, worker_here: bool = False) -> AsyncIterator[StackProcess]:
    """Start a stack in `folder`; it is stopped at the end, unless it was killed before.

    `worker_here`: run its vector worker in the same process, which saves two seconds of imports.
    """
    runtime_file = folder / ".local2" / RUNTIME_FILE
    runtime_file.unlink(missing_ok=True)
    stop, stopped = multiprocessing.Pipe()
    with stopped:
        process = Fork(run_stack, folder, stopped, worker_here)
    try:
        await eventually(
            lambda: runtime_file.exists() or process.poll() is not None, within=START_SECONDS
        )
        yield StackProcess(folder, process)
    finally:
        stop.close()
        await asyncio.to_thread(process.wait)


def run_stack(folder: Path, stopped: Connection, worker_here: bool) -> None:
    """Run the stack until the other end of `stopped` closes."""
    streams.ACK_WAIT = NEVER
    publication.PATIENCE = stream_monitor.PROBE_PATIENCE = stream_monitor.MAX_PAUSE = UNSTORED
    stream_monitor.PROBE_INTERVAL = 0.1
    with logging_to(folder / "stack.log"):
        asyncio.run(_serve(folder, stopped, worker_here))


async def _serve(folder: Path, stopped: Connection, worker_here: bool) -> None:
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()
    loop.add_reader(stopped.fileno(), closed.set)
    opening = stack_with_worker_here if worker_here else open_stack
    async with opening(settings_in(folder), log_folder=folder):
        await closed.wait()
