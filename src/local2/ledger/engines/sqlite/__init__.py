"""Runs work on a SQLite file: one reader thread, one writer thread.

Work is passed as functions that take a connection. A write returns only when its rows would survive
a power cut. This package is independent of what the tables mean.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from local2.content_key import ContentKey
from local2.ledger.engines.sqlite.connections import (
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
from local2.ledger.engines.sqlite.lanes import Lane, Work, commit_together, run_each
from local2.ledger.engines.sqlite.schema import Schema
from local2.ledger.engines.sqlite.soundness import (
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
        schema: Schema | None = None,
        *,
        counted: str | None = None,
        key: ContentKey | None = None,
    ) -> AsyncIterator["Database"]:
        """Open the file, or create it with its tables.

        Args:
            path: The file; its folder must exist.
            schema: The tables; a file with those of another schema is refused.
            counted: A table with `row INTEGER PRIMARY KEY` whose rows are never deleted.
            key: Encrypts the file.

        Raises:
            DamagedError: The file is missing, empty or damaged, or lacks acknowledged writes.
            LedgerKeyError: The key belongs to another file.
            StorageError: The file cannot be opened, or has another schema.
        """
        tally = Tally(path, counted)
        writer = Lane(
            path,
            partial(commit_together, tally),
            name="writer",
            connect=partial(_connect_to_write, path, key, schema, tally),
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

    async def truncate(self) -> None:
        """Empty the write-ahead log, so that the files hold only what the tables hold.

        Raises:
            StorageError: Another process reads the file for longer than the timeout.
        """
        await asyncio.to_thread(truncate, self._path, self._key)

    async def damages(self) -> list[str]:
        """Return everything that SQLite finds wrong in the whole file.

        This uses a separate connection: one that read a full-text index before a change checks its
        outdated cache instead (seen in SQLite 3.53).
        """
        return await asyncio.to_thread(damages_of, self._path, self._key)


def _connect_to_write(
    path: Path, key: ContentKey | None, schema: Schema | None, tally: Tally
) -> SqlConnection:
    """Open the file, refuse it if it is damaged, and create its tables if it is new."""
    tally.refuse_a_missing_database()
    with suppress(OSError):  # SQLite reports why the file cannot be created
        path.touch(mode=0o600)  # the write-ahead log gets the same mode
    connection = connect(path, key, OPEN_PATIENCE)
    try:
        refuse_damage(connection, path)
        if schema is not None:
            schema.ensure(connection, path)
        tally.open(connection)
        connection.execute(f"PRAGMA busy_timeout = {BUSY_PATIENCE * 1000:.0f}")
    except (connection.Error, UnicodeDecodeError) as error:
        connection.close()
        raise as_storage_error(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection
