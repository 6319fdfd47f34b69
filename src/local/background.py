"""Run tasks in the background of a context, and stop them without losing a cancellation.

Awaiting a cancelled task and suppressing its CancelledError would also suppress the cancellation of
the task that awaits it: that one would go on as if nothing had happened.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from local.logs import get_logger

log = get_logger()


@asynccontextmanager
async def running_task(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run work in a task while the context lasts; log a failure at once, raise it at the end."""

    def report(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            log.error("background_task_failed", task=name, exc_info=error)

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(report)
    try:
        yield
    finally:
        await stop(task)


async def in_background(resources: AsyncExitStack, **jobs: Coroutine[Any, Any, None]) -> None:
    """Run each job in a named task until the resources are closed."""
    for name, job in jobs.items():
        await resources.enter_async_context(running_task(job, name))


async def stop(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait until it has ended; raise its error if it failed."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()
