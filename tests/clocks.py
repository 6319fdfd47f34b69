"""Clocks that tests move."""

from datetime import UTC, datetime, timedelta


class MovableClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 5, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def move(self, **by: float) -> None:
        """Move it by the parts of a timedelta."""
        self.now += timedelta(**by)


class Seconds:
    """Counts seconds, as `time.monotonic` does, and stands still until a test adds some."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now
