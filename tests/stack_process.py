"""A stack in a process of its own: to be killed by the tests of crashes, and by the benchmark."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from local.agents import stream_keeper
from local.app import open_stack
from local.bus import streams
from local.generator import publication
from local.home import RUNTIME_FILE, running_url
from local.logs import logging_to
from stacks import settings_in
from waiting import eventually

REDELIVERY = 2.0
"""Seconds after which a turn that a killed process was busy with comes again."""
START_SECONDS = 60.0
UNSTORED = 0.5
"""Seconds after which a turn that the stream does not acknowledge counts as not stored."""


class StackProcess:
    def __init__(self, folder: Path, process: asyncio.subprocess.Process) -> None:
        self.url = running_url(settings_in(folder))
        self.pid = process.pid
        self._process = process
        self._nats = folder / ".local2" / "nats"

    @property
    def server_pid(self) -> int:
        """Of its NATS server; fails while that is being started."""
        (ports_file,) = self._nats.glob("*.ports")
        return int(ports_file.stem.rpartition("_")[2])

    async def kill(self) -> None:
        """As a power cut would: no signal handler runs, nothing is flushed."""
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()


@asynccontextmanager
async def stack_process(folder: Path) -> AsyncIterator[StackProcess]:
    """Start a stack in `folder`; it is stopped at the end, unless it was killed before."""
    runtime_file = folder / ".local2" / RUNTIME_FILE
    runtime_file.unlink(missing_ok=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, folder, stdin=asyncio.subprocess.PIPE
    )
    try:
        await eventually(
            lambda: runtime_file.exists() or process.returncode is not None, within=START_SECONDS
        )
        yield StackProcess(folder, process)
    finally:
        if process.returncode is None and process.stdin is not None:
            process.stdin.close()
            await process.wait()


async def serve(folder: Path) -> None:
    """Be the stack until standard input closes."""
    streams.ACK_WAIT = REDELIVERY
    publication.PATIENCE = stream_keeper.PROBE_PATIENCE = stream_keeper.LAST_PAUSE = UNSTORED
    stream_keeper.PROBES_APART = 0.1
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), closed.set)
    async with open_stack(settings_in(folder), log_folder=folder):
        await closed.wait()


if __name__ == "__main__":
    here = Path(sys.argv[1])
    with logging_to(here / "stack.log"):
        asyncio.run(serve(here))
