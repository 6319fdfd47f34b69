"""Reads ledgers that are not open, and copies of them: whether they are whole, and what they hold.

These statements are about the whole file, with all its tenants, and so bypass `rows.py`.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from local2.content_key import ContentKey
from local2.errors import DamagedError
from local2.ledger.engines.sqlite.connections import open_to_read
from local2.ledger.engines.sqlite.schema import SCHEMA, STATEMENTS, schema_number
from local2.ledger.engines.sqlite.soundness import as_storage_error, damages

RESTORE_AND_EXPORT = (
    "Another local2 made it. Restore it with that one, and run `local2 export` there; start this "
    "one in a new data folder, and run `local2 import` there."
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
