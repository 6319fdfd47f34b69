"""What is checked before a request is handled: its size, depth and rate, and whose turn it is.

What exceeds a limit is refused at once; the error names the limit, and when to come back. What is
admitted waits here for a slot. Otherwise it would wait inside the client of the bus, which silently
drops what exceeds its own limit (decision 0037). Tenants take turns, and within a tenant its users:
200 users of one tenant wait behind each other, and another tenant's only user does not wait behind
them (decision 0067).
"""

import asyncio
import re
import time
from collections import OrderedDict, deque
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field

import numpy as np

from local.errors import BadRequestError, OverloadedError, TooLargeError
from local.settings import LimitSettings, SlotLimits

Owner = tuple[str, str | None]
"""A tenant and a user of it."""

SOONEST, LATEST = 0.1, 30.0
"""Seconds after which a refused caller should come back."""
INERTIA = 0.9
"""How slowly the measured pace follows each piece of work."""

DEFAULT_LIMITS = SlotLimits()
BUCKETS = 10_000
"""Owners whose rate is known; beyond, the one that asked longest ago starts again with a whole
burst."""
STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
STEPS = np.zeros(256, np.int64)
STEPS[list(b"[{")], STEPS[list(b"]}")] = 1, -1


@dataclass(slots=True)
class _Share:
    admitted: int = 0
    size: int = 0
    running: int = 0

    def count(self, number: int, size: int) -> None:
        self.admitted += number
        self.size += size

    def is_full(self, most: int, most_size: int, size: int) -> bool:
        """Return whether one more would exceed a limit; alone, work of any size is admitted."""
        return self.admitted >= most or (self.admitted > 0 and self.size + size > most_size)


@dataclass(slots=True)
class _User(_Share):
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


@dataclass(slots=True)
class _Tenant(_Share):
    users: dict[str | None, _User] = field(default_factory=dict)
    waiting: OrderedDict[str | None, _User] = field(default_factory=OrderedDict)
    """Those of its users that wait, the next one first."""


