"""Checks that a database is sound and has all commits, and translates SQLite's errors.

A part of the file is read at every start, and all of it on request. The tally covers what the files
cannot show. If a write-ahead log was cut or has a flipped byte, SQLite silently goes back to the
last commit that it can read. It treats an emptied database as a new one. Therefore, each
transaction counts itself, and the count is written to a separate file before anything is
acknowledged. A database whose count is lower than the file's has lost acknowledged writes.
"""

import os
import sqlite3
import threading
import time
import zlib
from pathlib import Path
from typing import NamedTuple

import structlog

from local2.errors import RESTORE, DamagedError, Local2Error, StorageError, UnwritableError

REMEDIES = {
    "FULL": "The disk is full: make room.",
    "BUSY": "Another program has locked it: close that program, such as a sqlite3 shell or a "
    "backup.",
    "LOCKED": "Another program has locked it: close that program, such as a sqlite3 shell or a "
    "backup.",
    "READONLY": "It cannot be written to: change its permissions, or those of its folder.",
    "CANTOPEN": "Check that its folder exists, and the permissions of both.",
    "PERM": "Change its permissions.",
    "IOERR": "Check the disk and its free space.",
    "ERROR": "Its tables are not those of this local2: restore it, or use another data folder.",
}
"""Remedies by SQLite's primary result code (https://sqlite.org/rescode.html)."""
DAMAGES = {"CORRUPT", "NOTADB"}
START_SECONDS = 0.25
"""Maximum duration of the check at a start; it reads about 100 MB if the file is cached."""
MAX_LISTED = 20
"""Maximum number of problems that are listed; a damaged page causes many."""
SYNC_SECONDS = 1.0
"""Interval in seconds between syncs of the tally. A kill loses nothing that was written; a power
cut may set the file back by this much."""
TABLE = """\
CREATE TABLE IF NOT EXISTS tally (commits INTEGER NOT NULL);
INSERT INTO tally SELECT 0 WHERE NOT EXISTS (SELECT * FROM tally);
"""
COUNTED = "SELECT commits, (SELECT ifnull(max(row), 0) FROM record) FROM tally"
COUNTING = """\
UPDATE tally SET commits = commits + 1
RETURNING commits, (SELECT ifnull(max(row), 0) FROM record)
"""
"""Records are superseded or reduced to a shell, but never deleted."""

log = structlog.get_logger()


def as_storage_error(error: Exception, path: Path | None = None) -> Exception:
    """Convert SQLite's error to a readable StorageError; return an error of local2 unchanged."""
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
    """SQLite's code, such as `IOERR` for SQLITE_IOERR_WRITE; empty for Python's errors."""
    if isinstance(error, UnicodeDecodeError):  # the error text quotes bytes of a damaged schema
        return "CORRUPT"
    code = getattr(error, "sqlite_errorname", "")
    return code.split("_")[1] if code else ""


def refuse_damage(connection: sqlite3.Connection, path: Path) -> None:
    """Check as much of the file as the time at a start permits.

    Raises:
        DamagedError: The part that was checked is damaged.
    """
    timer = threading.Timer(START_SECONDS, connection.interrupt)
    timer.start()
    try:
        found = _run_check(connection, "quick_check", 1)
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
    """Everything that SQLite finds wrong in the whole file; takes seconds per gigabyte."""
    try:
        return _run_check(connection, "integrity_check", MAX_LISTED)
    except (connection.DatabaseError, UnicodeDecodeError) as error:
        return [str(error)]


def _run_check(connection: sqlite3.Connection, check: str, limit: int) -> list[str]:
    found = [str(row[0]) for row in connection.execute(f"PRAGMA {check}({limit})")]
    return [] if found == ["ok"] else [" ".join(problem.split()) for problem in found]


class Count(NamedTuple):
    """The extent of a database; `rows` is the highest row number of a record."""

    commits: int
    rows: int


class Tally:
    """The count of a database's commits, in the database and in a file beside it.

    Used by the writer's thread only, except for `count_in_file`.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self.path = database.with_suffix(".tally")
        self._descriptor = -1
        self._synced = 0.0

    def count_in_file(self) -> Count | None:
        """Read the count in the file; None if there is no file, as for a new database."""
        try:
            return _decode(self.path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UnwritableError(self.path, error) from error
        except ValueError:
            log.warning("tally_unreadable", path=str(self.path), remedy="written anew")
            return None

    def refuse_a_missing_database(self) -> None:
        """Refuse a missing database before opening it, which would create a new one.

        Raises:
            DamagedError: The database is missing or empty, although the file counts commits.
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
        """Compare the counts, and continue with the count in the database.

        Raises:
            DamagedError: The database has fewer commits or rows than were acknowledged.
            UnwritableError: The file with the count cannot be written.
        """
        stored = self.count_in_file()
        connection.executescript(f"BEGIN; {TABLE} COMMIT;")
        now = _count(connection, COUNTED)
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
        """Count a commit, inside its transaction."""
        return _count(connection, COUNTING)

    def write(self, count: Count) -> None:
        """Write the count to the file; a failure is logged, and does not undo the commit."""
        try:
            os.pwrite(self._descriptor, _encode(count), 0)
            if time.monotonic() - self._synced > SYNC_SECONDS:
                os.fsync(self._descriptor)
                self._synced = time.monotonic()
        except OSError as error:
            log.warning("tally_not_written", path=str(self.path), reason=str(error))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def _count(connection: sqlite3.Connection, statement: str) -> Count:
    (count,) = connection.execute(statement).fetchall()
    return Count(*count)


def has_content(file: Path) -> bool:
    """Whether the file exists and is not empty.

    Raises:
        UnwritableError: The file cannot be examined.
    """
    try:
        return file.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UnwritableError(file, error) from error


def _encode(count: Count) -> bytes:
    line = f"{count.commits:020} commits {count.rows:020} rows".encode()
    return line + f" {zlib.crc32(line):08x}\n".encode()


def _decode(data: bytes) -> Count:
    line, _, checksum = data.strip().rpartition(b" ")
    if int(checksum, 16) != zlib.crc32(line):
        raise ValueError(checksum)
    commits, _, rows, _ = line.split()
    return Count(int(commits), int(rows))
