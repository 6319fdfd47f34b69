"""Slots for work, shared fairly by owners: one with much work does not make the others wait.

Work is admitted first, or refused as too much, and then waits here for a slot. Otherwise it would
wait inside the client of the bus, which drops what is too much without a word (decision 0037).
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field

from local.errors import OverloadedError

ADMITTED = 8_192
"""Pieces of work that may wait or run. Bounds tasks, which cost more than their bytes."""
ADMITTED_BYTES = 64 * 1024 * 1024
"""Bytes of the requests that may wait or run. Bounds memory."""
OWNER_FRACTION = 2
"""One owner may have one half of what is admitted, so that there is room for the others."""


@dataclass(slots=True)
class _Owner:
    admitted: int = 0
    size: int = 0
    running: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


class FairSlots:
    """At most `limit` slots at a time, and `each` of one owner.

    Waiting owners are served in turn, and the work of one owner in its order. The defaults leave a
    quarter of the slots to others, whatever one owner does.
    """

    def __init__(
        self,
        limit: int = 256,
        each: int = 192,
        *,
        admitted: int = ADMITTED,
        admitted_bytes: int = ADMITTED_BYTES,
    ) -> None:
        self._free = limit
        self._each = each
        self._most = admitted
        self._most_bytes = admitted_bytes
        self._admitted = 0
        self._size = 0
        self._owners: dict[Hashable, _Owner] = {}
        self._waiting: OrderedDict[Hashable, _Owner] = OrderedDict()

    def admitted(self, owner: Hashable, size: int = 0) -> AbstractContextManager[None]:
        """Count work of `size` bytes as admitted while the context lasts, waiting or running.

        Raises:
            OverloadedError: On entering, if there is too much of this owner or altogether.
        """
        return _Admission(self, owner, size)

    def slot(self, owner: Hashable) -> AbstractAsyncContextManager[None]:
        """Hold a slot while the context lasts; entering waits for it. For admitted work only."""
        return _Slot(self, owner)

    def admit(self, owner: Hashable, size: int) -> None:
        """Enter `admitted`."""
        own = self._owners.get(owner) or _Owner()
        if self._is_too_much(own, size):
            raise OverloadedError
        self._owners[owner] = own
        self._count(own, 1, size)

    def leave(self, owner: Hashable, size: int) -> None:
        """Leave `admitted`."""
        own = self._owners[owner]
        self._count(own, -1, -size)
        if not own.admitted:
            del self._owners[owner]

    async def acquire(self, owner: Hashable) -> None:
        """Enter `slot`."""
        own = self._owners[owner]
        if self._free and own.running < self._each and not own.waiting:
            self._begin(own)
        else:
            await self._turn(owner, own)

    def release(self, owner: Hashable) -> None:
        """Leave `slot`."""
        self._end(self._owners[owner])

    async def _turn(self, owner: Hashable, own: _Owner) -> None:
        turn = asyncio.get_running_loop().create_future()
        own.waiting.append(turn)
        self._waiting[owner] = own
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot was given in the same moment
                self._end(own)
            raise

    def _is_too_much(self, own: _Owner, size: int) -> bool:
        return (
            own.admitted >= self._most // OWNER_FRACTION
            or self._admitted >= self._most
            or (own.admitted > 0 and own.size + size > self._most_bytes // OWNER_FRACTION)
            or (self._admitted > 0 and self._size + size > self._most_bytes)
        )

    def _count(self, own: _Owner, number: int, size: int) -> None:
        own.admitted += number
        own.size += size
        self._admitted += number
        self._size += size

    def _begin(self, own: _Owner) -> None:
        self._free -= 1
        own.running += 1

    def _end(self, own: _Owner) -> None:
        self._free += 1
        own.running -= 1
        while self._free and self._serve_next():
            pass

    def _serve_next(self) -> bool:
        """Give a slot to the oldest work of the owner whose turn it is."""
        may_begin = (item for item in self._waiting.items() if item[1].running < self._each)
        if (first := next(may_begin, None)) is None:
            return False
        owner, own = first
        turn = own.waiting.popleft()
        del self._waiting[owner]
        if own.waiting:
            self._waiting[owner] = own  # behind the others
        if not turn.done():  # else it was cancelled
            self._begin(own)
            turn.set_result(None)
        return True


class _Admission:
    """A class, because every request passes here, and a generator would take twice the time."""

    __slots__ = ("_owner", "_size", "_slots")

    def __init__(self, slots: FairSlots, owner: Hashable, size: int) -> None:
        self._slots, self._owner, self._size = slots, owner, size

    def __enter__(self) -> None:
        self._slots.admit(self._owner, self._size)

    def __exit__(self, *_: object) -> None:
        self._slots.leave(self._owner, self._size)


class _Slot:
    __slots__ = ("_owner", "_slots")

    def __init__(self, slots: FairSlots, owner: Hashable) -> None:
        self._slots, self._owner = slots, owner

    async def __aenter__(self) -> None:
        await self._slots.acquire(self._owner)

    async def __aexit__(self, *_: object) -> None:
        self._slots.release(self._owner)
