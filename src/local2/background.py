"""Run tasks in the background of a context, stop them, and pause between attempts that fail.

Awaiting a cancelled task and suppressing its CancelledError would also suppress the cancellation of
the task that awaits it: that one would go on as if nothing had happened.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, ParamSpec, TypeVar

from local2.logs import get_logger

P = ParamSpec("P")
T = TypeVar("T")
LONG_READING = 4_000
"""Number of characters whose reading takes about a millisecond."""
ITEM_READING = 100
"""Number of characters whose reading takes as long as a call or a message, besides its text."""
_going_on = set[asyncio.Task[Any]]()
"""The event loop itself keeps only weak references to its tasks."""

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


async def await_unless(
    ended: Coroutine[Any, Any, object],
    work: Awaitable[T],
    error: Callable[[], Exception],
) -> T:
    """Await work. If `ended` is done first, cancel the work and raise the error."""
    working, ending = asyncio.ensure_future(work), asyncio.ensure_future(ended)
    try:
        await asyncio.wait((working, ending), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise error()
    finally:
        await give_up(working, ending)


async def in_background(resources: AsyncExitStack, **jobs: Coroutine[Any, Any, None]) -> None:
    """Run each job in a named task until the resources are closed."""
    for name, job in jobs.items():
        await resources.enter_async_context(running_task(job, name))


def go_on(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start work that goes on to its end, whether or not somebody waits for it."""
    task = asyncio.create_task(work)
    _going_on.add(task)
    task.add_done_callback(_going_on.discard)
    return task


async def completed(work: Coroutine[Any, Any, T]) -> T:
    """Wait for work that must not be left half done: cancelling this does not cancel the work."""
    return await asyncio.shield(go_on(work))


async def read_text(read: Callable[P, T], size: int, *args: P.args, **kwargs: P.kwargs) -> T:
    """Read a text of this size: a long one in a thread, so that nobody waits for it.

    To a thread and back takes as long as reading a short one.
    """
    if size < LONG_READING:
        return read(*args, **kwargs)
    return await asyncio.to_thread(read, *args, **kwargs)


async def together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run work side by side, and wait for all of it, also if some fails; raise the first failure.

    Otherwise, what was started later than another failed would run on.
    """
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes  # type: ignore[return-value] # none has failed


async def waiting_for(what: str, work: Awaitable[T]) -> T:
    """Await work. If this is cancelled, the cancellation says what was waited for."""
    try:
        return await work
    except asyncio.CancelledError as cancelled:
        # Its message stays: anyio knows its own cancellations by it.
        raise asyncio.CancelledError(*cancelled.args, what) from cancelled


def waited_for(what: str, error: TimeoutError) -> bool:
    """Whether `asyncio.timeout` ended a wait for this."""
    return isinstance(error.__cause__, asyncio.CancelledError) and what in error.__cause__.args


@contextmanager
def cancellation_kept() -> Iterator[None]:
    """Raise CancelledError at the end if the body has lost a cancellation of the current task.

    `wait_for` of Python 3.11 loses one that arrives with the result, and nats-py loses others.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    yield
    if task and task.cancelling() > before:
        raise asyncio.CancelledError


class Backoff:
    """The pauses between attempts that fail: each is twice as long as the one before."""

    def __init__(self, first: float, longest: float) -> None:
        """Pause for `first` seconds after the first failure, and never more than `longest`."""
        self._first = first
        self._longest = longest
        self._next = first

    def next_pause(self) -> float:
        """Count a failure; return the seconds to wait before the next attempt."""
        pause = self._next
        self._next = min(2 * pause, self._longest)
        return pause

    def reset(self) -> None:
        """Begin again with the first pause, after a success."""
        self._next = self._first


async def give_up(*works: asyncio.Future[Any]) -> None:
    """Cancel work, and wait until it has ended, whatever comes of it.

    `gather` would raise a cancellation of this wait without its message, by which anyio tells its
    own: the MCP server would end with the request that its client has cancelled.
    """
    for work in works:
        work.cancel()
        work.add_done_callback(note_failure)
    if works:
        await asyncio.wait(works)


def note_failure(work: asyncio.Future[Any]) -> None:
    """Look at how work has ended: asyncio logs an error that nobody has looked at."""
    if not work.cancelled():
        work.exception()


async def stop(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait until it has ended; raise its error if it failed."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()
