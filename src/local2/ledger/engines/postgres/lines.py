"""Lets writes of one stack that rest on the same begin one after the other.

PostgreSQL's locks do that, too, also between stacks. But a write that waits for one of them keeps a
connection: the turns of a few users would keep all of them, and every read would wait. And the
locks do not tell what a caller waits for from what is stored in the background.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec


class _Line(msgspec.Struct):
    """Those that wait while one write is the first."""

    waiting: dict[bool, deque[asyncio.Future[None]]] = msgspec.field(
        default_factory=lambda: {True: deque(), False: deque()}
    )
    """By whether a caller awaits them."""
    was_awaited: bool = False


class Lines:
    """A line for each name on which writes rest; the first of a line may write."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def first_in(self, names: Collection[str], *, is_awaited: bool) -> AsyncIterator[None]:
        """Be the first in these lines while the context lasts; entering waits for that.

        Writes that a caller awaits and those of the background take turns, so that each waits for
        few of the others, however many there are.
        """
        async with AsyncExitStack() as first:
            for name in sorted(set(names)):  # in one order, so that none waits for each other
                if (line := self._lines.get(name)) is None:
                    self._lines[name] = _Line(was_awaited=is_awaited)
                else:
                    turn = asyncio.get_running_loop().create_future()
                    line.waiting[is_awaited].append(turn)
                    try:
                        await turn
                    except asyncio.CancelledError:
                        if not turn.cancelled():  # it was let go at the same moment
                            self._let_next_go(name)
                        raise
                first.callback(self._let_next_go, name)
            yield

    def _let_next_go(self, name: str) -> None:
        line = self._lines[name]
        for is_awaited in (not line.was_awaited, line.was_awaited):
            waiting = line.waiting[is_awaited]
            while waiting:
                turn = waiting.popleft()
                if not turn.done():  # else it was given up
                    line.was_awaited = is_awaited
                    turn.set_result(None)
                    return
        del self._lines[name]
