"""Runs work on a SQLite file: one reader thread, one writer thread, and migrations.

Work is passed as functions that take a connection. A write returns only when its rows would survive
a power cut. This package is independent of what the tables mean.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

from local2.content_key import ContentKey
from local2.ledger.sqlite.database.connections import (
    BUSY_PATIENCE,
    OPEN_PATIENCE,
    Cursor,
    Row,
    SqlConnection,
    connect,
    damages_of,
    finds_any,
    read_row,
    truncate,
)
from local2.ledger.sqlite.database.copies import delete_copies, migrate
from local2.ledger.sqlite.database.lanes import Lane, Work, commit_together, run_each
from local2.ledger.sqlite.database.soundness import (
    Tally,
    as_storage_error,
    damages,
    has_content,
    refuse_damage,
)

__all__ = [
    "Cursor",
    "Database",
    "Row",
    "SqlConnection",
    "Work",
    "damages",
    "finds_any",
    "has_content",
    "read_row",
]

T = TypeVar("T")


class Database:
    """One SQLite file. `read` and `write` run a function of a connection off the event loop."""

    def __init__(self, path: Path, key: ContentKey | None, reader: Lane, writer: Lane) -> None:
        self._path = path
        self._key = key
        self._reader = reader
        self._writer = writer

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path,
        migrations: Sequence[Traversable] = (),
        *,
        counted: str | None = None,
        key: ContentKey | None = None,
    ) -> AsyncIterator["Database"]:
        """Open or create the file and bring its schema up to date.

        Args:
            path: The file; its folder must exist.
            migrations: SQL files, ordered by number; never changed once released.
            counted: A table with `row INTEGER PRIMARY KEY` whose rows are never deleted.
            key: Encrypts the file.

        Raises:
            DamagedError: The file is missing, empty or damaged, or lacks acknowledged writes.
            LedgerKeyError: The key belongs to another file.
            StorageError: The file cannot be opened, or is newer than these migrations.
        """
        tally = Tally(path, counted)
        writer = Lane(
            path,
            partial(commit_together, tally),
            name="writer",
            connect=partial(_connect_to_write, path, key, migrations, tally),
        )
        reader = Lane(path, run_each, name="reader", connect=partial(connect, path, key))
        try:
            await writer.start()
            await reader.start()
            yield cls(path, key, reader, writer)
        finally:
            await reader.stop()
            await writer.stop()
            tally.close()

    async def read(self, work: Work[T], *, owner: Hashable = None) -> T:
        """Run `work` on the reader's connection; it must not write. Owners take turns."""
        return await self._reader.submit(work, owner)

    async def write(self, work: Work[T], *, owner: Hashable = None) -> T:
        """Run `work` in a transaction; return once it is committed to disk. Owners take turns.

        Raises:
            StorageError: SQLite refused, e.g. the disk is full; nothing was written.
            Local2Error: `work` raised it; nothing was written.
        """
        written = self._writer.submit(work, owner)
        try:
            return await asyncio.shield(written)
        except asyncio.CancelledError:
            # The work is done nevertheless: wait for it before the caller is cancelled.
            await asyncio.wait({written})
            raise

    async def delete_copies(self) -> None:
        """Delete the copies from before migrations, which still hold erased content.

        Raises:
            UnwritableError: A copy cannot be deleted.
        """
        await asyncio.to_thread(delete_copies, self._path)

    async def truncate(self, *, vacuum: bool = False) -> None:
        """Empty the write-ahead log, so that the files hold only what the tables hold.

        Args:
            vacuum: Rewrite the whole file first, because an earlier local2 may have left deleted
                content in it. Writers wait until it is done.

        Raises:
            StorageError: Another process reads the file for longer than the timeout.
        """
        await asyncio.to_thread(truncate, self._path, self._key, vacuum=vacuum)

    async def damages(self) -> list[str]:
        """Return everything that SQLite finds wrong in the whole file.

        This uses a separate connection: one that read a full-text index before a change checks its
        outdated cache instead (seen in SQLite 3.53).
        """
        return await asyncio.to_thread(damages_of, self._path, self._key)


def _connect_to_write(
    path: Path, key: ContentKey | None, migrations: Sequence[Traversable], tally: Tally
) -> SqlConnection:
    """Open the file, refuse it if it is damaged, and migrate it."""
    tally.refuse_a_missing_database()
    with suppress(OSError):  # SQLite reports why the file cannot be created
        path.touch(mode=0o600)  # the write-ahead log gets the same mode
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
