"""Encrypted files: SQLCipher is SQLite whose every page is under AES-256 and an HMAC.

So are the write-ahead log and the full-text index, which are pages, too. The package is an extra;
where no tenant has a key, it is not imported.
"""

import sqlite3
from pathlib import Path
from typing import Any

from local.content_key import ContentKey
from local.errors import LedgerKeyError
from local.ledger.sqlite.database.soundness import as_storage_error, primary_code


def connect_encrypted(
    path: Path, key: ContentKey, *, name: str | Path | None = None, **options: Any
) -> sqlite3.Connection:
    """Open a file that is encrypted with this key, or make one.

    Args:
        path: Where it is.
        key: Decrypts it.
        name: What SQLite opens, where that is a URI of the path.
        options: Of `sqlite3.connect`.

    Raises:
        LedgerKeyError: The key is another's, or SQLCipher is not installed.
        StorageError: The file cannot be opened.
    """
    driver = _driver(path)
    try:
        connection: sqlite3.Connection = driver.connect(name or path, **options)
    except driver.Error as error:
        raise as_storage_error(error, path) from error
    connection.row_factory = driver.Row
    try:
        # It writes to standard error what it raises anyway.
        connection.execute("PRAGMA cipher_log_level = NONE")
        # A key that is random already needs no derivation from a password, which takes 0.1 s.
        connection.execute(f"PRAGMA key = \"x'{key.hex()}'\"")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except connection.Error as error:
        connection.close()
        if primary_code(error) == "NOTADB":
            raise _another_key(path) from error
        raise as_storage_error(error, path) from error
    return connection


def _driver(path: Path) -> Any:
    try:
        from sqlcipher3 import dbapi2  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise LedgerKeyError(
            f"{path} is encrypted, and SQLCipher is not installed.",
            remedy="Install local2 with its extra: `uv sync --extra encryption`, or "
            "`pip install 'local2[encryption]'`.",
        ) from error
    return dbapi2


def _another_key(path: Path) -> LedgerKeyError:
    return LedgerKeyError(
        f"The key does not decrypt {path}.",
        remedy="It is another ledger's: put the right one in its place. If it is the right one, "
        "the beginning of the file is damaged: restore it from a backup.",
    )
