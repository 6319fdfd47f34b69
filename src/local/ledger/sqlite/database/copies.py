"""Copies of a database while others write to it, and migrations, which leave a copy first.

SQLite's own backup copies pages, so that unchanged content lies where it lay in an earlier copy.
Pages of an encrypted database are encrypted again, with the same key. The copy from before a
migration has the number of its schema in its name. Only the newest one stays (decision 0059).
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib.resources.abc import Traversable
from pathlib import Path

import structlog

from local.content_key import ContentKey
from local.errors import StorageError, UnwritableError
from local.ledger.sqlite.database.connections import open_file
from local.ledger.sqlite.database.soundness import as_storage_error

PAGES = 256
"""Pages copied at a time, about 1 MB; a copy can be stopped after each."""
MEGABYTE = 1_000_000
RESERVE = 64 * MEGABYTE
"""What a copy leaves free on a disk: JetStream and the ledger go on writing."""

Copied = Callable[[int], None]
"""Is called with how many further bytes were copied; an error that it raises stops the copy."""

log = structlog.get_logger()


def size_of(connection: sqlite3.Connection) -> int:
    """Return the bytes of the database."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(size)


def copy(
    source: Path, target: Path, key: ContentKey | None, copied: Copied = lambda _: None
) -> int:
    """Copy all that is committed now into a new file, readable by its owner only.

    Returns its size in bytes. The target must not exist; the key is that of both.

    Raises:
        LedgerKeyError: The key is another's.
        StorageError: It cannot be read, or there is no room.
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
            reading.execute("SELECT count(*) FROM sqlite_master").fetchone()  # from here on
            size = size_of(reading)
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

    writing.execute("PRAGMA synchronous = OFF")  # it is synced once it is complete
    reading.backup(writing, pages=PAGES, progress=advanced)


def refuse_without_room(folder: Path, needed: int) -> None:
    """Refuse to fill the disk.

    Raises:
        StorageError: The free space is less than this and a reserve.
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
    """Execute the migrations that the database lacks, all or none; `key` encrypts the copy, too.

    Raises:
        StorageError: It is newer than they are, or there is no room for a copy.
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
    """Return a database's copies from before its migrations, by the numbers of their schemas."""
    beginning = f"{path.stem}.schema-"
    found = {
        file.name.removeprefix(beginning).removesuffix(path.suffix): file
        for file in path.parent.glob(f"{beginning}*{path.suffix}")
    }
    return {int(number): file for number, file in sorted(found.items()) if number.isdecimal()}


def delete_copies(path: Path) -> None:
    """Delete the copies of a database from before its migrations.

    Raises:
        UnwritableError: One of them cannot be deleted.
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
