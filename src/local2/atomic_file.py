"""Replace a file so that readers, and a crash, see the old content or the new one; sync it."""

import os
from pathlib import Path

PRIVATE_FILE = 0o600
"""The mode of a file that only its owner may read and write."""


def write_atomically(
    path: Path, data: bytes, *, mode: int | None = None, durable: bool = False
) -> None:
    """Replace the content of a file completely, or not at all.

    Args:
        path: The file. Its folder must exist.
        data: The new content.
        mode: The permissions of the file; None means those of any new file.
        durable: Whether to wait for the disk, so that the content survives a power failure.

    Raises:
        OSError: It cannot be written; it is then as it was.
    """
    # tempfile would do the same, but is slow to import, and every hook imports this module.
    temporary = path.parent / f".local2-{os.urandom(8).hex()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666 if mode is None else PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """Sync a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
