"""Whether the vector index is damaged, and when it may be rebuilt.

At once the first time. One that was rebuilt and is damaged again within ten minutes waits, each
time twice as long: what keeps it from lasting, as a full disk, is not mended by filling it again.
"""

import math
import time
from collections.abc import Callable

FIRST_PAUSE = 5.0
LAST_PAUSE = 600.0
STEADY = 600.0
"""Seconds after which an index that was rebuilt has lasted, and a crash is forgotten."""


class Damage:
    """What is known of one index; `reason` is empty while it is whole."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.reason = ""
        self.pending = False
        """It has yet to be emptied; from then on it is being filled."""
        self._pause = 0.0
        self._due = 0.0
        self._rebuilt_until = -math.inf
        self._crashed_until = -math.inf

    def found(self, reason: str) -> bool:
        """A call has shown that the index is damaged; whether that is news."""
        if self.pending:
            return False
        now = self._clock()
        lasted = now >= self._rebuilt_until
        self._pause = 0.0 if lasted else min(max(FIRST_PAUSE, 2 * self._pause), LAST_PAUSE)
        self._due = now + self._pause
        self.reason, self.pending = reason, True
        return True

    def crashed(self) -> bool:
        """The vector worker has crashed; whether it does so again and again."""
        now = self._clock()
        again = now < self._crashed_until
        self._crashed_until = now + STEADY
        return again

    def pause(self) -> float:
        """Seconds until the index may be rebuilt."""
        return max(self._due - self._clock(), 0.0)

    def tried(self) -> None:
        """The index was emptied, or could not even be."""
        self.pending = False
        self._rebuilt_until = self._clock() + STEADY

    def mended(self) -> None:
        """The index is whole."""
        self.reason, self.pending = "", False

    def __str__(self) -> str:
        said = f"The vector index was damaged and is rebuilt from the ledger. {self.reason}"
        if not self._pause:
            return said
        return (
            f"{said} That did not last before, so the next attempt waits for {self._pause:.0f} s. "
            "Check the disk's space and permissions."
        )
