"""`local2 reindex`: rebuild the vector index from the ledger."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from local.app import open_stack
from local.cli.output import Output, run_async
from local.client import Connection, connect
from local.client.maintenance import memory_status, start_reindex
from local.errors import NoRespondersError, StackNotRunningError, VectorError
from local.logs import logging_to
from local.protocol.payloads import MemoryStatus
from local.runtime import running_url
from local.settings import Settings

POLL = 0.2
WORKER_PATIENCE = 60.0


def reindex(settings: Settings, output: Output) -> None:
    logs = settings.memory.data_dir / "logs" / "reindex.log"
    with logging_to(logs):
        status = run_async(_reindex(settings, output))
    output.data(status)
    replaced = status.records - status.indexed
    output.text(
        f"{status.indexed} records are indexed by {status.embedder}; "
        f"{replaced} replaced ones are kept in the ledger only."
    )


async def _reindex(settings: Settings, output: Output) -> MemoryStatus:
    async with _bus(settings, output) as bus:
        await _worker_ready(bus)
        status = await start_reindex(bus)
        if status.problem is not None:
            raise VectorError(f"The index was not rebuilt: {status.problem}")
        return await _follow(bus, output, status)


@asynccontextmanager
async def _bus(settings: Settings, output: Output) -> AsyncIterator[Connection]:
    """The running stack's bus; without one, a stack of our own under the folder's lock."""
    async with AsyncExitStack() as resources:
        try:
            bus = await resources.enter_async_context(connect(running_url(settings), name="cli"))
            await memory_status(bus)
        except (StackNotRunningError, NoRespondersError):
            output.text("No stack is running; rebuilding offline.")
            logs = settings.memory.data_dir / "logs"
            stack = await resources.enter_async_context(
                open_stack(settings, log_folder=logs, with_generator=False, with_models=False)
            )
            bus = stack.bus
        yield bus


async def _worker_ready(bus: Connection) -> None:
    """A worker of another embedder is ready, too: that is what a reindex mends."""
    deadline = asyncio.get_running_loop().time() + WORKER_PATIENCE
    while (status := await memory_status(bus)).embedder is None:
        if asyncio.get_running_loop().time() > deadline:
            raise VectorError(f"The vector worker did not start: {status.problem}")
        await asyncio.sleep(POLL)


async def _follow(bus: Connection, output: Output, status: MemoryStatus) -> MemoryStatus:
    columns = (TextColumn("Indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output.errors, disable=output.json) as progress:
        task = progress.add_task("Indexing", total=status.indexed + status.waiting)
        while status.waiting:
            await asyncio.sleep(POLL)
            status = await memory_status(bus)
            progress.update(task, completed=status.indexed, total=status.indexed + status.waiting)
        progress.update(task, completed=status.indexed)
    return status
