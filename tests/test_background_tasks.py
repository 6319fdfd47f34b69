"""Background tasks: they end with their context, report failures, and hide no cancellation."""

import asyncio
from contextlib import AsyncExitStack

import anyio
import pytest

from local2.background import Backoff, await_unless, in_background, running_task
from own_logs import own_logs


async def test_a_context_can_be_cancelled_while_it_stops_its_task() -> None:
    """Otherwise the task that closes the context would go on, and its stack would never stop."""
    running, ending, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def job() -> None:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            ending.set()
            await may_end.wait()

    async def close() -> None:
        async with running_task(job(), "job"):
            await running.wait()

    closing = asyncio.create_task(close())
    await ending.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    may_end.set()


async def test_a_task_has_ended_when_its_context_has() -> None:
    running, ended = asyncio.Event(), asyncio.Event()

    async def job() -> None:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    async with running_task(job(), "job"):
        await running.wait()
    assert ended.is_set()


async def test_a_job_that_failed_is_logged_at_once_and_raised_at_the_end() -> None:
    failed = asyncio.Event()

    async def job() -> None:
        failed.set()
        raise OSError("It broke.")

    async with AsyncExitStack() as resources:
        with own_logs() as logs:
            await in_background(resources, job=job())
            await failed.wait()
            await asyncio.sleep(0)
        assert [(line["event"], line["task"]) for line in logs] == [
            ("background_task_failed", "job")
        ]
        with pytest.raises(OSError, match="It broke"):
            await resources.aclose()


@pytest.mark.parametrize("turns", range(6))
async def test_a_scope_of_anyio_knows_its_cancellation_at_any_step_of_a_wait(turns: int) -> None:
    """Otherwise a call that an MCP client cancels would end the whole server."""

    async def cancel(scope: anyio.CancelScope) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        scope.cancel()

    with anyio.CancelScope() as scope:
        cancelling = asyncio.create_task(cancel(scope))
        await await_unless(asyncio.Event().wait(), asyncio.sleep(0), RuntimeError)
        await asyncio.Event().wait()
    await cancelling
    assert scope.cancelled_caught


def test_pauses_double_up_to_the_longest_and_begin_again_after_a_success() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.next_pause() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert backoff.next_pause() == 0.5
