"""What is looked at before anything is done for a request: its size, depth and rate, and its turn.

Whatever is too much is refused at once, with what was too much and when to come back.
"""

import re
import time
from collections import OrderedDict
from contextlib import AbstractAsyncContextManager, AbstractContextManager

import numpy as np

from local.errors import BadRequestError, OverloadedError, TooLargeError
from local.fair_slots import FairSlots, Owner
from local.settings import LimitSettings

BUCKETS = 10_000
"""Owners whose rate is known; of more, who asked longest ago begins anew, with a whole burst."""
STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
STEPS = np.zeros(256, np.int64)
STEPS[list(b"[{")], STEPS[list(b"]}")] = 1, -1


class Admission:
    """What one stack takes; whoever serves requests shares it."""

    def __init__(self, limits: LimitSettings | None = None) -> None:
        self._limits = limits = limits or LimitSettings()
        self._slots = FairSlots(limits)
        self._rates = _Rates(limits.tenant_rate, limits.tenant_burst)
        self._user_rates = _Rates(limits.user_rate, limits.user_burst)

    def admitted(self, owner: Owner, data: bytes) -> AbstractContextManager[None]:
        """Count a request as admitted while the context lasts, waiting or running.

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
    """Whether JSON is nested deeper; most requests have fewer brackets altogether."""
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
