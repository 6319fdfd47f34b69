"""Whether a database file is sound: a part of it at every start, all of it when asked."""

import sqlite3
import threading
from pathlib import Path

from local.errors import RESTORE, DamagedError

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
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
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
    except sqlite3.DatabaseError as error:
        return [str(error)]


def _problems(connection: sqlite3.Connection, check: str, most: int) -> list[str]:
    found = [str(row[0]) for row in connection.execute(f"PRAGMA {check}({most})")]
    return [] if found == ["ok"] else [" ".join(problem.split()) for problem in found]
