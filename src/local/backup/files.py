"""Files of a backup: readable by their owner only, and known by hashes."""

import hashlib
import os
from pathlib import Path


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write(file: Path, data: bytes, *, synced: bool = True) -> None:
    with open(file, "xb", opener=private) as opened:
        opened.write(data)
        if synced:
            opened.flush()
            os.fsync(opened.fileno())


def private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def digest(data: bytes, key: bytes) -> str:
    return hashlib.blake2b(data, key=key, digest_size=32, person=b"local2-backup").hexdigest()
