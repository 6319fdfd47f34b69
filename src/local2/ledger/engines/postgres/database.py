"""Runs work on a PostgreSQL database: one job, one connection, one transaction.

Work is passed as functions that take a connection, and runs in threads. Others may write the same
database at the same time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import psycopg
import structlog

from local2.ledger.engines import NewVector, Version, Work
from local2.ledger.engines.postgres.connections import (
    OF_ALL,
    PostgresConnection,
    as_storage_error,
    connect,
    escaped,
)
from local2.ledger.engines.postgres.dialect import STATEMENTS
from local2.ledger.engines.postgres.fulltext import FullText, TextIndex
from local2.ledger.engines.postgres.neighbours import index_large_places
from local2.ledger.engines.postgres.schema import bypasses_policies, ensure_schema
from local2.ledger.operations.record_rows import columns_of, tasks_of
from local2.ledger.operations.rows import Transaction, as_json
from local2.ledger.operations.vectors import as_halves
from local2.ledger.operations.working_sets import Budgets, place_word
from local2.ledger.records import NewRecord, features_of
from local2.ledger.search import Place

CONNECTIONS = 8
"""Maximum number of connections, each of which runs one job at a time."""
AGAIN = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.UniqueViolation,
)
"""Errors for what others have just written, which the next attempt sees."""
EARLY_CONNECTIONS = 2
"""Number of further connections that are opened at the start."""
ATTEMPTS = 5
"""How often a write is tried."""
PREPARED = {STATEMENTS["add_records"]}
"""What is planned once for a connection: to plan it takes longer than to add a record."""
SCRUBBED = "record, feature, vector, note, item, tool_output, audit, task, relation"
"""The tables that have what somebody said, or about it."""

BYPASSES = (
    "The user of `ledger` is an administrator of PostgreSQL, whom no policy holds back: only the "
    "statements keep tenants apart. Use one that just owns the database."
)

log = structlog.get_logger()

T = TypeVar("T")


class Database:
    """A PostgreSQL database with the ledgers of any number of tenants."""

    statements = STATEMENTS
    text = TextIndex()
    is_shared = True
    searches_vectors = True

    def __init__(self, url: str, threads: ThreadPoolExecutor) -> None:
        self._url = url
        self._threads = threads
        self._idle: list[PostgresConnection] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator["Database"]:
        """Connect to a database, and create its tables if it is new.

        Raises:
            StorageError: It cannot be reached, or has another schema.
        """
        with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="ledger") as threads:
            database = cls(url, threads)
            try:
                await database._run(database._ensure)
                yield database
            finally:
                await database._run(database._close)

    async def read(self, work: Work[T], *, owner: str | None = None) -> T:
        """Run `work`; it must not write. `owner`: the tenant whose rows it sees."""
        return await self._run(self._read, work, owner or "")

    async def write(
        self,
        work: Work[T],
        *,
        owner: str | None = None,
        rests_on: Collection[str] | None = None,
    ) -> T:
        """Run `work` in a transaction; return once it is committed.

        Writes of an owner, which is a tenant, follow each other if one of them rests on what the
        other does, or on all.

        Raises:
            StorageError: PostgreSQL refused; nothing was written.
            Local2Error: `work` raised it; nothing was written.
        """
        written = asyncio.ensure_future(self._run(self._write, work, owner or "", rests_on))
        try:
            return await asyncio.shield(written)
        except asyncio.CancelledError:
            # The work is done nevertheless: wait for it before the caller is cancelled.
            await asyncio.wait({written})
            raise

    def version(self, tx: Transaction) -> Version:
        """Return the transactions that are seen, and those that have all ended."""
        row = tx.execute("version").fetchone()
        return Version(row["number"], row["settled"], row["departures"])

    def full_text(self, budgets: Budgets) -> FullText:  # noqa: ARG002 - it holds nothing
        """Make a search by words for one tenant."""
        return FullText()

    def add_rows(self, tx: Transaction, new: Mapping[str, NewRecord]) -> dict[str, int]:
        """Add records, by id, except those whose ids exist, in one statement."""
        rows = []
        for number, record in enumerate(new.values()):
            features = record.features or features_of(record)
            row = {
                **columns_of(record, features),
                **features._asdict(),
                "number": number,
                "place": place_word(tx.tenant, Place(record.scope, record.owner, record.kind)),
                "tasks": tasks_of(record),
            }
            del row["features"]
            for flag in ("timed", "wish", "pending", "pinned"):
                row[flag] = None if row[flag] is None else int(row[flag])
            rows.append(row)
        added = tx.execute("add_records", records=as_json(rows))
        return {row["id"]: row["row"] for row in added}

    def keep_vectors(self, tx: Transaction, vectors: Sequence[NewVector]) -> None:
        """Store the vectors of records that are still there, in one statement."""
        if not vectors:
            return
        tx.execute(
            "keep_vectors",
            rows=[vector.row for vector in vectors],
            ids=[escaped(vector.id) for vector in vectors],
            embedders=[vector.embedder for vector in vectors],
            data=[vector.data for vector in vectors],
            halves=[as_halves(vector.data) for vector in vectors],
        )

    async def index_vectors(self, tenant: str, embedder: str) -> None:
        """Build an index of neighbours for each large place, and drop those of other embedders.

        Others go on reading and writing meanwhile.
        """
        await self._run(self._read, partial(index_large_places, tenant, embedder), tenant)

    async def scrub(self) -> None:
        """Remove the former versions of rows, except from backups and the write-ahead log."""
        await self._run(self._outside, lambda c: c.raw.execute(f"VACUUM {SCRUBBED}"))

    async def problems(self) -> list[str]:
        """Return the reason why the ledger cannot be read; PostgreSQL itself checks its pages."""
        await self._run(self._outside, lambda c: c.raw.execute("SELECT count(*) FROM record"))
        return []

    async def _run(self, work: Callable[..., T], *values: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *values)

    def _ensure(self) -> None:
        """Create the tables, tidy up, and open connections for the first requests."""
        self._outside(ensure_schema)
        if self._outside(bypasses_policies):
            log.warning("ledger_without_row_security", reason=BYPASSES)
        self._read(lambda c: c.execute(STATEMENTS["add_up_usage"], {}), OF_ALL)
        self._idle += [self._connect() for _ in range(EARLY_CONNECTIONS)]

    def _close(self) -> None:
        while self._idle:
            self._idle.pop().raw.close()

    def _take(self) -> PostgresConnection:
        with suppress(IndexError):
            return self._idle.pop()
        return self._connect()

    def _connect(self) -> PostgresConnection:
        return connect(self._url, PREPARED)

    def _give_back(self, connection: PostgresConnection) -> None:
        if connection.raw.closed:
            return
        self._idle.append(connection)

    def _outside(self, work: Work[T]) -> T:
        """Run what is about the whole database."""
        connection = self._take()
        try:
            return work(connection)
        except psycopg.Error as error:
            raise as_storage_error(error) from error
        finally:
            self._give_back(connection)

    def _read(self, work: Work[T], tenant: str) -> T:
        def read(connection: PostgresConnection) -> T:
            with connection.reading(tenant):
                return work(connection)

        return self._outside(read)

    def _write(self, work: Work[T], tenant: str, rests_on: Collection[str] | None) -> T:
        def write(connection: PostgresConnection) -> T:
            for attempt in range(ATTEMPTS):
                try:
                    with _locked(connection, tenant, rests_on):
                        return work(connection)
                except AGAIN:
                    if attempt == ATTEMPTS - 1:
                        raise
            raise AssertionError  # the last attempt returns or raises

        return self._outside(write)


def _locked(
    connection: PostgresConnection, tenant: str, rests_on: Collection[str] | None
) -> AbstractContextManager[None]:
    """Begin a transaction that waits for the writes on which it rests, and keeps them away."""
    if rests_on is None:
        return connection.writing(tenant, locks=STATEMENTS["lock_tenant"])
    locked = as_json(sorted(set(rests_on)))  # in one order, so that none waits for each other
    return connection.writing(tenant, locks=STATEMENTS["lock_parts"], locked=locked)
