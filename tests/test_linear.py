"""Reading ten times the text takes about ten times as long, whatever the text."""

import time

import pytest

from abuse.worst import CASES, Case, repeated

SIZE = 400_000
MIN_SECONDS = 0.002
"""Minimum seconds: less says nothing about growth."""
GROWTH = 50
"""Linear is 10, or 20 where the larger text is read in overlapping parts; quadratic is 100."""
MAX_ATTEMPTS = 3
"""One linear attempt is enough: other load on the machine can only slow an attempt down."""


@pytest.mark.parametrize(
    ("case", "unit"),
    [pytest.param(c, unit, id=f"{c.name} {unit!a}") for c in CASES for unit in c.made_of],
)
def test_ten_times_the_worst_text_takes_linear_time(case: Case, unit: str) -> None:
    size = int(SIZE * case.part)
    few = max(
        MIN_SECONDS, min(_seconds(case, repeated(unit, size // 10)) for _ in range(MAX_ATTEMPTS))
    )
    assert any(_seconds(case, repeated(unit, size)) < GROWTH * few for _ in range(MAX_ATTEMPTS))


def _seconds(case: Case, text: str) -> float:
    """Return this thread's processor time, which other load does not affect."""
    begun = time.thread_time()
    case.work(text)
    return time.thread_time() - begun
