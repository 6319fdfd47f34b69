"""The lock on the data folder, which one stack and its children hold together.

Two servers or two clients of Chroma on the same files would corrupt them without an error.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local.errors import FolderLockedError, UnwritableError

PRIVATE = 0o077
"""The umask of whatever writes into the data folder: nobody else reads what is remembered."""


@contextmanager
def folder_lock(folder: Path) -> Iterator[int]:
    """Lock the data folder for as long as the context lasts; yields the lock's file descriptor.

    Child processes that inherit the descriptor hold the lock until they are gone, too. So a server
    that outlives a killed stack never shares its files with a new one.

    Raises:
        FolderLockedError: Another process holds the folder; the message names it.
        UnwritableError: The folder cannot be made, or cannot be written to.
    """
    path = folder / "lock"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnwritableError(folder, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _locked(folder, path.read_text(encoding="utf-8").strip()) from None
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except OSError as error:
            raise UnwritableError(folder, error) from error
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(folder: Path, holder: str) -> FolderLockedError:
    """The error that names who holds the lock, as that process wrote itself into the file."""
    return FolderLockedError(
        f"{folder.resolve()} is in use by another stack (process {holder or 'unknown'}).",
        holder=int(holder) if holder.isdigit() else None,
        remedy="Use that one or stop it; a second stack needs LOCAL2_MEMORY__DATA_DIR and "
        "LOCAL2_MEMORY__CHROMA_PATH of its own.",
    )
