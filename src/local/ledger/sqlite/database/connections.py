"""Connections to a file of SQLite: how they are made, and what they are told first."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from local.content_key import ContentKey
from local.errors import StorageError
from local.ledger.sqlite.database.files import open_file, open_to_read
from local.ledger.sqlite.database.migration import migrate
from local.ledger.sqlite.database.soundness import as_storage_error, damages, refuse_damage
from local.ledger.sqlite.database.tally import Tally

SqlConnection = sqlite3.Connection
Row = sqlite3.Row
Cursor = sqlite3.Cursor

OPEN_PATIENCE = 5.0
"""Seconds to wait for a file that another program has locked, before it is in use here."""
BUSY_PATIENCE = 30.0
PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = ON",
    "fullfsync = ON",
    "foreign_keys = ON",
    "temp_store = MEMORY",
    "cache_size = -65536",
)


def data_version(connection: SqlConnection) -> int:
    """Another number after every change that another connection has made; never 0."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def read_only(path: Path, statement: str, values: Mapping[str, Any]) -> Row:
    """The first row that a file of somebody else's answers.

    Raises:
        StorageError: There is none, or it is not as the statement takes it to be.
    """
    row = _first_row(path, statement, values)
    if row is None:
        raise StorageError(f"{path} has no such row.")
    return row


def holds(path: Path, statement: str, values: Mapping[str, Any]) -> bool:
    """Whether the statement finds anything in a file that is not encrypted.

    Raises:
        StorageError: It cannot be read.
    """
    return _first_row(path, statement, values) is not None


def _first_row(path: Path, statement: str, values: Mapping[str, Any]) -> Row | None:
    try:
        with closing(open_to_read(path)) as connection:
            row: Row | None = connection.execute(statement, values).fetchone()
    except sqlite3.Error as error:
        raise as_storage_error(error, path) from error
    return row


def connect(
    path: Path, key: ContentKey | None = None, patience: float = BUSY_PATIENCE
) -> SqlConnection:
    """Open a file, an encrypted one with its key.

    Raises:
        LedgerKeyError: The key is another's, or there is nothing to decrypt with.
        StorageError: It cannot be opened.
    """
    options: dict[str, Any] = {
        "isolation_level": None,
        "cached_statements": 256,
        "timeout": patience,
    }
    connection = open_file(path, key, **options)
    try:
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except (connection.Error, UnicodeDecodeError) as error:
        connection.close()
        raise as_storage_error(error, path) from error
    return connection


def truncate(path: Path, key: ContentKey | None, *, vacuum: bool) -> None:
    """Empty the write-ahead log of a file that others have open; see `Database.truncate`."""
    with closing(connect(path, key)) as connection:
        try:
            if vacuum:
                connection.execute("VACUUM")
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except connection.Error as error:
            raise as_storage_error(error, path) from error
    if busy:
        raise StorageError(
            f"The write-ahead log of {path} could not be emptied: somebody else reads it.",
            remedy="Close that, as a shell of sqlite3 or a backup, and ask again.",
        )


def damages_of(path: Path, key: ContentKey | None) -> list[str]:
    """What is wrong with a file that others may have open; see `Database.damages`."""
    with closing(connect(path, key)) as connection:
        return damages(connection)


def connect_to_write(
    path: Path, key: ContentKey | None, migrations: Sequence[Traversable], tally: Tally
) -> SqlConnection:
    """Open the file where it is sound, and bring it up to date."""
    tally.refuse_a_missing_database()
    with suppress(OSError):  # SQLite says why it cannot be made
        path.touch(mode=0o600)  # as its write-ahead log is then, too
    connection = connect(path, key, OPEN_PATIENCE)
    try:
        refuse_damage(connection, path)
        migrate(connection, path, migrations, key)
        tally.open(connection)
        connection.execute(f"PRAGMA busy_timeout = {BUSY_PATIENCE * 1000:.0f}")
    except (connection.Error, UnicodeDecodeError) as error:
        connection.close()
        raise as_storage_error(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection
