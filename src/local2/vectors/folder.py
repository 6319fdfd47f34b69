"""Locks the folder of the index, records how its last owner left it, and opens Chroma's client.

Two Chroma clients on one folder corrupt it silently, hence `.lock`. A kill during a write can make
Chroma fail or crash (SIGSEGV) as soon as the folder is opened or first queried, hence `.opening`:
if it exists, the last attempt to open the folder failed. `.dirty` means that the last owner did not
close the folder.
"""

import fcntl
import os
import re
import shutil
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import chromadb
import numpy as np
from chromadb.api.shared_system_client import SharedSystemClient
from chromadb.config import Settings
from chromadb.errors import ChromaError, InternalError, NotFoundError

from local2.atomic_file import sync
from local2.errors import FolderLockedError, IndexDamagedError, UnwritableError, VectorError
from local2.vectors.config import DIRTY_MARKER, own_collections

LOCK_WAIT = 10.0
"""Maximum number of seconds to wait for the lock: the previous worker may still be ending."""
LOCK_POLL = 0.05
"""Seconds between two attempts to take the lock; `flock` itself has no timeout."""


NOT_DAMAGE = re.compile(r"\(code: (5|8|13)\)")
"""SQLite's codes for a locked file, a read-only disk and a full disk: errors that emptying the
folder does not fix."""


class IndexFolder:
    """A locked folder with its marker files; `acquire` creates it."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.was_clean = not (path / DIRTY_MARKER).exists()
        self._lock = lock
        _write_marker(path / DIRTY_MARKER)

    @classmethod
    def acquire(cls, path: Path) -> Self:
        """Create the folder if necessary, and lock it until `release`.

        Raises:
            FolderLockedError: Another process held the lock for LOCK_WAIT seconds.
            UnwritableError: The folder cannot be created, or not be written to.
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = _take_lock(path / ".lock")
            try:
                return cls(path, lock)
            except BaseException:
                os.close(lock)
                raise
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
        """Create the folder and its marker files again if they were deleted.

        Raises:
            UnwritableError: The folder cannot be created, or not be written to.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = self.path / ".lock"
            if not lock.exists() or not os.path.samestat(lock.stat(), os.fstat(self._lock)):
                taken = _take_lock(lock)
                os.close(self._lock)
                self._lock = taken
            _write_marker(self.path / DIRTY_MARKER)
        except OSError as error:
            raise UnwritableError(self.path, error) from error

    def wipe(self) -> None:
        """Delete the files that Chroma wrote, but no others."""
        self.was_clean = False
        for entry in self.path.glob("chroma.sqlite3*"):
            entry.unlink()
        self.drop_segments()

    def drop_segments(self, segments: Collection[str] | None = None) -> None:
        """Delete the folders of Chroma's segments, or only of these."""
        for entry in self.path.iterdir():
            with suppress(ValueError):  # whatever has another name is not Chroma's
                uuid.UUID(entry.name)
                if entry.is_dir() and (segments is None or entry.name in segments):
                    shutil.rmtree(entry)

    def release(self, *, clean: bool) -> None:
        """Unlock the folder; unless `clean`, the next owner will compare the index."""
        if clean:
            (self.path / DIRTY_MARKER).unlink(missing_ok=True)
        os.close(self._lock)


def _take_lock(file: Path) -> int:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + LOCK_WAIT
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
            time.sleep(LOCK_POLL)
        else:
            return descriptor


def _write_marker(file: Path) -> None:
    """Create an empty file that survives a power cut."""
    with file.open("w") as marker:
        os.fsync(marker.fileno())
    sync(file.parent)


def ready_client(folder: IndexFolder, collection: str) -> Any:
    """Open Chroma on the folder, and query every collection once, which reveals damage."""
    if folder.died_opening:
        folder.wipe()
    folder.begin_opening()
    try:
        client = _probed_client(folder.path, collection)
    except VectorError:
        folder.wipe()
        client = _probed_client(folder.path, collection)
    folder.end_opening()
    return client


def _probed_client(path: Path, collection: str) -> Any:
    client = None
    try:
        with translated(f"open {path}"):
            client = chromadb.PersistentClient(path, Settings(anonymized_telemetry=False))
            for own in own_collections(client, collection):
                probe = np.ones((1, own.metadata["dimensions"]), np.float32)
                own.query(query_embeddings=probe, n_results=1)
    except BaseException:
        close_client(client)
        raise
    return client


def close_client(client: Any | None) -> None:
    """Close a client that failed, and clear Chroma's cache, which would return it again."""
    if client is not None:
        client.close()
    SharedSystemClient.clear_system_cache()


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Convert Chroma's errors, including ValueError, to VectorError.

    An internal error, or a missing collection, means that the files are damaged.
    """
    try:
        yield
    except (ChromaError, ValueError) as error:
        problem = f"Chroma could not {action}: {error}."
        if NOT_DAMAGE.search(problem):
            remedy = "Check the disk's space and the permissions of `chroma_path`."
            raise VectorError(problem, remedy=remedy) from error
        if isinstance(error, (InternalError, NotFoundError)):
            raise IndexDamagedError(problem) from error
        raise VectorError(problem) from error
