"""Reads copies of a ledger, and erases from a restored copy what was erased since it was made.

Tombstones identify erased selections by keyed hashes. Every possible selection of a restored ledger
is hashed in the same way, and those that match are erased as if their owner had asked again.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from local2.content_key import ContentKey
from local2.errors import DamagedError, StorageError
from local2.ledger.sqlite.database import Database, damages
from local2.ledger.sqlite.database.connections import open_to_read
from local2.ledger.sqlite.database.schema import schema_number
from local2.ledger.sqlite.database.soundness import as_storage_error
from local2.ledger.sqlite.ledger import Ledger
from local2.ledger.sqlite.rows import SQL
from local2.ledger.sqlite.sql import SCHEMA
from local2.ledger.transfer import ErasureOptions

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


def contents_of(file: Path, key: ContentKey | None) -> Contents:
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
    """Return the current counts of a ledger, without reading the rest of it.

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
    """Return the random key that a ledger shares with its copies; `key` decrypts the file.

    Raises:
        StorageError: The ledger cannot be read.
    """
    (row,) = rows_of(file, "erasure_key", key)
    return bytes(row["key"])


def rows_of(file: Path, statement: str, key: ContentKey | None) -> list[sqlite3.Row]:
    """Return the rows of a named statement that concerns the whole ledger.

    Raises:
        StorageError: The ledger cannot be read.
    """
    with _opened(file, key) as connection:
        return connection.execute(SQL[statement]).fetchall()


def _read_counts(connection: sqlite3.Connection) -> tuple[Contents, int]:
    there, last = connection.execute(SQL["count_rows"]).fetchone()
    (shells,) = connection.execute(SQL["count_shells"]).fetchone()
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


Chosen = Mapping[str, datetime]
"""Times of the last erasure, by the hash of the selection."""


async def forget_again(restored: Path, former: Path, key: ContentKey | None) -> int:
    """Erase what was erased in the former ledger since the copy; return the number of records.

    `key` decrypts both ledgers.

    Raises:
        StorageError: The two are not the same ledger, or one of them cannot be read.
    """
    if ledger_key(restored, key) != ledger_key(former, key):
        raise StorageError(f"{former} is another ledger.")
    later = _later_erasures(restored, former, key)
    if not later:
        return 0
    async with Database.open(restored, SCHEMA, key=key) as database:
        return sum([await _erase_again(Ledger(database, name), later[name]) for name in later])


def _later_erasures(restored: Path, former: Path, key: ContentKey | None) -> dict[str, Chosen]:
    """Return, by tenant, the selections that only the former ledger has tombstones of."""
    known = {(row["tenant"], row["digest"]) for row in rows_of(restored, "every_tombstone", key)}
    later: dict[str, dict[str, datetime]] = defaultdict(dict)
    for row in rows_of(former, "every_tombstone", key):
        if (row["tenant"], row["digest"]) not in known:
            of_tenant, at = later[row["tenant"]], datetime.fromisoformat(row["erased_at"])
            of_tenant[row["chosen"]] = max(at, of_tenant.get(row["chosen"], at))
    return dict(later)


async def _erase_again(ledger: Ledger, chosen: Chosen) -> int:
    forgotten = 0
    for selection, digest in await ledger.erasures.chosen_among(set(chosen)):
        selected = await ledger.erasures.select(selection)
        how = ErasureOptions(at=chosen[digest])
        async for part in ledger.erasures.erase(selection, selected.rows, how):
            forgotten += len(part.rows)
    await ledger.erasures.scrub()
    return forgotten
