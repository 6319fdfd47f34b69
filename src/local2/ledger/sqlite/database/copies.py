"""Copies a database while others write to it, and migrates one after making a copy.

SQLite's own backup copies pages, so unchanged content is at the same position as in an earlier
copy. Pages of an encrypted database are encrypted again, with the same key. The copy from before a
migration has the number of its schema in its name. Only the newest one is kept (decision 0027).
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib.resources.abc import Traversable
from pathlib import Path

import structlog

from local2.content_key import ContentKey
from local2.errors import StorageError, UnwritableError
from local2.ledger.sqlite.database.connections import open_file
from local2.ledger.sqlite.database.soundness import as_storage_error

PAGES = 256
"""Number of pages copied at a time, about 1 MB; copying can be stopped after each such step."""
MEGABYTE = 1_000_000
RESERVE = 64 * MEGABYTE
"""Bytes that a copy leaves free on the disk, since JetStream and the ledger go on writing."""

Copied = Callable[[int], None]
"""Called with the number of bytes copied since the last call; raising an error stops the copy."""

log = structlog.get_logger()


def database_size(connection: sqlite3.Connection) -> int:
    """Return the size of the database in bytes."""
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
    _sync(target)
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


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def migrate(
    connection: sqlite3.Connection,
    path: Path,
    migrations: Sequence[Traversable],
    key: ContentKey | None,
) -> None:
    """Execute the missing migrations, all or none, after making a copy encrypted with `key`.

    Raises:
        StorageError: The database is newer than the migrations, or there is no space for a copy.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(migrations):
        raise StorageError(
            f"{path} has schema {version}; this local2 knows {len(migrations)}.",
            remedy="Update local2, or use another data folder.",
        )
    if version == len(migrations):
        return
    copied = _copy_before_migration(path, version, key) if version else None
    script = "\n".join(file.read_text(encoding="utf-8") for file in migrations[version:])
    connection.executescript(f"BEGIN; {script}\nPRAGMA user_version = {len(migrations)}; COMMIT;")
    for file in copies_before_migrations(path).values() if copied else ():
        if file != copied:
            file.unlink()


def copies_before_migrations(path: Path) -> dict[int, Path]:
    """Return a database's copies from before its migrations, by schema number."""
    beginning = f"{path.stem}.schema-"
    found = {
        file.name.removeprefix(beginning).removesuffix(path.suffix): file
        for file in path.parent.glob(f"{beginning}*{path.suffix}")
    }
    return {int(number): file for number, file in sorted(found.items()) if number.isdecimal()}


def delete_copies(path: Path) -> None:
    """Delete a database's copies from before its migrations.

    Raises:
        UnwritableError: A copy cannot be deleted.
    """
    for file in copies_before_migrations(path).values():
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise UnwritableError(file, error) from error
        log.info("kept_before_migration_deleted", path=str(file))


def _copy_before_migration(path: Path, version: int, key: ContentKey | None) -> Path:
    copied = path.with_name(f"{path.stem}.schema-{version}{path.suffix}")
    unfinished = copied.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    try:
        copy(path, unfinished, key)
    except StorageError:
        unfinished.unlink(missing_ok=True)
        raise
    unfinished.replace(copied)
    log.info("kept_before_migration", path=str(copied), schema=version)
    return copied
