"""Checks that a database is sound and has all commits, and translates SQLite's refusals.

A part of the file is read at every start, and all of it on request. The tally covers what the files
cannot show. SQLite skips a write-ahead log that was cut or has a flipped byte: it silently goes
back to the last commit that it can read. An emptied database is a new one to it. So each
transaction counts itself, and the count is written to a file of its own before anything is
acknowledged. A database that counts less than the file has lost acknowledged writes.
"""

import os
import sqlite3
import threading
import time
import zlib
from pathlib import Path
from typing import NamedTuple

import structlog

from local.errors import RESTORE, DamagedError, Local2Error, StorageError, UnwritableError

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
START_SECONDS = 0.25
"""Seconds that a start spends on it; about 100 MB, if the disk does not have to be read."""
MOST_LISTED = 20
"""Problems that are listed; a damaged page causes many."""
SYNC_SECONDS = 1.0
"""A kill loses nothing written; a power cut may set the file back by as much."""
TABLE = """\
CREATE TABLE IF NOT EXISTS tally (commits INTEGER NOT NULL);
INSERT INTO tally SELECT 0 WHERE NOT EXISTS (SELECT * FROM tally);
"""

log = structlog.get_logger()


def as_storage_error(error: Exception, path: Path | None = None) -> Exception:
    """Return the error in words for people; one of local2's own stays as it is."""
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
    """Return the code, such as `IOERR` of SQLITE_IOERR_WRITE; errors of Python itself have none."""
    if isinstance(error, UnicodeDecodeError):  # SQLite quotes bytes of a damaged schema
        return "CORRUPT"
    code = getattr(error, "sqlite_errorname", "")
    return code.split("_")[1] if code else ""


def refuse_damage(connection: sqlite3.Connection, path: Path) -> None:
    """Check as much of the file as there is time for at a start.

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
    """Return everything that SQLite finds in the whole file; takes seconds a gigabyte."""
    try:
        return _problems(connection, "integrity_check", MOST_LISTED)
    except (connection.DatabaseError, UnicodeDecodeError) as error:
        return [str(error)]


def _problems(connection: sqlite3.Connection, check: str, most: int) -> list[str]:
    found = [str(row[0]) for row in connection.execute(f"PRAGMA {check}({most})")]
    return [] if found == ["ok"] else [" ".join(problem.split()) for problem in found]


class Count(NamedTuple):
    """`rows` is the highest row number of a table whose rows are never deleted."""

    commits: int
    rows: int


class Tally:
    """Used by the writer's thread only, except for `count_in_file`."""

    def __init__(self, database: Path, table: str | None = None) -> None:
        """`table` is one whose rows, numbered by `row`, are never deleted.

        Without a table, the number of rows stays as it was.
        """
        self._database = database
        self.path = database.with_suffix(".tally")
        last = f"(SELECT ifnull(max(row), 0) FROM {table})" if table else ":rows"  # noqa: S608 - ours
        self._counted = f"SELECT commits, {last} FROM tally"  # noqa: S608
        self._rows = 0
        self._descriptor = -1
        self._synced = 0.0

    def count_in_file(self) -> Count | None:
        """Read the count in the file; None if there is none, as beside an older ledger."""
        try:
            return _parsed(self.path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UnwritableError(self.path, error) from error
        except ValueError:
            log.warning("tally_unreadable", path=str(self.path), remedy="written anew")
            return None

    def refuse_a_missing_database(self) -> None:
        """Refuse a missing database, before opening it would create one.

        Raises:
            DamagedError: It is missing or empty, although something was committed to it.
        """
        stored = self.count_in_file()
        if stored is not None and stored.commits and not has_content(self._database):
            raise DamagedError(
                f"{self._database} is missing or empty, and {stored.rows} records were stored in "
                "it.",
                remedy="Restore it from a backup. To begin anew, delete the vector index and "
                f"{self.path}, too.",
            )

    def open(self, connection: sqlite3.Connection) -> None:
        """Compare the counts, and continue with the database's.

        Raises:
            DamagedError: The database has fewer commits or rows than were acknowledged.
            UnwritableError: The file of the count cannot be written beside it.
        """
        stored = self.count_in_file()
        self._rows = stored.rows if stored else 0
        connection.executescript(f"BEGIN; {TABLE} COMMIT;")
        now = self._count(connection)
        if stored is not None and (
            stored.commits > now.commits
            or (stored.commits == now.commits and stored.rows > now.rows)
        ):
            raise DamagedError(
                f"{self._database} lacks acknowledged writes: it has {now.commits} commits and "
                f"{now.rows} records, and {stored.commits} and {stored.rows} were acknowledged.",
                remedy="Its files were damaged, or are older ones: restore it from a backup. To go "
                f"on with what is there, delete {self.path}.",
            )
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UnwritableError(self.path, error) from error
        self.write(now)

    def add(self, connection: sqlite3.Connection) -> Count:
        """Count one more commit, inside its transaction."""
        connection.execute("UPDATE tally SET commits = commits + 1")
        return self._count(connection)

    def write(self, count: Count) -> None:
        """Write the count; a disk that refuses it undoes no commit."""
        try:
            os.pwrite(self._descriptor, _line(count), 0)
            if time.monotonic() - self._synced > SYNC_SECONDS:
                os.fsync(self._descriptor)
                self._synced = time.monotonic()
        except OSError as error:
            log.warning("tally_not_written", path=str(self.path), reason=str(error))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _count(self, connection: sqlite3.Connection) -> Count:
        return Count(*connection.execute(self._counted, {"rows": self._rows}).fetchone())


def has_content(file: Path) -> bool:
    """Return whether the file exists and is not empty.

    Raises:
        UnwritableError: This cannot be determined.
    """
    try:
        return file.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UnwritableError(file, error) from error


def _line(count: Count) -> bytes:
    line = f"{count.commits:020} commits {count.rows:020} rows".encode()
    return line + f" {zlib.crc32(line):08x}\n".encode()


def _parsed(data: bytes) -> Count:
    line, _, checksum = data.strip().rpartition(b" ")
    if int(checksum, 16) != zlib.crc32(line):
        raise ValueError(checksum)
    commits, _, rows, _ = line.split()
    return Count(int(commits), int(rows))
