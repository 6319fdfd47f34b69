"""Knows whether acknowledged turns wait to be stored, so that answers without them say so."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from local2.errors import BusError

PATIENCE = 0.5
"""Seconds that an answer waits to learn how many turns wait."""

Count = Callable[[], Awaitable[int]]
"""Returns how many turns and ratings wait in JetStream. May raise BusError."""


async def none_waits() -> int:
    """Stands in where there are no streams."""
    return 0


class WaitingTurns:
    """The turns and ratings of one tenant that JetStream holds and nobody has begun to store.

    A turn that is being stored for the first time does not count: that takes milliseconds.
    JetStream is asked only while turns are being stored, and afterwards until none waits.
    """

    def __init__(self, count: Count = none_waits) -> None:
        self._count = count
        self._storing = 0
        self._noted, self._cleared = 1, 0
        """How often a turn may have begun to wait, and how many of these times none waits since."""

    def may_wait(self) -> None:
        """Note that a turn was published, which another stack may store."""
        self._noted += 1

    @contextmanager
    def storing(self) -> Iterator[None]:
        """The context in which one of them is stored."""
        self._storing += 1
        try:
            yield
        finally:
            self._storing -= 1
            self._noted += 1

    async def count(self) -> int:
        """How many wait; 0 if JetStream does not say so soon."""
        if not self._storing and self._noted == self._cleared:
            return 0
        noted = self._noted  # another may begin to wait before the answer
        try:
            async with asyncio.timeout(PATIENCE):
                waiting = await self._count()
        except (BusError, TimeoutError):  # the status says why
            return 0
        if not waiting:
            self._cleared = noted
        return waiting


def why_incomplete(waiting: int) -> str:
    """What it means for answers that this many turns wait."""
    return f"{waiting} turns or ratings wait to be stored, and cannot be found yet."
