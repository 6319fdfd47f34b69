"""The folder of the index: who holds it, and how its last owner left it.

Two Chroma clients on one folder corrupt it silently, hence `.lock`. A kill in the middle of a write
can make Chroma fail or crash (SIGSEGV) as soon as the folder is opened or first queried, hence
`.opening`: who finds it knows that the last attempt did not survive. `.dirty` says that the last
owner did not close the folder.
"""

import fcntl
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Self

from local.errors import FolderLockedError, UnwritableError

LOCK_WAIT_SECONDS = 10.0  # for a predecessor that is about to die
LOCK_POLL_SECONDS = 0.05


class IndexFolder:
    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.was_clean = not (path / ".dirty").exists()
        self._lock = lock
        _write_marker(path / ".dirty")

    @classmethod
    def acquire(cls, path: Path) -> Self:
        """Create the folder where it is missing, and lock it for the life of this object.

        Raises:
            FolderLockedError: another process holds it, and went on doing so for ten seconds.
            UnwritableError: it cannot be made, or not be written to.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            return cls(path, _locked(path / ".lock"))
        except OSError as error:
            raise UnwritableError(path, error) from error

    @property
    def died_opening(self) -> bool:
        return (self.path / ".opening").exists()

    def begin_opening(self) -> None:
        _write_marker(self.path / ".opening")

    def end_opening(self) -> None:
        (self.path / ".opening").unlink()

    def restore(self) -> None:
        """Make the folder and its markers again if somebody has deleted them.

        Raises:
            UnwritableError: it cannot be made, or not be written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = self.path / ".lock"
            if not lock.exists() or not os.path.samestat(lock.stat(), os.fstat(self._lock)):
                taken = _locked(lock)
                os.close(self._lock)
                self._lock = taken
            _write_marker(self.path / ".dirty")
        except OSError as error:
            raise UnwritableError(self.path, error) from error

    def wipe(self) -> None:
        """Delete what Chroma wrote, and nothing that somebody else may have put here."""
        self.was_clean = False
        for entry in self.path.glob("chroma.sqlite3*"):
            entry.unlink()
        self.drop_segments()

    def drop_segments(self) -> None:
        """Delete the folders in which Chroma keeps the vectors of its collections."""
        for entry in self.path.iterdir():
            if entry.is_dir() and _is_uuid(entry.name):
                shutil.rmtree(entry)

    def release(self, *, clean: bool) -> None:
        """Let the next owner in; not `clean` tells it not to trust the content."""
        if clean:
            (self.path / ".dirty").unlink(missing_ok=True)
        os.close(self._lock)


def _locked(file: Path) -> int:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise FolderLockedError(
                    f"Another process has the vector index in {file.parent} open.",
                    remedy="Stop it, or set another `chroma_path` in config/memory.yaml.",
                ) from error
            time.sleep(LOCK_POLL_SECONDS)
        else:
            return descriptor


def _write_marker(file: Path) -> None:
    """Create an empty file that is there after a power cut, too."""
    with file.open("w") as marker:
        os.fsync(marker.fileno())
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _is_uuid(name: str) -> bool:
    try:
        uuid.UUID(name)
    except ValueError:
        return False
    return True
