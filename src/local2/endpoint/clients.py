"""HTTP clients for an endpoint: one for the event loop, one for a thread. Both retry requests.

They retry after a back-off, or when the endpoint's rate limit permits it. Delays that the endpoint
asks for are respected. If such a delay exceeds the caller's time, the error states when to try
again, and nothing is sent until then.
"""

import asyncio
import random
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Self

import httpx
import msgspec

from local2.background import Backoff
from local2.endpoint.address import (
    Endpoint,
    EndpointError,
    status_error,
    timeout_error,
    unreachable_error,
)

ATTEMPTS = 4
FIRST_PAUSE = 0.5
"""Seconds before the second attempt, doubled before each further one. The pauses vary randomly, so
that requests which were refused together are not retried together."""
LONGEST_PAUSE = 300.0
"""Maximum number of seconds without requests to an endpoint, even if it asks for a longer delay."""
LIMITING_STATUSES = {httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE}
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")
CONNECT_SECONDS = 5.0


class RateLimit:
    """Tracks until when an endpoint accepts no requests."""

    def __init__(self) -> None:
        self._free_at = 0.0

    def update(self, status: int, headers: Mapping[str, str]) -> None:
        """Update the limit from an answer's headers: a requested delay, or an exhausted limit."""
        resets = (
            _seconds(headers.get(f"x-ratelimit-reset-{what}", ""))
            for what in ("requests", "tokens")
            if headers.get(f"x-ratelimit-remaining-{what}") == "0"
        )
        pause = max(resets, default=0.0)
        if status in LIMITING_STATUSES:
            pause = _requested_delay(headers) or pause
        if pause:
            self._free_at = time.monotonic() + min(pause, LONGEST_PAUSE)

    def seconds_left(self) -> float:
        """The seconds until a request may be sent."""
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
        """`within`: seconds for all attempts; `patience`: seconds for one pause, if less."""
        self._endpoint = endpoint
        self._limit = limit
        self._within = within
        self._ends = time.monotonic() + within
        self._patience = within if patience is None else patience
        self._attempts = attempts
        self._made = 0
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._pause = 0.0
        self._error: EndpointError | None = None

    @property
    def left(self) -> float:
        """Seconds left for the next attempt."""
        return max(self._ends - time.monotonic(), 0.001)

    def pause(self) -> float:
        """The seconds to wait before the next attempt.

        Raises:
            EndpointError: The wait would exceed the time left, or `patience`.
        """
        limited = self._limit.seconds_left()
        pause = max(limited, self._pause)
        if pause > min(self.left, self._patience):
            error = self._error or EndpointError(
                "limited", f"{self._endpoint.shown} currently accepts no requests."
            )
            if limited:
                error.retry_after = limited
                error.remedy = f"The next request is sent in {limited:.0f} s at the earliest."
            raise error
        return pause

    def failed(self, error: EndpointError) -> None:
        """Record a failure, and prepare the next attempt.

        Raises:
            EndpointError: No attempt is left, or retrying is pointless.
        """
        self._made += 1
        if not error.retryable or self._made >= self._attempts:
            raise error
        self._error = error
        self._pause = self._backoff.next_pause() * random.uniform(0.75, 1.25)  # noqa: S311 - no secret

    def timeout_error(self) -> EndpointError:
        return timeout_error(self._endpoint, self._within)


def _requested_delay(headers: Mapping[str, str]) -> float:
    """The seconds that a refusal asks to wait; 0 if it states none."""
    if milliseconds := _number(headers.get("retry-after-ms", "")):
        return milliseconds / 1_000
    wanted = headers.get("retry-after", "")
    if seconds := _number(wanted):
        return seconds
    try:
        return max(parsedate_to_datetime(wanted).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return 0.0


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text.strip()) else 0.0


def _seconds(duration: str) -> float:
    """A duration such as 6m0s, 20ms or 1.5 in seconds."""
    parts = _DURATION.findall(duration[:40])
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


Json = dict[str, Any]


