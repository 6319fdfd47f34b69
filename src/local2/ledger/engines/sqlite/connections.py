"""Opens and configures connections to a SQLite file.

SQLCipher, which is used for encrypted files, is SQLite with AES-256 and an HMAC on every page. This
includes the write-ahead log and the full-text index, which consist of pages, too. The package is an
optional dependency, and is not imported unless a tenant has a key.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from local2.content_key import ContentKey
from local2.errors import LedgerKeyError, StorageError, extra_to_install
from local2.ledger.engines.sqlite.soundness import as_storage_error, damages, primary_code

OPEN_PATIENCE = 5.0
"""Seconds to wait, when a file is opened, for another program that has locked it."""
BUSY_PATIENCE = 30.0
"""Seconds to wait for another program that has locked an open file."""
PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = ON",
    "fullfsync = ON",
    "foreign_keys = ON",
    "temp_store = MEMORY",
    "cache_size = -65536",
)

SqlConnection = sqlite3.Connection


def connect_encrypted(
    path: Path, key: ContentKey, *, name: str | None = None, **options: Any
) -> sqlite3.Connection:
    """Open a file that is encrypted with this key, or create one.

    Args:
        path: The file.
        key: Decrypts the file.
        name: The URI of the path, if SQLite is to open that instead.
        options: Passed to `sqlite3.connect`.

    Raises:
        LedgerKeyError: The key belongs to another file, or SQLCipher is not installed.
        StorageError: The file cannot be opened.
    """
    try:
        from sqlcipher3 import dbapi2 as driver  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise LedgerKeyError(
            f"{path} is encrypted, and SQLCipher is not installed.",
            remedy=extra_to_install("encryption"),
        ) from error
    try:
        connection: sqlite3.Connection = driver.connect(name or path, **options)
    except driver.Error as error:
        raise as_storage_error(error, path) from error
    connection.row_factory = driver.Row
    try:
        # SQLCipher would also write its errors to standard error.
        connection.execute("PRAGMA cipher_log_level = NONE")
        # A random key needs no derivation, as a password would, which takes 0.1 s.
        connection.execute(f"PRAGMA key = \"x'{key.hex()}'\"")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except connection.Error as error:
        connection.close()
        if primary_code(error) == "NOTADB":
            raise LedgerKeyError(
                f"The key does not decrypt {path}.",
                remedy="Replace it with the key of this ledger. If it is the right key, the "
                "beginning of the file is damaged: restore it from a backup.",
            ) from error
        raise as_storage_error(error, path) from error
    return connection


def open_file(
    path: Path, key: ContentKey | None, *, name: str | None = None, **options: Any
) -> sqlite3.Connection:
    """Open a file, or create one; `key` decrypts it. The rest is as in `connect_encrypted`.

    Raises:
        LedgerKeyError: The key belongs to another file, or SQLCipher is not installed.
        StorageError: The file cannot be opened.
    """
    if key is not None:
        return connect_encrypted(path, key, name=name, **options)
    try:
        connection: sqlite3.Connection = sqlite3.connect(name or path, **options)
    except sqlite3.Error as error:
        raise as_storage_error(error, path) from error
    connection.row_factory = sqlite3.Row
    return connection


def open_to_read(
    path: Path, key: ContentKey | None = None, *, immutable: bool = False
) -> sqlite3.Connection:
    """Open an existing file for reading; raises what `open_file` raises.

    Args:
        path: The file.
        key: Decrypts the file.
        immutable: The caller guarantees that no process has the file open; SQLite then creates no
            files beside it.
    """
    mode = "immutable=1" if immutable else "mode=ro"
    return open_file(path, key, name=f"{path.resolve().as_uri()}?{mode}", uri=True)


def first_row(path: Path, statement: str, values: Mapping[str, Any]) -> Any:
    """The first row that a statement finds in an unencrypted file, None without any.

    Raises:
        StorageError: The file cannot be read, or the statement does not fit its tables.
    """
    try:
        with closing(open_to_read(path)) as connection:
            return connection.execute(statement, values).fetchone()
    except sqlite3.Error as error:
        raise as_storage_error(error, path) from error


def connect(
    path: Path, key: ContentKey | None = None, patience: float = BUSY_PATIENCE
) -> SqlConnection:
    """Open a file, decrypted with `key`, and configure the connection for reads and writes.

    Raises:
        LedgerKeyError: The key belongs to another file, or SQLCipher is not installed.
        StorageError: The file cannot be opened.
    """
    connection = open_file(path, key, isolation_level=None, cached_statements=256, timeout=patience)
    try:
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except (connection.Error, UnicodeDecodeError) as error:
        connection.close()
        raise as_storage_error(error, path) from error
    return connection


def truncate(path: Path, key: ContentKey | None) -> None:
    """Empty the write-ahead log, so that the files hold only what the tables hold.

    Raises:
        StorageError: Another process reads the file for longer than the timeout.
    """
    with closing(connect(path, key)) as connection:
        try:
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except connection.Error as error:
            raise as_storage_error(error, path) from error
    if busy:
        raise StorageError(
            f"The write-ahead log of {path} could not be emptied: another program is reading it.",
            remedy="Close that program, such as a sqlite3 shell or a backup, and try again.",
        )


def damages_of(path: Path, key: ContentKey | None) -> list[str]:
    """Everything that SQLite finds wrong in a file, which others may have open."""
    with closing(connect(path, key)) as connection:
        return damages(connection)
