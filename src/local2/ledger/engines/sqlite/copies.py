"""Copies a database while others write to it.

SQLite's own backup copies pages, so unchanged content is at the same position as in an earlier
copy. Pages of an encrypted database are encrypted again, with the same key.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from local2.content_key import ContentKey
from local2.errors import StorageError, UnwritableError
from local2.ledger.engines.sqlite.connections import open_file
from local2.ledger.engines.sqlite.soundness import as_storage_error

PAGES = 256
"""Number of pages copied at a time, about 1 MB; copying can be stopped after each such step."""
MEGABYTE = 1_000_000
RESERVE = 64 * MEGABYTE
"""Bytes that a copy leaves free on the disk, since JetStream and the ledger go on writing."""

Copied = Callable[[int], None]
"""Called with the number of bytes copied since the last call; raising an error stops the copy."""


def database_size(connection: sqlite3.Connection) -> int:
    """The size of the database in bytes."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(size)


def copy(
    source: Path, target: Path, key: ContentKey | None, copied: Copied = lambda _: None
) -> int:
    """Copy everything committed so far into a new file, readable by its owner only.

    Returns the size in bytes. The target must not exist; `key` encrypts both files.

    Raises:
        LedgerKeyError: The key belongs to another file.
        StorageError: The source cannot be read, or there is not enough space.
    """
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise UnwritableError(target.parent, error) from error
    with (
        closing(open_file(source, key, isolation_level=None)) as reading,
        closing(open_file(target, key, isolation_level=None)) as writing,
    ):
        try:
            reading.execute("BEGIN")
            reading.execute("SELECT count(*) FROM sqlite_master").fetchone()  # begins the snapshot
            size = database_size(reading)
            refuse_without_room(target.parent, size)
            _copy_pages(reading, writing, size, copied)
            writing.execute("PRAGMA journal_mode = DELETE")
        except reading.Error as error:
            raise as_storage_error(error, source) from error
    descriptor = os.open(target, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return size


def _copy_pages(
    reading: sqlite3.Connection, writing: sqlite3.Connection, size: int, copied: Copied
) -> None:
    done = 0

    def advanced(_: int, left: int, total: int) -> None:
        nonlocal done
        now = size * (total - left) // max(total, 1)
        copied(now - done)
        done = now

    writing.execute("PRAGMA synchronous = OFF")  # the complete copy is synced later
    reading.backup(writing, pages=PAGES, progress=advanced)


def refuse_without_room(folder: Path, needed: int) -> None:
    """Check that a disk has enough space for `needed` bytes and a reserve.

    Raises:
        StorageError: It has not.
    """
    free = shutil.disk_usage(folder).free
    if free < needed + RESERVE:
        wanted = (needed + RESERVE) // MEGABYTE
        raise StorageError(
            f"{folder} has {free // MEGABYTE} MB left, and {wanted} MB are needed.",
            remedy="Make room on its disk.",
        )
