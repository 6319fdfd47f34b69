"""Who uses a stack that is there for its clients only.

Its clients share a lock on a file in the data folder. The operating system takes it back from
whoever ends, however he ends, so a stack that can take it for itself has no client left.
"""

import asyncio
import fcntl
import os
import time
from pathlib import Path
from typing import Self

from local.errors import StackNotRunningError, UnwritableError

NAME = "clients.lock"
POLL = 0.05
"""Seconds between two attempts to share the lock while a stack stops."""


class Usage:
    """The lock, for a client or for the stack; given back when the context ends."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME
        self._lock = -1
        self._last = time.time()

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UnwritableError(self._path.parent, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    async def begin(self, *, within: float) -> None:
        """As a client: use the stack from now on; one that is stopping is waited for.

        Raises:
            StackNotRunningError: It has not stopped within so many seconds.
        """
        deadline = asyncio.get_running_loop().time() + within
        while not self._take(fcntl.LOCK_SH):
            if asyncio.get_running_loop().time() > deadline:
                raise StackNotRunningError(
                    f"The stack on {self._path.parent} is stopping, and has not ended yet.",
                    remedy="Try again. `local2 doctor` says which process it is.",
                )
            await asyncio.sleep(POLL)
        self.touch()

    def touch(self) -> None:
        """As a client: have used the stack just now."""
        os.utime(self._lock)

    def over(self, linger: float) -> bool:
        """As the stack: whether nobody has used it for so many seconds; if so, nobody can begin to.

        Nobody until the context ends: a client would count on a stack that is stopping.
        """
        if not self._take(fcntl.LOCK_EX):
            self._last = time.time()
            return False
        if time.time() - max(self._last, os.fstat(self._lock).st_mtime) >= linger:
            return True
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        return False

    def _take(self, kind: int) -> bool:
        try:
            fcntl.flock(self._lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
