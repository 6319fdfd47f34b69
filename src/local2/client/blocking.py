"""What lives in an event loop, for programs without one: the same objects, called from a thread.

Nothing is implemented twice. The methods of a `Blocking` class are made of those of an asynchronous
one, with the same arguments and answers; each waits for its coroutine in the loop.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    suppress,
)
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar

from anyio.from_thread import start_blocking_portal

from local2.client.access import closed_error
from local2.errors import BusError

A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class Opening(AbstractAsyncContextManager[A], AbstractContextManager[S], Generic[A, S]):
    """Opens a resource: `async with` in the caller's loop, `with` in the loop of a new thread.

    `blocking` makes what `with` returns, in the thread of the caller.
    """

    def __init__(self, opening: AbstractAsyncContextManager[A], blocking: Callable[[A], S]) -> None:
        self._opening = opening
        self._blocking = blocking
        self._thread = ExitStack()

    async def __aenter__(self) -> A:
        return await self._opening.__aenter__()

    async def __aexit__(
        self,
        type_: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._opening.__aexit__(type_, error, traceback)

    def __enter__(self) -> S:
        with ExitStack() as thread:
            portal = thread.enter_context(start_blocking_portal(name="local2 memory"))
            opened = thread.enter_context(portal.wrap_async_context_manager(self._opening))
            self._thread = thread.pop_all()
        return self._blocking(opened)

    def __exit__(
        self,
        type_: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._thread.__exit__(type_, error, traceback)

    if not TYPE_CHECKING:  # a type checker reports attributes that do not exist

        def __getattr__(self, name: str) -> NoReturn:
            """Say how to open what was not opened."""
            raise AttributeError(
                f"{name!r} exists once this is opened: `with … as memory:`, or `async with`."
            )


class Blocking(Generic[A]):
    """The methods of an object that lives in a loop, for any other thread of its process."""

    def __init__(self, awaited: A, loop: asyncio.AbstractEventLoop) -> None:
        self._awaited = awaited
        self._its_loop = loop
        self._process = os.getpid()

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """The loop in which the object lives.

        Raises:
            BusError: It runs in the process from which this one was forked; a call would wait for
                ever.
        """
        if self._process != os.getpid():
            raise BusError(
                "This memory was opened in the process from which this one was forked.",
                remedy="Open it in each process, after the fork.",
            )
        return self._its_loop


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Blocking[A], P], T]:
    """A method that returns what an asynchronous one returns when it is awaited."""

    @wraps(method)
    def wait(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return wait_in(self._loop, method(self._awaited, *args, **kwargs))

    return wait


def iterating(
    method: Callable[Concatenate[A, P], AsyncIterator[T]],
) -> Callable[Concatenate[Blocking[A], P], Iterator[T]]:
    """A method that yields what an asynchronous one yields."""

    @wraps(method)
    def iterate(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return iterate_in(self._loop, method(self._awaited, *args, **kwargs))

    return iterate


def returning(
    method: Callable[Concatenate[A, P], B],
    class_: Callable[[B, asyncio.AbstractEventLoop], S],
) -> Callable[Concatenate[Blocking[A], P], S]:
    """A method that returns what another one returns, as an object of a `Blocking` class."""

    @wraps(method)
    def call(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> S:
        return class_(method(self._awaited, *args, **kwargs), self._loop)

    return call


def wait_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Do work in a loop while this thread waits. An interruption here, as by Ctrl-C, cancels it.

    Raises:
        asyncio.InvalidStateError: The loop runs in this thread, which would wait for ever.
        BusError: The loop has ended.
    """
    with suppress(RuntimeError):
        if asyncio.get_running_loop() is loop:
            work.close()
            raise asyncio.InvalidStateError(
                "This was called synchronously in the event loop of its memory. Await the method "
                "whose name begins with `a` instead, for example graph.ainvoke instead of invoke."
            )
    if loop.is_closed():
        work.close()
        raise closed_error()
    waiting = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return waiting.result()
    finally:
        waiting.cancel()


def iterate_in(loop: asyncio.AbstractEventLoop, found: AsyncIterator[T]) -> Iterator[T]:
    """Yield what an asynchronous iterator yields in a loop, each when it is asked for."""

    async def next_found() -> T:
        return await anext(found)

    with suppress(StopAsyncIteration):
        while True:
            yield wait_in(loop, next_found())
