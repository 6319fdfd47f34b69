"""Opens a file of SQLite, an encrypted one with its key."""

import sqlite3
from pathlib import Path
from typing import Any

from local.content_key import ContentKey
from local.ledger.sqlite.database.encryption import connect_encrypted
from local.ledger.sqlite.database.soundness import as_storage_error


def open_file(path: Path, key: ContentKey | None, **options: Any) -> sqlite3.Connection:
    """Open a file, or make one.

    Raises:
        LedgerKeyError: The key is another's, or there is nothing to decrypt with.
        StorageError: It cannot be opened.
    """
    return _opened(path, path, key, options)


def open_to_read(
    path: Path, key: ContentKey | None = None, *, immutable: bool = False
) -> sqlite3.Connection:
    """Open a file that is there; raises what `open_file` raises.

    Args:
        path: Where it is.
        key: It is encrypted with this key.
        immutable: Nobody has it open, and no file is made beside it.
    """
    only = "immutable=1" if immutable else "mode=ro"
    return _opened(f"{path.resolve().as_uri()}?{only}", path, key, {"uri": True})


def _opened(
    name: str | Path, path: Path, key: ContentKey | None, options: dict[str, Any]
) -> sqlite3.Connection:
    if key is not None:
        return connect_encrypted(path, key, name=name, **options)
    try:
        connection: sqlite3.Connection = sqlite3.connect(name, **options)
    except sqlite3.Error as error:
        raise as_storage_error(error, path) from error
    connection.row_factory = sqlite3.Row
    return connection
