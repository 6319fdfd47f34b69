"""Ten times the text takes whatever reads it about ten times as long, however it was written."""

import time

import pytest

from worst import CASES, Case, repeated

SIZE = 400_000
LEAST = 0.002
"""Seconds; what takes less says nothing about how it grows."""
GROWTH = 50
"""Linear is 10, or 20 where the larger text is read in parts that overlap; quadratic is 100."""
TRIES = 3
"""One that is linear is enough: whatever else the machine does makes one slower, none faster."""


@pytest.mark.parametrize(
    ("case", "unit"),
    [pytest.param(c, unit, id=f"{c.name} {unit!a}") for c in CASES for unit in c.made_of],
)
def test_ten_times_the_worst_text_takes_no_hundred_times_as_long(case: Case, unit: str) -> None:
    size = int(SIZE * case.part)
    few = max(LEAST, min(_seconds(case, repeated(unit, size // 10)) for _ in range(TRIES)))
    assert any(_seconds(case, repeated(unit, size)) < GROWTH * few for _ in range(TRIES))


def _seconds(case: Case, text: str) -> float:
    """Of this thread's processor, whatever else the machine does."""
    begun = time.thread_time()
    case.work(text)
    return time.thread_time() - begun