class AsyncEndpointClient:
    """Sends requests from the event loop; create it with `open`."""

    def __init__(self, endpoint: Endpoint, client: httpx.AsyncClient) -> None:
        self.endpoint = endpoint
        self._client = client
        self._limit = RateLimit()

    @classmethod
    async def open(cls, endpoint: Endpoint) -> Self:
        # In a thread, because creating a client reads the system's certificates. httpx has no
        # timeout for a whole request, only for each read; `Retries` limits the whole.
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        client = await asyncio.to_thread(
            httpx.AsyncClient, headers=endpoint.headers, timeout=timeout
        )
        return cls(endpoint, client)

    async def get(self, path: str, *, within: float) -> bytes:
        """Send a request once, without a body.

        Raises:
            EndpointError: There was no answer in time, or one with an error status.
        """
        request = self._client.build_request("GET", self.endpoint.at(path))
        return (await self._answer(request, "", within, attempts=1)).content

    async def post(
        self, path: str, body: Json, *, within: float, attempts: int = ATTEMPTS
    ) -> bytes:
        """Send a body that names a model; return the content of the answer.

        Raises:
            EndpointError: All attempts got no answer in time, or one with an error status.
        """
        request = self._request(path, body)
        return (await self._answer(request, body["model"], within, attempts=attempts)).content

    async def begin(self, path: str, body: Json, *, within: float) -> httpx.Response:
        """Send a body that names a model; return the answer as a stream, which must be closed.

        Raises:
            EndpointError: In all attempts, no answer began in time, or it had an error status.
        """
        request = self._request(path, body)
        return await self._answer(request, body["model"], within, whole=False)

    async def close(self) -> None:
        await self._client.aclose()

    def _request(self, path: str, body: Json) -> httpx.Request:
        content = msgspec.json.encode(body)
        return self._client.build_request("POST", self.endpoint.at(path), content=content)

    async def _answer(
        self,
        request: httpx.Request,
        model: str,
        within: float,
        *,
        attempts: int = ATTEMPTS,
        whole: bool = True,
    ) -> httpx.Response:
        """Send a request until it succeeds or attempts are over; `whole`: the content is read."""
        retries = Retries(self.endpoint, self._limit, within=within, attempts=attempts)
        while True:
            await asyncio.sleep(retries.pause())
            try:
                async with asyncio.timeout(retries.left):
                    response = await self._client.send(request, stream=True)
                    self._limit.update(response.status_code, response.headers)
                    if response.is_success and not whole:
                        return response
                    try:
                        content = await response.aread()
                    finally:
                        await response.aclose()
            except TimeoutError as error:
                raise retries.timeout_error() from error
            except httpx.HTTPError as error:
                problem = unreachable_error(self.endpoint, error)
            else:
                if response.is_success:
                    return response
                problem = status_error(self.endpoint, response.status_code, content, model)
            retries.failed(problem)


class EndpointClient:
    """Sends requests from a thread, one at a time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._client = httpx.Client(headers=endpoint.headers)
        self._limit = RateLimit()

    def post(
        self, path: str, body: Json, *, within: float, patience: float, attempts: int = ATTEMPTS
    ) -> bytes:
        """Send a body that names a model; return the content of the answer.

        `within`: seconds for all attempts. `patience`: seconds for one pause between attempts.

        Raises:
            EndpointError: All attempts got no answer in time, or one with an error status.
        """
        url, content = self.endpoint.at(path), msgspec.json.encode(body)
        retries = Retries(
            self.endpoint, self._limit, within=within, patience=patience, attempts=attempts
        )
        while True:
            time.sleep(retries.pause())
            try:
                status, answer = self._exchange(url, content, retries)
            except httpx.ReadTimeout as error:
                raise retries.timeout_error() from error
            except httpx.HTTPError as error:
                problem = unreachable_error(self.endpoint, error)
            else:
                if httpx.codes.is_success(status):
                    return answer
                problem = status_error(self.endpoint, status, answer, body["model"])
            retries.failed(problem)

    def close(self) -> None:
        self._client.close()

    def _exchange(self, url: httpx.URL, content: bytes, retries: Retries) -> tuple[int, bytes]:
        """Send and read within the time left; httpx itself only limits each read."""
        left = retries.left
        ends = time.monotonic() + left
        timeout = httpx.Timeout(left, connect=min(left, CONNECT_SECONDS))
        with self._client.stream("POST", url, content=content, timeout=timeout) as response:
            self._limit.update(response.status_code, response.headers)
            pieces: list[bytes] = []
            for piece in response.iter_bytes():
                pieces.append(piece)
                if time.monotonic() > ends:
                    raise httpx.ReadTimeout("The answer was not complete in time.")
            return response.status_code, b"".join(pieces)
