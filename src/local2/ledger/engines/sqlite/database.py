"""Runs work on a SQLite file: one reader thread, one writer thread.

Work is passed as functions that take a connection. A write returns only when its rows would survive
a power cut.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from local2.content_key import ContentKey
from local2.errors import StorageError
from local2.ledger.engines import NewVector, Version
from local2.ledger.engines.sqlite.connections import (
    BUSY_PATIENCE,
    OPEN_PATIENCE,
    SqlConnection,
    connect,
    damages_of,
    open_to_read,
    truncate,
)
from local2.ledger.engines.sqlite.fulltext import FullText, TextIndex
from local2.ledger.engines.sqlite.lanes import Lane, Work, commit_together, run_each
from local2.ledger.engines.sqlite.schema import SCHEMA, STATEMENTS, Schema
from local2.ledger.engines.sqlite.soundness import Tally, as_storage_error, refuse_damage
from local2.ledger.engines.sqlite.tables import Tables
from local2.ledger.operations.records import columns_of, tasks_of
from local2.ledger.operations.transactions import Transaction, as_json
from local2.ledger.operations.working_sets import Budgets
from local2.ledger.records import NewRecord, TaskKind, features_of
from local2.protocol.maintenance import LiveStack

MERGED_PAGES = 1_000
"""Number of pages of the full-text index merged in one transaction."""
MAX_MERGES = 10_000
"""Maximum number of merging transactions; merging may not end while others write."""

T = TypeVar("T")


class Database:
    """One SQLite file. `read` and `write` run a function of a connection off the event loop."""

    statements = STATEMENTS
    text = TextIndex()
    tables = Tables()
    is_shared = False
    searches_vectors = False

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
        schema: Schema = SCHEMA,
        *,
        key: ContentKey | None = None,
    ) -> AsyncIterator["Database"]:
        """Open the file, or create it with its tables.

        Args:
            path: The file; its folder must exist.
            schema: The tables; a file with those of another schema is refused.
            key: Encrypts the file.

        Raises:
            DamagedError: The file is missing, empty or damaged, or lacks acknowledged writes.
            LedgerKeyError: The key belongs to another file.
            StorageError: The file cannot be opened, or has another schema.
        """
        tally = Tally(path)
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

    async def read_apart(
        self,
        work: Work[T],
        *,
        owner: Hashable = None,  # noqa: ARG002 - it waits for nobody
    ) -> T:
        """Run long `work` on a connection of its own, so that no other read waits for it."""

        def read() -> T:
            with closing(open_to_read(self._path, self._key)) as connection:
                try:
                    return work(connection)
                except (connection.Error, UnicodeDecodeError) as error:
                    raise as_storage_error(error, self._path) from error

        return await asyncio.to_thread(read)

    async def write(
        self,
        work: Work[T],
        *,
        owner: Hashable = None,
        rests_on: Collection[str] | None = None,  # noqa: ARG002 - no other writes meanwhile
        within: float = math.inf,
    ) -> T:
        """Run `work` in a transaction; return once it is committed to disk. Owners take turns.

        Raises:
            StorageError: SQLite refused, e.g. the disk is full, or others held it up for so long;
                nothing was written.
            Local2Error: `work` raised it; nothing was written.
        """
        written = self._writer.submit(work, owner, within)
        try:
            return await asyncio.shield(written)
        except asyncio.CancelledError:
            # The work is done nevertheless: wait for it before the caller is cancelled.
            await asyncio.wait({written})
            raise

    def full_text(self, budgets: Budgets) -> FullText:
        """Make a search by words for one tenant; `budgets` limit what it holds in RAM."""
        return FullText(budgets)

    def version(self, tx: Transaction) -> Version:
        """SQLite's number for the last commit that is seen."""
        return Version(tx.execute("data_version").fetchone()[0])

    def add_rows(self, tx: Transaction, new: Mapping[str, NewRecord]) -> dict[str, int]:
        """Add records, by id, except those whose ids exist."""
        features = {id_: record.features or features_of(record) for id_, record in new.items()}
        columns = [columns_of(record, features[id_]) for id_, record in new.items()]
        rows: dict[str, int]
        # Triggers fill the full-text index (schema.sql).
        if len(columns) == 1:
            inserted: Any = tx.execute("insert_record", **columns[0])
            rows = dict.fromkeys(new, inserted.lastrowid) if inserted.rowcount else {}
        else:
            last = tx.execute("last_row").fetchone()["last"]
            tx.execute("staging")
            tx.execute_each("stage_record", columns)
            tx.execute("insert_records")
            tx.execute("clear_staging")
            rows = {row["id"]: row["row"] for row in tx.execute("rows_added", last=last)}
        feature_rows = ({"record": row, **features[id_]._asdict()} for id_, row in rows.items())
        tx.execute_each("keep_features", feature_rows)
        tasks: defaultdict[TaskKind, list[int]] = defaultdict(list)
        for id_, row in rows.items():
            for kind in tasks_of(new[id_]):
                tasks[kind].append(row)
        for kind, rows_of_kind in tasks.items():
            tx.execute("add_tasks", kind=kind, rows=as_json(rows_of_kind))
        return rows

    def keep_vectors(self, tx: Transaction, vectors: Sequence[NewVector]) -> None:
        """Store the vectors of records that are still there, in place of former ones."""
        tx.execute_each("keep_vector", (vector._asdict() for vector in vectors))

    async def index_vectors(self, tenant: str, embedder: str) -> bool:
        """Do nothing: the vector worker searches them."""
        del tenant, embedder
        return True

    async def live_stacks(self) -> list[LiveStack]:
        """None: the lock of the data folder belongs to this stack alone."""
        return []

    async def server_bytes(self) -> None:
        """None: it has no server."""

    async def scrub(self) -> None:
        """Remove deleted content from the files, including the full-text index.

        Raises:
            StorageError: Another process reads the file, such as a sqlite3 shell or a backup.
        """

        def merge(connection: SqlConnection) -> bool:
            """Merge a part of the full-text index; return whether all is merged."""
            before = connection.total_changes
            connection.execute(STATEMENTS["merge_text"], {"pages": pages})
            return connection.total_changes - before < 2  # noqa: PLR2004 - as FTS5 documents it

        pages = -MERGED_PAGES  # negative: merges every segment, and not only those that are due
        for _ in range(MAX_MERGES):
            if await self.write(merge):
                break
            pages = MERGED_PAGES
        await asyncio.to_thread(truncate, self._path, self._key)

    async def problems(self) -> list[str]:
        """Read all of the ledger: its pages, its full-text index, the number of its records."""
        # On another connection: one that read a full-text index before a change checks its outdated
        # cache instead (seen in SQLite 3.53).
        found = await asyncio.to_thread(damages_of, self._path, self._key)
        try:
            await self.write(lambda c: c.execute(STATEMENTS["check_full_text"]).rowcount)
        except StorageError as error:
            found.append(f"The full-text index does not match the records: {error.message}")
        if not found:  # counting needs sound pages
            count = await self.read(lambda c: c.execute(STATEMENTS["count_rows"]).fetchone())
            if missing := count["last"] - count["there"]:
                found.append(f"{missing} of {count['last']} records are missing.")
        return found


def _connect_to_write(
    path: Path, key: ContentKey | None, schema: Schema, tally: Tally
) -> SqlConnection:
    """Open the file, refuse it if it is damaged, and create its tables if it is new."""
    tally.refuse_a_missing_database()
    with suppress(OSError):  # SQLite reports why the file cannot be created
        path.touch(mode=0o600)  # the write-ahead log gets the same mode
    connection = connect(path, key, OPEN_PATIENCE)
    try:
        refuse_damage(connection, path)
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
