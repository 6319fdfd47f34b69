"""The content of a ledger's file or copy; erases from a copy what was erased since it was made.

Tombstones identify by keyed hashes what was chosen. Everything in a restored ledger that could have
been chosen is hashed in the same way, and matches are erased as if the owner asked again.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from local.content_key import ContentKey
from local.errors import DamagedError, StorageError
from local.ledger.sqlite.database import Database, damages
from local.ledger.sqlite.database.connections import open_to_read
from local.ledger.sqlite.database.copies import (
    copies_before_migrations,
    copy,
    refuse_without_room,
)
from local.ledger.sqlite.database.soundness import as_storage_error
from local.ledger.sqlite.ledger import Ledger
from local.ledger.sqlite.rows import SQL
from local.ledger.sqlite.sql import migrations
from local.ledger.transfer import Lifting

__all__ = [
    "Contents",
    "contents_of",
    "copies_before_migrations",
    "copy",
    "counted",
    "ensure_known",
    "forget_again",
    "ledger_key",
    "refuse_without_room",
]


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """`schema`: the number of its last migration. `records`: of all tenants, shells included."""

    schema: int
    records: int


def contents_of(file: Path, key: ContentKey | None) -> Contents:
    """Read all of a copy that no process has open.

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
    """Return the present counts of a ledger, without reading the rest of it.

    Raises:
        StorageError: It cannot be read.
    """
    with _read(file, key) as connection:
        return _counted(connection)[0]


def ensure_known(file: Path, schema: int) -> None:
    """Refuse a schema that this local2 cannot read.

    Raises:
        StorageError: A newer one wrote it.
    """
    if schema > len(migrations()):
        raise StorageError(
            f"{file} has schema {schema}; this local2 knows {len(migrations())}.",
            remedy="Update local2.",
        )


def ledger_key(file: Path, key: ContentKey | None) -> bytes:
    """Return the random key of a ledger that identifies its copies; `key` decrypts it.

    Raises:
        StorageError: It cannot be read.
    """
    (row,) = rows_of(file, "erasure_key", key)
    return bytes(row["key"])


def rows_of(file: Path, statement: str, key: ContentKey | None) -> list[sqlite3.Row]:
    """Return the rows of a named statement about the whole ledger.

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


Chosen = Mapping[str, datetime]
"""Hashes of what was chosen, with the time of its last erasure."""


async def forget_again(restored: Path, former: Path, key: ContentKey | None) -> int:
    """Erase what the former ledger had erased since; return how many records that were.

    For encrypted ledgers, both have the same key.

    Raises:
        StorageError: They have different keys, or one of them cannot be read.
    """
    if ledger_key(restored, key) != ledger_key(former, key):
        raise StorageError(f"{former} is another ledger.")
    later = _later(restored, former, key)
    if not later:
        return 0
    async with Database.open(restored, migrations(), key=key) as database:
        return sum([await _of_tenant(Ledger(database, name), later[name]) for name in later])


def _later(restored: Path, former: Path, key: ContentKey | None) -> dict[str, Chosen]:
    """Return, by tenant, the tombstones of the former ledger that the restored one lacks."""
    known = {(row["tenant"], row["digest"]) for row in rows_of(restored, "every_tombstone", key)}
    later: dict[str, dict[str, datetime]] = defaultdict(dict)
    for row in rows_of(former, "every_tombstone", key):
        if (row["tenant"], row["digest"]) not in known:
            of_tenant, at = later[row["tenant"]], datetime.fromisoformat(row["erased_at"])
            of_tenant[row["chosen"]] = max(at, of_tenant.get(row["chosen"], at))
    return dict(later)


async def _of_tenant(ledger: Ledger, chosen: Chosen) -> int:
    forgotten = 0
    for selection, digest in await ledger.erasures.chosen_among(set(chosen)):
        selected = await ledger.erasures.select(selection)
        how = Lifting(at=chosen[digest])
        async for part in ledger.erasures.erase(selection, selected.rows, how):
            forgotten += len(part.rows)
    await ledger.erasures.scrub()
    return forgotten
