"""The shared resource of adapters: one for all threads and loops, opened on demand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from local2.integrations.base import Adapter, AsyncAdapter, LazyResource


class Opened:
    """A resource that records what happens to it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.failures = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Opened"]:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise OSError("not there")
        self.log.append("opened")
        yield self
        self.log.append("closed")

    async def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()


async def loop_of(opened: Opened) -> asyncio.AbstractEventLoop:
    return await opened.loop()


async def test_all_threads_and_loops_use_the_same_resource() -> None:
    opened = Opened()
    background = LazyResource(opened.open)

    loops = await asyncio.gather(
        background.do(loop_of),
        background.do(loop_of),
        asyncio.to_thread(background.wait_for, loop_of),
        asyncio.to_thread(lambda: asyncio.run(background.do(loop_of))),
    )

    assert len(set(loops)) == 1
    assert loops[0] is not asyncio.get_running_loop()
    assert opened.log == ["opened"]
    await background.aclose()


def test_a_closed_resource_is_reopened_on_demand() -> None:
    opened = Opened()
    background = LazyResource(opened.open)

    background.close()
    background.wait_for(loop_of)
    background.close()
    background.wait_for(loop_of)
    background.close()

    assert opened.log == ["opened", "closed"] * 2


async def test_the_context_of_an_adapter_closes_what_it_opened() -> None:
    opened = [Opened() for _ in range(3)]
    first, second, third = (LazyResource(one.open) for one in opened)
    adapter, same, awaited = Adapter(), Adapter(), AsyncAdapter()
    # What is opened in place of a memory is only opened and closed.
    adapter._memory, same._memory, awaited._memory = first, second, third  # type: ignore[assignment]

    def use() -> None:
        with adapter:
            first.wait_for(loop_of)

    await asyncio.to_thread(use)
    async with same:
        await second.do(loop_of)
    async with awaited:
        await third.do(loop_of)

    assert [one.log for one in opened] == [["opened", "closed"]] * 3


def test_a_failed_opening_is_retried() -> None:
    opened = Opened()
    opened.failures = 1
    background = LazyResource(opened.open)

    with pytest.raises(OSError, match="not there"):
        background.wait_for(loop_of)
    background.wait_for(loop_of)
    background.close()

    assert opened.log == ["opened", "closed"]


async def test_cancelled_work_ends() -> None:
    ended = asyncio.Event()
    here = asyncio.get_running_loop()
    begun = asyncio.Event()

    async def wait(_: Opened) -> None:
        here.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            here.call_soon_threadsafe(ended.set)

    background = LazyResource(Opened().open)
    work = asyncio.create_task(background.do(wait))
    await begun.wait()
    work.cancel()

    with pytest.raises(asyncio.CancelledError):
        await work
    await asyncio.wait_for(ended.wait(), 10)
    await background.aclose()
