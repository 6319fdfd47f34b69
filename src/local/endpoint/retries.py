"""When a request is sent again: after a back-off, or when the endpoint's rate limit allows it.

What an endpoint asks for is honoured, but never beyond the time that whoever asks has: then the
error says when to come back, and until then nothing is sent.
"""

import random
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import httpx

from local.endpoint.address import Endpoint
from local.endpoint.failures import silent
from local.errors import EndpointError

ATTEMPTS = 4
FIRST_PAUSE = 0.5
"""Seconds before the second attempt; twice as long before each further one, more or less, so that
those who were refused together do not come back together."""
LONGEST_PAUSE = 300.0
"""Seconds that an endpoint is left alone at most, whatever it asks for."""
LIMITED = {httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE}
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")


class RateLimit:
    """Until when an endpoint wants nothing to be sent."""

    def __init__(self) -> None:
        self._free_at = 0.0

    def note(self, status: int, headers: Mapping[str, str]) -> None:
        """Learn from an answer; a refusal says how long to wait, any answer what is left."""
        pause = _exhausted(headers)
        if status in LIMITED:
            pause = _asked_for(headers) or pause
        if pause:
            self._free_at = time.monotonic() + min(pause, LONGEST_PAUSE)

    def left(self) -> float:
        """Seconds until something may be sent."""
        return max(self._free_at - time.monotonic(), 0.0)


class Retries:
    """The attempts of one request."""

    def __init__(
        self,
        endpoint: Endpoint,
        limit: RateLimit,
        *,
        within: float,
        patience: float | None = None,
        attempts: int = ATTEMPTS,
    ) -> None:
        """`within`: seconds for all of them; `patience`: for one pause, if that is less."""
        self._endpoint = endpoint
        self._limit = limit
        self._within = within
        self._ends = time.monotonic() + within
        self._patience = within if patience is None else patience
        self._attempts = attempts
        self._made = 0
        self._back_off = 0.0
        self._error: EndpointError | None = None

    @property
    def left(self) -> float:
        """Seconds for the attempt that begins now."""
        return max(self._ends - time.monotonic(), 0.001)

    def pause(self) -> float:
        """Seconds to wait before the next attempt.

        Raises:
            EndpointError: They are more than there are, or than anybody waits.
        """
        limited = self._limit.left()
        pause = max(limited, self._back_off)
        if pause > min(self.left, self._patience):
            error = self._error or EndpointError(
                "limited", f"{self._endpoint.shown} wants to be left alone for a while."
            )
            if limited:
                error.retry_after = limited
                error.remedy = f"It is asked again in {limited:.0f} s at the earliest."
            raise error
        return pause

    def failed(self, error: EndpointError) -> None:
        """Let the next attempt come.

        Raises:
            EndpointError: There is none.
        """
        self._made += 1
        if not error.again or self._made >= self._attempts:
            raise error
        self._error = error
        self._back_off = FIRST_PAUSE * 2 ** (self._made - 1) * random.uniform(0.75, 1.25)  # noqa: S311 - no secret

    def silent(self) -> EndpointError:
        """The error of an attempt for which no time was left."""
        return silent(self._endpoint, self._within)


def _asked_for(headers: Mapping[str, str]) -> float:
    """Seconds that a refusal asks to wait; 0 if it does not say."""
    if milliseconds := _number(headers.get("retry-after-ms", "")):
        return milliseconds / 1_000
    wanted = headers.get("retry-after", "")
    if seconds := _number(wanted):
        return seconds
    try:
        return max(parsedate_to_datetime(wanted).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return 0.0


def _exhausted(headers: Mapping[str, str]) -> float:
    """Seconds until requests or tokens are given again, where none are left."""
    resets = (
        _seconds(headers.get(f"x-ratelimit-reset-{what}", ""))
        for what in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{what}") == "0"
    )
    return max(resets, default=0.0)


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text.strip()) else 0.0


def _seconds(duration: str) -> float:
    """Of a duration such as 6m0s, 20ms or 1.5."""
    parts = _DURATION.findall(duration[:40])
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