class FairSlots:
    """Slots for the work of tenants and their users, who are served in turn, each in its order."""

    def __init__(self, limits: SlotLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._all = _Share()
        self._tenants: dict[str, _Tenant] = {}
        self._waiting: OrderedDict[str, _Tenant] = OrderedDict()
        self._pace = 0.0
        self._ended_at = time.monotonic()

    def admitted(self, owner: Owner, size: int = 0) -> AbstractContextManager[None]:
        """Count work of `size` bytes as admitted while the context lasts, whether it waits or runs.

        Raises:
            OverloadedError: On entering, if there is too much of this user, tenant, or altogether.
        """
        return _Admitted(self, owner, size)

    def slot(self, owner: Owner) -> AbstractAsyncContextManager[None]:
        """Hold a slot while the context lasts; entering waits for it. For admitted work only."""
        return _Slot(self, owner)

    def admit(self, owner: Owner, size: int) -> None:
        """Enter `admitted`."""
        limits = self._limits
        tenant = self._tenants.get(owner[0]) or _Tenant()
        user = tenant.users.get(owner[1]) or _User()
        if user.is_full(limits.user_waiting, limits.user_waiting_bytes, size):
            raise OverloadedError(retry_after=self._soon(user))
        if tenant.is_full(limits.tenant_waiting, limits.tenant_waiting_bytes, size):
            raise OverloadedError(retry_after=self._soon(tenant))
        if self._all.is_full(limits.waiting, limits.waiting_bytes, size):
            raise OverloadedError(retry_after=self._soon(self._all))
        self._tenants[owner[0]] = tenant
        tenant.users[owner[1]] = user
        for share in (user, tenant, self._all):
            share.count(1, size)

    def leave(self, owner: Owner, size: int) -> None:
        """Leave `admitted`."""
        tenant = self._tenants[owner[0]]
        user = tenant.users[owner[1]]
        for share in (user, tenant, self._all):
            share.count(-1, -size)
        if not user.admitted:
            del tenant.users[owner[1]]
        if not tenant.admitted:
            del self._tenants[owner[0]]
        self._note_pace()

    async def acquire(self, owner: Owner) -> None:
        """Enter `slot`."""
        tenant = self._tenants[owner[0]]
        user = tenant.users[owner[1]]
        if not user.waiting and self._is_free() and self._may_begin(tenant, user):
            self._begin(tenant, user)
        else:
            await self._turn(owner, tenant, user)

    def release(self, owner: Owner) -> None:
        """Leave `slot`."""
        tenant = self._tenants[owner[0]]
        self._end(tenant, tenant.users[owner[1]])

    async def _turn(self, owner: Owner, tenant: _Tenant, user: _User) -> None:
        turn = asyncio.get_running_loop().create_future()
        user.waiting.append(turn)
        tenant.waiting[owner[1]] = user
        self._waiting[owner[0]] = tenant
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot was given in the same moment
                self._end(tenant, user)
            raise

    def _is_free(self) -> bool:
        return self._all.running < self._limits.requests

    def _may_begin(self, tenant: _Tenant, user: _User) -> bool:
        limits = self._limits
        return tenant.running < limits.tenant_requests and user.running < limits.user_requests

    def _begin(self, tenant: _Tenant, user: _User) -> None:
        for share in (user, tenant, self._all):
            share.running += 1

    def _end(self, tenant: _Tenant, user: _User) -> None:
        for share in (user, tenant, self._all):
            share.running -= 1
        while self._is_free() and self._serve_next():
            pass

    def _serve_next(self) -> bool:
        """Give a slot to the oldest work of the user whose turn it is in the next tenant."""
        found = next(
            (
                (tenant_name, tenant, user_name, user)
                for tenant_name, tenant in self._waiting.items()
                if tenant.running < self._limits.tenant_requests
                for user_name, user in tenant.waiting.items()
                if user.running < self._limits.user_requests
            ),
            None,
        )
        if found is None:
            return False
        tenant_name, tenant, user_name, user = found
        turn = user.waiting.popleft()
        del tenant.waiting[user_name]
        if user.waiting:
            tenant.waiting[user_name] = user  # behind the others
        del self._waiting[tenant_name]
        if tenant.waiting:
            self._waiting[tenant_name] = tenant
        if not turn.done():  # else it was cancelled
            self._begin(tenant, user)
            turn.set_result(None)
        return True

    def _note_pace(self) -> None:
        """Update the seconds between two pieces of work that end, while there is work."""
        now = time.monotonic()
        self._pace = INERTIA * self._pace + (1 - INERTIA) * (now - self._ended_at)
        self._ended_at = now

    def _soon(self, share: _Share) -> float:
        """Return the seconds until about half of what is admitted of a share is done."""
        return round(min(max(self._pace * share.admitted / 2, SOONEST), LATEST), 2)


class _Admitted:
    """A class, because every request passes here, and a generator would take twice the time."""

    __slots__ = ("_owner", "_size", "_slots")

    def __init__(self, slots: FairSlots, owner: Owner, size: int) -> None:
        self._slots, self._owner, self._size = slots, owner, size

    def __enter__(self) -> None:
        self._slots.admit(self._owner, self._size)

    def __exit__(self, *_: object) -> None:
        self._slots.leave(self._owner, self._size)


class _Slot:
    __slots__ = ("_owner", "_slots")

    def __init__(self, slots: FairSlots, owner: Owner) -> None:
        self._slots, self._owner = slots, owner

    async def __aenter__(self) -> None:
        await self._slots.acquire(self._owner)

    async def __aexit__(self, *_: object) -> None:
        self._slots.release(self._owner)


class Admission:
    """The limits of one stack, and its work; everyone who serves requests shares it."""

    def __init__(self, limits: LimitSettings | None = None) -> None:
        self._limits = limits = limits or LimitSettings()
        self._slots = FairSlots(limits)
        self._rates = _Rates(limits.tenant_rate, limits.tenant_burst)
        self._user_rates = _Rates(limits.user_rate, limits.user_burst)

    def admitted(self, owner: Owner, data: bytes) -> AbstractContextManager[None]:
        """Count a request as admitted while the context lasts, whether it waits or runs.

        Raises:
            TooLargeError: It has too many bytes.
            BadRequestError: It is nested too deeply.
            OverloadedError: Too many came within a second; on entering: too many are there.
        """
        if len(data) > self._limits.request_bytes:
            raise TooLargeError(
                f"The request has {len(data):,} bytes; {self._limits.request_bytes:,} are taken.",
                remedy="Send it in parts, or raise request_bytes in config/limits.yaml.",
            )
        if is_deeper(data, self._limits.nesting):
            raise BadRequestError(
                f"The request is nested more than {self._limits.nesting} deep.",
                remedy="Send less deep arguments, or raise nesting in config/limits.yaml.",
            )
        self._user_rates.take(owner)
        self._rates.take(owner[0])
        return self._slots.admitted(owner, len(data))

    def slot(self, owner: Owner) -> AbstractAsyncContextManager[None]:
        """Hold a slot while the context lasts; entering waits for it. For admitted work only."""
        return self._slots.slot(owner)


def is_deeper(data: bytes, most: int) -> bool:
    """Return whether JSON is nested deeper than `limit`; most requests have fewer brackets."""
    if data.count(b"{") + data.count(b"[") <= most:
        return False
    brackets = STRINGS.sub(b"", data).translate(None, NO_BRACKETS)
    steps = STEPS[np.frombuffer(brackets, np.uint8)]
    return bool(steps.size and np.cumsum(steps).max() > most)


class _Rates:
    """A bucket for each owner that fills at a rate; a request takes one piece out of it."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(max(burst, 1))
        self._buckets: OrderedDict[object, tuple[float, float]] = OrderedDict()

    def take(self, owner: object) -> None:
        """Raise OverloadedError if the owner's bucket is empty."""
        if not self._rate:
            return
        now = time.monotonic()
        held, at = self._buckets.pop(owner, (self._burst, now))
        held = min(held + (now - at) * self._rate, self._burst)
        enough = held >= 1
        self._buckets[owner] = (held - 1 if enough else held, now)
        if len(self._buckets) > BUCKETS:
            self._buckets.popitem(last=False)
        if not enough:
            raise OverloadedError(
                f"More than {self._rate:g} requests a second came; nothing was done.",
                retry_after=round((1 - held) / self._rate, 3),
            )
