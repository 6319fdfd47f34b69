"""What adapters hold open, for frameworks that call from plain functions and from any event loop.

A connection lives in one loop, and loops of programs come and go. So adapters have a loop of their
own, in a thread beside the program's, and open there what they need when it is first used.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Generic, TypeVar

R = TypeVar("R")
T = TypeVar("T")

_starting = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []


class Background(Generic[R]):
    """Something that is opened by the first work with it, and again after it was closed.

    `open_`: makes the context in which it is open.
    """

    def __init__(self, open_: Callable[[], AbstractAsyncContextManager[R]]) -> None:
        self._open = open_
        self._opening = asyncio.Lock()
        self._exits = AsyncExitStack()
        self._opened: list[R] = []

    async def do(self, work: Callable[[R], Awaitable[T]]) -> T:
        """Do the work while this loop goes on; who cancels it cancels it there, too."""
        return await asyncio.wrap_future(_begun(self._done(work)))

    def wait_for(self, work: Callable[[R], Awaitable[T]]) -> T:
        """Do the work while this thread waits."""
        return _begun(self._done(work)).result()

    async def aclose(self) -> None:
        await asyncio.wrap_future(_begun(self._close()))

    def close(self) -> None:
        _begun(self._close()).result()

    async def _done(self, work: Callable[[R], Awaitable[T]]) -> T:
        async with self._opening:
            if not self._opened:
                self._opened = [await self._exits.enter_async_context(self._open())]
            (opened,) = self._opened
        return await work(opened)

    async def _close(self) -> None:
        async with self._opening:
            self._opened = []
            await self._exits.aclose()


def _begun(work: Coroutine[Any, Any, T]) -> Future[T]:
    return asyncio.run_coroutine_threadsafe(work, _loop())


def _loop() -> asyncio.AbstractEventLoop:
    """The loop of the adapters of this process, with which it ends."""
    with _starting:
        if not _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="local2", daemon=True).start()
            _loops.append(loop)
        return _loops[0]
