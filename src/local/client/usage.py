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
from local.runtime import USED

POLL = 0.05
"""Seconds between two attempts to share the lock while a stack stops."""


class FileLock:
    """A lock on a file, given back when the context ends, or the process does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = -1

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UnwritableError(self._path.parent, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def take(self, *, shared: bool = False) -> bool:
        """Whether it is held from now on; at once, and also if it was held before."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self._lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def leave(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)


class Usage(FileLock):
    """The lock, for a client or for the stack."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir / USED)
        self._last = time.time()

    async def begin(self, *, within: float) -> None:
        """As a client: use the stack from now on; one that is stopping is waited for.

        Raises:
            StackNotRunningError: It has not stopped within so many seconds.
        """
        deadline = asyncio.get_running_loop().time() + within
        while not self.take(shared=True):
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

        Nobody until the context ends: a client would count on a stack that is stopping. Where
        another stack has found so, it is over for this one, too.
        """
        if not self.take():
            self._last = time.time()
            another = not self.take(shared=True)
            self.leave()
            return another
        if time.time() - max(self._last, os.fstat(self._lock).st_mtime) >= linger:
            return True
        self.leave()
        return False
