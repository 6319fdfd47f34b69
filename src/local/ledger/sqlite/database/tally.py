"""A count of commits, kept beside the database: what its own files cannot say of themselves.

SQLite passes over a write-ahead log that was cut or has a flipped byte: it goes back to the last
commit that it can read, without a word. An emptied database is a new one to it. So each transaction
counts itself, and the count is written to a file of its own before anything is acknowledged. A
database that counts less than the file has lost what was acknowledged.
"""

import os
import sqlite3
import time
import zlib
from pathlib import Path
from typing import NamedTuple

import structlog

from local.errors import DamagedError, UnwritableError

SYNC_SECONDS = 1.0
"""A kill leaves what was written; a power cut may set the file back by as much."""
TABLE = """\
CREATE TABLE IF NOT EXISTS tally (commits INTEGER NOT NULL);
INSERT INTO tally SELECT 0 WHERE NOT EXISTS (SELECT * FROM tally);
"""

log = structlog.get_logger()


class Count(NamedTuple):
    """`rows`: of the table that is never deleted from, whose number is its last row's."""

    commits: int
    rows: int


class Tally:
    """Used by the writer's thread only, but for `kept`."""

    def __init__(self, database: Path, table: str | None = None) -> None:
        """`table` is one whose rows, numbered by `row`, are never deleted.

        Without it the number of rows stays as it was.
        """
        self._database = database
        self.path = database.with_suffix(".tally")
        last = f"(SELECT ifnull(max(row), 0) FROM {table})" if table else ":rows"  # noqa: S608 - ours
        self._counted = f"SELECT commits, {last} FROM tally"  # noqa: S608
        self._rows = 0
        self._descriptor = -1
        self._synced = 0.0

    def kept(self) -> Count | None:
        """What the file says; None if there is none, as beside a ledger of an earlier version."""
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
        """Before the database is opened, which would make one.

        Raises:
            DamagedError: It is missing or empty, although something was committed to it.
        """
        kept = self.kept()
        if kept is not None and kept.commits and not has_content(self._database):
            raise DamagedError(
                f"{self._database} is missing or empty, and {kept.rows} records were stored in it.",
                remedy="Restore it from a backup. To begin anew, delete the vector index and "
                f"{self.path}, too.",
            )

    def open(self, connection: sqlite3.Connection) -> None:
        """Compare, and go on counting from what the database says.

        Raises:
            DamagedError: The database has fewer commits or rows than were acknowledged.
            UnwritableError: There can be no file beside it.
        """
        kept = self.kept()
        self._rows = kept.rows if kept else 0
        connection.executescript(f"BEGIN; {TABLE} COMMIT;")
        now = self._count(connection)
        if kept is not None and (
            kept.commits > now.commits or (kept.commits == now.commits and kept.rows > now.rows)
        ):
            raise DamagedError(
                f"{self._database} lacks acknowledged writes: it has {now.commits} commits and "
                f"{now.rows} records, and {kept.commits} and {kept.rows} were acknowledged.",
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
        """Keep the count; a disk that refuses it undoes no commit."""
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
    """Whether there is such a file, and not an empty one.

    Raises:
        UnwritableError: That cannot be told.
    """
    try:
        return file.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UnwritableError(file, error) from error


def _line(count: Count) -> bytes:
    said = f"{count.commits:020} commits {count.rows:020} rows".encode()
    return said + f" {zlib.crc32(said):08x}\n".encode()


def _parsed(data: bytes) -> Count:
    said, _, checksum = data.strip().rpartition(b" ")
    if int(checksum, 16) != zlib.crc32(said):
        raise ValueError(checksum)
    commits, _, rows, _ = said.split()
    return Count(int(commits), int(rows))
