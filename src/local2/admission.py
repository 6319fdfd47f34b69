"""Admission control: check a request's size, depth and rate, then queue it fairly.

A request over a limit is refused at once; the error names the limit, and when to retry. Admitted
requests wait here for a slot. Otherwise they would wait inside the NATS client, which silently
drops messages over its own limit (decision 0016). Slots go round-robin to tenants, and within a
tenant to its users: 200 users of one tenant queue among themselves, and do not delay the only user
of another tenant.
"""

import asyncio
import time
from collections import OrderedDict, deque
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field

from local2.bounded_dict import BoundedDict
from local2.errors import BadRequestError, OverloadedError, TooLargeError
from local2.settings import LimitSettings, SlotLimits

Owner = tuple[str, str | None]
"""A tenant and one of its users."""

MIN_RETRY_AFTER, MAX_RETRY_AFTER = 0.1, 30.0
"""Bounds of the seconds after which a refused caller is told to retry."""
PACE_SMOOTHING = 0.9
"""Weight of the previous value in the moving average of the seconds between completions."""

DEFAULT_LIMITS = SlotLimits()
MAX_BUCKETS = 10_000
"""Maximum number of owners whose rate is tracked. Beyond it, the least recently active owner is
forgotten, and starts again with a full burst."""
OTHERS = bytes(set(range(256)) - set(b'[]{}"'))
"""All bytes but brackets and quotes."""
OPENING, CLOSING = list(b"[{"), list(b"]}")


@dataclass(slots=True)
class _Usage:
    """The work of one user, of one tenant, or of all: admitted, its bytes, and running."""

    admitted: int = 0
    size: int = 0
    running: int = 0

    def is_full(self, limit: int, size_limit: int, size: int) -> bool:
        """Whether one more would exceed a limit; a sole request may have any size."""
        return self.admitted >= limit or (self.admitted > 0 and self.size + size > size_limit)


@dataclass(slots=True)
class _User(_Usage):
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


@dataclass(slots=True)
class _Tenant(_Usage):
    users: dict[str | None, _User] = field(default_factory=dict)
    waiting: OrderedDict[str | None, _User] = field(default_factory=OrderedDict)
    """The users with waiting work; the next to be served comes first."""


