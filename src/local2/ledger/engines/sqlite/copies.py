"""Copies a database while others write to it, and reads copies: whether they are whole.

SQLite's own backup copies pages, so unchanged content is at the same position as in an earlier
copy. Pages of an encrypted database are encrypted again, with the same key.

The statements here are about a whole file, with all its tenants: none is bound to a tenant.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from local2.atomic_file import sync
from local2.content_key import ContentKey
from local2.errors import DamagedError, StorageError, UnwritableError
from local2.ledger.engines.sqlite.connections import open_file, open_to_read
from local2.ledger.engines.sqlite.schema import SCHEMA, STATEMENTS, schema_number
from local2.ledger.engines.sqlite.soundness import as_storage_error, damages

PAGES = 256
"""Number of pages copied at a time, about 1 MB; copying can be stopped after each such step."""
MEGABYTE = 1_000_000
RESERVE = 64 * MEGABYTE
"""Bytes that a copy leaves free on the disk, since JetStream and the ledger go on writing."""
RESTORE_AND_EXPORT = (
    "Restore it with that one, and run `local2 export FILE` there; `local2 --home DIR up` starts "
    "this one with an empty memory, and `local2 --home DIR import FILE` fills it."
)

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
    sync(target)
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


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The extent of a ledger.

    `schema` is the number of its schema. `rows` counts the records of all tenants and the
    shells of erased ones, `records` only the former.
    """

    schema: int
    rows: int
    records: int


def verified_contents(file: Path, key: ContentKey | None) -> Contents:
    """Read all of a copy that no process has open; return what it contains.

    Raises:
        DamagedError: A page is damaged, or records are missing.
        LedgerKeyError: The key belongs to another ledger.
        StorageError: The file is no ledger, or has another schema.
    """
    with _opened(file, key, immutable=True) as connection:
        if found := damages(connection):
            raise DamagedError(f"{file} is damaged: {found[0]}.")
        refuse_another_schema(file, schema_number(connection))
        contents, last = _read_counts(connection)
    if last != contents.rows:
        raise DamagedError(f"{file} lacks {last - contents.rows} of {last} records.")
    return contents


def counts_of(file: Path, key: ContentKey | None) -> Contents:
    """The current counts of a ledger, without reading the rest of it.

    Raises:
        StorageError: The ledger cannot be read, or has another schema.
    """
    with _opened(file, key) as connection:
        SCHEMA.refuse_another(file, schema_number(connection))
        return _read_counts(connection)[0]


def refuse_another_schema(file: Path, schema: int) -> None:
    """Refuse a copy whose schema is not that of this local2.

    Raises:
        StorageError: It is not.
    """
    SCHEMA.refuse_another(file, schema, RESTORE_AND_EXPORT)


def ledger_key(file: Path, key: ContentKey | None) -> bytes:
    """The random key that a ledger shares with its copies; `key` decrypts the file.

    Raises:
        StorageError: The ledger cannot be read.
    """
    (row,) = rows_of(file, "erasure_key", key)
    return bytes(row["key"])


def rows_of(file: Path, statement: str, key: ContentKey | None) -> list[sqlite3.Row]:
    """The rows of a named statement that concerns the whole ledger.

    Raises:
        StorageError: The ledger cannot be read.
    """
    with _opened(file, key) as connection:
        return connection.execute(STATEMENTS[statement]).fetchall()


def _read_counts(connection: sqlite3.Connection) -> tuple[Contents, int]:
    there, last = connection.execute(STATEMENTS["count_rows"]).fetchone()
    (shells,) = connection.execute(STATEMENTS["count_shells"]).fetchone()
    return Contents(schema=schema_number(connection), rows=there, records=there - shells), last


@contextmanager
def _opened(
    file: Path, key: ContentKey | None, *, immutable: bool = False
) -> Iterator[sqlite3.Connection]:
    with closing(open_to_read(file, key, immutable=immutable)) as connection:
        try:
            yield connection
        except connection.Error as error:
            raise as_storage_error(error, file) from error
