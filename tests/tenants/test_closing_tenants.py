"""A tenant is closed, and its stack is stopped during that."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from local.tenancy import in_background


async def test_closing_a_tenant_can_be_cancelled() -> None:
    """Otherwise the task that follows the directory never ends, and its stack never stops."""
    running, ending, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def job() -> None:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            ending.set()
            await may_end.wait()

    async def close() -> None:
        async with AsyncExitStack() as resources:
            await in_background(resources, job=job())
            await running.wait()

    closing = asyncio.create_task(close())
    await ending.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    may_end.set()


async def test_a_job_that_failed_is_raised_at_the_end() -> None:
    async def job() -> None:
        raise OSError("It broke.")

    async with AsyncExitStack() as resources:
        await in_background(resources, job=job())
        await asyncio.sleep(0)
        with pytest.raises(OSError, match="It broke"):
            await resources.aclose()