class FairSlots:
    """Slots that are shared round-robin by tenants and their users; each user's work is FIFO."""

    def __init__(self, limits: SlotLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._all = _Usage()
        self._tenants: dict[str, _Tenant] = {}
        self._waiting: OrderedDict[str, _Tenant] = OrderedDict()
        self._pace = 0.0
        self._ended_at = time.monotonic()

    def admitted(self, owner: Owner, size: int = 0) -> AbstractContextManager[None]:
        """Count work of `size` bytes as admitted while the context lasts, whether it waits or runs.

        Raises:
            OverloadedError: On entering, if the user, the tenant or all together have too much
                admitted.
        """
        return _Admitted(self, owner, size)

    def slot(self, owner: Owner) -> AbstractAsyncContextManager[None]:
        """Hold a slot while the context lasts; entering waits for it. The work must be admitted."""
        return _Slot(self, owner)

    def admit(self, owner: Owner, size: int) -> None:
        """Count work as admitted; `admitted` calls this on entering."""
        limits = self._limits
        tenant = self._tenants.get(owner[0]) or _Tenant()
        user = tenant.users.get(owner[1]) or _User()
        if user.is_full(limits.user_waiting, limits.user_waiting_bytes, size):
            raise OverloadedError(retry_after=self._retry_after(user))
        if tenant.is_full(limits.tenant_waiting, limits.tenant_waiting_bytes, size):
            raise OverloadedError(retry_after=self._retry_after(tenant))
        if self._all.is_full(limits.waiting, limits.waiting_bytes, size):
            raise OverloadedError(retry_after=self._retry_after(self._all))
        self._tenants[owner[0]] = tenant
        tenant.users[owner[1]] = user
        for usage in (user, tenant, self._all):
            usage.admitted += 1
            usage.size += size

    def leave(self, owner: Owner, size: int) -> None:
        """Stop counting admitted work; `admitted` calls this on leaving."""
        tenant = self._tenants[owner[0]]
        user = tenant.users[owner[1]]
        for usage in (user, tenant, self._all):
            usage.admitted -= 1
            usage.size -= size
        if not user.admitted:
            del tenant.users[owner[1]]
        if not tenant.admitted:
            del self._tenants[owner[0]]
        now = time.monotonic()
        self._pace = PACE_SMOOTHING * self._pace + (1 - PACE_SMOOTHING) * (now - self._ended_at)
        self._ended_at = now

    async def acquire(self, owner: Owner) -> None:
        """Wait for a slot; `slot` calls this on entering."""
        tenant = self._tenants[owner[0]]
        user = tenant.users[owner[1]]
        limits = self._limits
        may_begin = tenant.running < limits.tenant_requests and user.running < limits.user_requests
        if not user.waiting and self._is_free() and may_begin:
            self._begin(tenant, user)
        else:
            turn = asyncio.get_running_loop().create_future()
            user.waiting.append(turn)
            tenant.waiting[owner[1]] = user
            self._waiting[owner[0]] = tenant
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # the slot was assigned at the same moment
                    self._end(tenant, user)
                raise

    def release(self, owner: Owner) -> None:
        """Release a slot; `slot` calls this on leaving."""
        tenant = self._tenants[owner[0]]
        self._end(tenant, tenant.users[owner[1]])

    def _is_free(self) -> bool:
        return self._all.running < self._limits.requests

    def _begin(self, tenant: _Tenant, user: _User) -> None:
        for usage in (user, tenant, self._all):
            usage.running += 1

    def _end(self, tenant: _Tenant, user: _User) -> None:
        for usage in (user, tenant, self._all):
            usage.running -= 1
        while self._waiting and self._is_free():
            # The next slot is for the oldest work of the next user of the next tenant.
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
                return
            tenant_name, tenant, user_name, user = found
            turn = user.waiting.popleft()
            del tenant.waiting[user_name]
            if user.waiting:
                tenant.waiting[user_name] = user  # after the others
            del self._waiting[tenant_name]
            if tenant.waiting:
                self._waiting[tenant_name] = tenant
            if not turn.done():  # otherwise it was cancelled
                self._begin(tenant, user)
                turn.set_result(None)

    def _retry_after(self, usage: _Usage) -> float:
        """The seconds until about half of the admitted work is done."""
        seconds = self._pace * usage.admitted / 2
        return round(min(max(seconds, MIN_RETRY_AFTER), MAX_RETRY_AFTER), 2)


class _Admitted:
    """The context of `admitted`. A generator would take twice the time for every request."""

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
    """The limits and the current work of one stack, shared by everything that serves requests."""

    def __init__(self, limits: LimitSettings | None = None) -> None:
        self._limits = limits = limits or LimitSettings()
        self._slots = FairSlots(limits)
        self._rates = Rates(limits.tenant_rate, limits.tenant_burst)
        self._user_rates = Rates(limits.user_rate, limits.user_burst)

    def admitted(self, owner: Owner, data: bytes) -> AbstractContextManager[None]:
        """Count a request as admitted while the context lasts, whether it waits or runs.

        Raises:
            TooLargeError: The request has too many bytes.
            BadRequestError: It is nested too deeply.
            OverloadedError: The owner exceeds its rate; or, on entering, too much is admitted.
        """
        if len(data) > self._limits.request_bytes:
            raise TooLargeError(
                f"The request has {len(data):,} bytes; {self._limits.request_bytes:,} are allowed.",
                remedy="Send it in parts, or raise request_bytes in config/limits.yaml.",
            )
        if is_nested_deeper(data, self._limits.nesting):
            raise BadRequestError(
                f"The request is nested more than {self._limits.nesting} deep.",
                remedy="Nest the arguments less deeply, or raise nesting in config/limits.yaml.",
            )
        self._user_rates.take_token(owner)
        self._rates.take_token(owner[0])
        return self._slots.admitted(owner, len(data))

    def slot(self, owner: Owner) -> AbstractAsyncContextManager[None]:
        """Hold a slot while the context lasts; entering waits for it. The work must be admitted."""
        return self._slots.slot(owner)


def is_nested_deeper(data: bytes, limit: int) -> bool:
    """Whether JSON is nested deeper than `limit`."""
    if data.count(b"{") + data.count(b"[") <= limit:  # true of almost every request
        return False
    import numpy as np  # noqa: PLC0415 - clients have no use for it

    by_bracket = np.zeros(256, np.int64)
    by_bracket[OPENING], by_bracket[CLOSING] = 1, -1
    unescaped = data.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = b"".join(unescaped.translate(None, OTHERS).split(b'"')[::2])  # outside of strings
    changes = by_bracket[np.frombuffer(brackets, np.uint8)]
    return bool(changes.size and np.cumsum(changes).max() > limit)


class Rates:
    """A token bucket for each owner: it refills at a fixed rate, and a request takes one token."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(max(burst, 1))
        self._buckets = BoundedDict[object, tuple[float, float]](MAX_BUCKETS)

    def take_token(self, owner: object) -> None:
        """Raise OverloadedError if the owner's bucket is empty."""
        if not self._rate:
            return
        now = time.monotonic()
        tokens, updated_at = self._buckets.get(owner, (self._burst, now))
        tokens = min(tokens + (now - updated_at) * self._rate, self._burst)
        enough = tokens >= 1
        self._buckets[owner] = (tokens - 1 if enough else tokens, now)
        if not enough:
            raise OverloadedError(
                f"More than {self._rate:g} requests per second; nothing was done.",
                retry_after=round((1 - tokens) / self._rate, 3),
            )
