"""Requests are retried when the endpoint allows it, and never beyond the time limit."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from local2.endpoint.address import Endpoint, EndpointError
from local2.endpoint.clients import LONGEST_PAUSE, RateLimit, Retries

ENDPOINT = Endpoint(url="http://127.0.0.1:1/v1", settings="config/memory.yaml")


def endpoint_error(*, retryable: bool = True) -> EndpointError:
    return EndpointError("failed", "It failed.", retryable=retryable)


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, {"retry-after": "7"}, 7),
        (503, {"retry-after": "1.5"}, 1.5),
        (429, {"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        (429, {"retry-after": "999999999"}, LONGEST_PAUSE),
        (429, {"retry-after": "soon"}, 0),
        (429, {"retry-after": "-3"}, 0),
        (429, {}, 0),
        (200, {"retry-after": "7"}, 0),
        (200, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20ms"}, 0.02),
        (200, {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m2.5s"}, 62.5),
        (200, {"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "1m"}, 0),
        (429, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "3"}, 3),
    ],
)
def test_an_endpoint_is_not_called_for_as_long_as_it_asks(
    status: int, headers: dict[str, str], seconds: float
) -> None:
    limit = RateLimit()
    limit.update(status, headers)
    assert limit.seconds_left() == pytest.approx(seconds, abs=0.02 if seconds < 1 else 1)


def test_a_retry_after_date_is_read() -> None:
    limit = RateLimit()
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    limit.update(429, {"retry-after": at})
    assert limit.seconds_left() == pytest.approx(100, abs=5)


def test_pauses_become_longer_and_end_after_the_last_attempt() -> None:
    retries = Retries(ENDPOINT, RateLimit(), within=3600, attempts=4)
    pauses = [retries.pause()]
    for _ in range(3):
        retries.failed(endpoint_error())
        pauses.append(retries.pause())
    assert pauses[0] == 0
    assert 0 < pauses[1] < pauses[2] < pauses[3] < 3
    with pytest.raises(EndpointError, match="It failed"):
        retries.failed(endpoint_error())


def test_an_error_that_is_not_retryable_is_not_retried() -> None:
    with pytest.raises(EndpointError, match="It failed"):
        Retries(ENDPOINT, RateLimit(), within=3600).failed(endpoint_error(retryable=False))


@pytest.mark.parametrize("bounds", [{"within": 30.0}, {"within": 300.0, "patience": 2.0}])
def test_a_pause_beyond_the_time_limit_is_an_error_at_once(bounds: dict[str, float]) -> None:
    limit = RateLimit()
    limit.update(429, {"retry-after": "60"})
    retries = Retries(ENDPOINT, limit, **bounds)  # type: ignore[arg-type]
    began = time.monotonic()
    with pytest.raises(EndpointError, match="currently accepts no requests") as caught:
        retries.pause()
    assert time.monotonic() - began < 30
    assert caught.value.retry_after == pytest.approx(60, abs=5)
