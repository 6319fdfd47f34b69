"""What a ledger or a copy of one holds, read from its file, an encrypted one with its key."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from local.content_key import ContentKey
from local.errors import DamagedError, StorageError
from local.ledger.sqlite.database import damages
from local.ledger.sqlite.database.copies import copy, refuse_without_room
from local.ledger.sqlite.database.files import open_to_read
from local.ledger.sqlite.database.migration import kept_files
from local.ledger.sqlite.database.soundness import as_storage_error
from local.ledger.sqlite.rows import SQL
from local.ledger.sqlite.sql import migrations

__all__ = [
    "Contents",
    "contents_of",
    "copy",
    "counted",
    "ensure_known",
    "kept_files",
    "ledger_key",
    "refuse_without_room",
    "rows_of",
]


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """`schema`: the number of its last migration. `records`: of all tenants, shells included."""

    schema: int
    records: int


def contents_of(file: Path, key: ContentKey | None) -> Contents:
    """Read all of a copy that nobody has open.

    Raises:
        DamagedError: A page or a record of it is missing or damaged.
        LedgerKeyError: The key is another's.
        StorageError: It is no ledger, or of a newer local2.
    """
    with _read(file, key, immutable=True) as connection:
        if found := damages(connection):
            raise DamagedError(f"{file} is damaged: {found[0]}.")
        contents, last = _counted(connection)
    ensure_known(file, contents.schema)
    if last != contents.records:
        raise DamagedError(f"{file} lacks {last - contents.records} of {last} records.")
    return contents


def counted(file: Path, key: ContentKey | None) -> Contents:
    """What a ledger holds now, without reading the rest of it.

    Raises:
        StorageError: It cannot be read.
    """
    with _read(file, key) as connection:
        return _counted(connection)[0]


def ensure_known(file: Path, schema: int) -> None:
    """Refuse what this local2 cannot read.

    Raises:
        StorageError: A newer one wrote it.
    """
    if schema > len(migrations()):
        raise StorageError(
            f"{file} has schema {schema}; this local2 knows {len(migrations())}.",
            remedy="Update local2.",
        )


def ledger_key(file: Path, key: ContentKey | None) -> bytes:
    """The random key of a ledger, by which its copies are known; `key` decrypts it.

    Raises:
        StorageError: It cannot be read.
    """
    (row,) = rows_of(file, "erasure_key", key)
    return bytes(row["key"])


def rows_of(file: Path, statement: str, key: ContentKey | None) -> list[sqlite3.Row]:
    """The rows of a named statement about the whole ledger.

    Raises:
        StorageError: It cannot be read.
    """
    with _read(file, key) as connection:
        return connection.execute(SQL[statement]).fetchall()


def _counted(connection: sqlite3.Connection) -> tuple[Contents, int]:
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    there, last = connection.execute(SQL["count_rows"]).fetchone()
    return Contents(schema=schema, records=there), last


@contextmanager
def _read(
    file: Path, key: ContentKey | None, *, immutable: bool = False
) -> Iterator[sqlite3.Connection]:
    with closing(open_to_read(file, key, immutable=immutable)) as connection:
        try:
            yield connection
        except connection.Error as error:
            raise as_storage_error(error, file) from error
