"""Knows whether acknowledged turns wait to be stored, so that answers without them say so."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from local2.errors import BusError

PATIENCE = 0.5
"""Seconds that an answer waits to learn how many turns wait."""
HELD_UP = 1.0
"""Seconds after which a turn that is being stored counts as one that waits."""

Count = Callable[[], Awaitable[tuple[int, int]]]
"""Returns how many turns and ratings wait in JetStream, and how many more are being stored, which
were delivered once. May raise BusError."""


async def none_waits() -> tuple[int, int]:
    """Stands in where there are no streams."""
    return 0, 0


class WaitingTurns:
    """The turns and ratings of one tenant that JetStream holds and the ledger lacks.

    A turn that is being stored for the first time does not count at first: that takes milliseconds.
    JetStream is asked only while turns are being stored, and afterwards until it holds none.
    """

    def __init__(self, count: Count = none_waits) -> None:
        self._count = count
        self._begun: list[float] = []
        """When the storing of each began that is stored here now, the oldest first."""
        self._moved = time.monotonic()
        """When one was last published or stored; long ago, if one has failed since."""
        self._noted, self._cleared = 1, 0
        """How often a turn may have begun to wait, and how many of these times none waits since."""

    def may_wait(self) -> None:
        """Note that a turn was published, which another stack may store."""
        self._note(time.monotonic())

    @contextmanager
    def storing(self) -> Iterator[None]:
        """The context in which one of them is stored."""
        begun = time.monotonic()
        self._begun.append(begun)
        moved = -math.inf
        try:
            yield
            moved = time.monotonic()
        finally:
            self._begun.remove(begun)
            self._note(moved)

    async def count(self) -> int:
        """How many wait; 0 if JetStream does not say so soon."""
        if not self._begun and self._noted == self._cleared:
            return 0
        noted = self._noted  # another may begin to wait before the answer
        oldest = self._begun[0] if self._begun else self._moved
        is_held_up = time.monotonic() > oldest + HELD_UP
        try:
            async with asyncio.timeout(PATIENCE):
                waiting, being_stored = await self._count()
        except (BusError, TimeoutError):  # the status says why
            return 0
        if not waiting and not being_stored:
            self._cleared = noted
        return waiting + being_stored if is_held_up else waiting

    def _note(self, moved: float) -> None:
        self._noted += 1
        self._moved = moved


def why_incomplete(waiting: int) -> str:
    """What it means for answers that this many turns wait."""
    return f"{waiting} turns or ratings wait to be stored, and cannot be found yet."
