"""Whether a database file is sound, and what SQLite's refusals mean.

A part of the file is read at every start, and all of it when asked.
"""

import sqlite3
import threading
from pathlib import Path

from local.errors import RESTORE, DamagedError, Local2Error, StorageError

REMEDIES = {
    "FULL": "The disk is full: make room.",
    "BUSY": "Another program has it locked: close that, as a shell of sqlite3 or a backup.",
    "LOCKED": "Another program has it locked: close that, as a shell of sqlite3 or a backup.",
    "READONLY": "It cannot be written to: change its permissions, or those of its folder.",
    "CANTOPEN": "Check that its folder is there, and the permissions of both.",
    "PERM": "Change its permissions.",
    "IOERR": "Check the disk and its space.",
    "ERROR": "It is not as this local2 makes it: restore it, or use another data folder.",
}
"""By SQLite's primary result code, https://sqlite.org/rescode.html."""
DAMAGES = {"CORRUPT", "NOTADB"}


def as_storage_error(error: Exception, path: Path | None = None) -> Exception:
    """The error as people read it; one of local2's own stays as it is."""
    if isinstance(error, Local2Error):
        return error
    name = f"The ledger ({path})" if path else "The ledger"
    code = primary_code(error)
    if code in DAMAGES:
        wrapped: StorageError = DamagedError(f"{name} is damaged: {error}.", remedy=RESTORE)
    else:
        wrapped = StorageError(f"{name} refused: {error}.", remedy=REMEDIES.get(code))
    wrapped.__cause__ = error
    return wrapped


def primary_code(error: Exception) -> str:
    """As `IOERR` of SQLITE_IOERR_WRITE; errors of Python's own module have none."""
    if isinstance(error, UnicodeDecodeError):  # SQLite quotes bytes of a damaged schema
        return "CORRUPT"
    code = getattr(error, "sqlite_errorname", "")
    return code.split("_")[1] if code else ""


START_SECONDS = 0.25
"""What a start spends on it; about 100 MB, where the disk does not have to be read."""
MOST = 20
"""Problems that are listed; a damaged page causes many."""


def refuse_damage(connection: sqlite3.Connection, path: Path) -> None:
    """Check as much of the file as a start has time for.

    Raises:
        DamagedError: A part of it is damaged.
    """
    timer = threading.Timer(START_SECONDS, connection.interrupt)
    timer.start()
    try:
        found = _problems(connection, "quick_check", 1)
    except connection.OperationalError as error:
        if primary_code(error) != "INTERRUPT":
            raise
        found = []
    finally:
        timer.cancel()
        timer.join()
    if found:
        raise DamagedError(f"The ledger ({path}) is damaged: {found[0]}.", remedy=RESTORE)


def damages(connection: sqlite3.Connection) -> list[str]:
    """Everything that SQLite finds in the whole file; takes seconds a gigabyte."""
    try:
        return _problems(connection, "integrity_check", MOST)
    except (connection.DatabaseError, UnicodeDecodeError) as error:
        return [str(error)]


def _problems(connection: sqlite3.Connection, check: str, most: int) -> list[str]:
    found = [str(row[0]) for row in connection.execute(f"PRAGMA {check}({most})")]
    return [] if found == ["ok"] else [" ".join(problem.split()) for problem in found]
