"""Runs work on a PostgreSQL database: one job, one connection, one transaction.

Work is passed as functions that take a connection, and runs in threads. Others may write the same
database at the same time. While the server is away, because it restarts or another one takes over,
work waits for it, and is done again if it was interrupted. A commit whose answer was lost is looked
up, so that nothing is done twice.
"""

import asyncio
import hashlib
import math
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from queue import Empty, LifoQueue
from typing import Any, TypeVar

import psycopg
import structlog

from local2.background import Backoff, note_failure
from local2.errors import StorageError
from local2.ledger.engines import OF_ALL, NewVector, Version, Work, held_up_error
from local2.ledger.engines.postgres.connections import (
    PostgresConnection,
    UnknownOutcomeError,
    as_storage_error,
    connect,
    escaped,
    is_away,
)
from local2.ledger.engines.postgres.dialect import STATEMENTS
from local2.ledger.engines.postgres.fulltext import FullText, TextIndex
from local2.ledger.engines.postgres.lines import Lines
from local2.ledger.engines.postgres.neighbours import index_large_places
from local2.ledger.engines.postgres.schema import bypasses_policies, ensure_schema
from local2.ledger.engines.postgres.tables import Tables
from local2.ledger.operations.places import place_word
from local2.ledger.operations.records import columns_of, tasks_of
from local2.ledger.operations.transactions import Transaction, as_json
from local2.ledger.operations.working_sets import Budgets
from local2.ledger.records import NewRecord, TaskKind, features_of, stamp
from local2.ledger.search import Place
from local2.ledger.stored_vectors import as_halves, unpacked
from local2.protocol.envelope import new_id
from local2.protocol.maintenance import LiveStack

CONNECTIONS = 8
"""Maximum number of connections, each of which runs one job at a time."""
WRITING = 6
"""Maximum number of those that write: an erasure or an import holds up all other writes of its
tenant, and reads go on meanwhile."""
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
PATIENCE = 8.0
"""Seconds that work waits for a server that is away: less than a caller waits for an answer. After
them, work fails at its first attempt: otherwise all would wait for the few threads."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5
"""Seconds between two attempts to reach it."""
INDEXING = "indexes of neighbours"
"""The name of the work that one stack at a time does."""
PREPARED = {
    STATEMENTS[name]
    for name in (
        "add_records",
        "around",
        "echoed",
        "facts_that_stand",
        "item_relations",
        "records",
        "related",
        "replaced",
        "texts",
        "versions",
        "visible",
    )
}
"""What is planned once for a connection: to plan these takes longer than to carry them out. They
add records, or look up those with given rows."""
SCRUBBED = "record, feature, vector, note, item, tool_output, audit, task, relation"
"""The tables that have what somebody said, or about it."""

BYPASSES = (
    "The user of `ledger` is an administrator of PostgreSQL, whom no policy holds back: only the "
    "statements keep tenants apart. Use one that just owns the database."
)

log = structlog.get_logger()

T = TypeVar("T")


class Database:
    """A PostgreSQL database with the ledgers of any number of tenants.

    `stack` is the id of this stack among those that work on it. `secret` is known to all of them,
    and to nobody else.
    """

    statements = STATEMENTS
    text = TextIndex()
    tables = Tables()
    is_shared = True
    searches_vectors = True

    def __init__(self, url: str, threads: ThreadPoolExecutor) -> None:
        self.stack = new_id()
        self.secret = ""
        self._url = url
        self._threads = threads
        self._idle: LifoQueue[PostgresConnection] = LifoQueue()
        self._is_refused = False
        """Whether the last attempt to connect failed."""
        self._losses = 0
        """How often a connection was lost."""
        self._away_since: float | None = None
        """When the server was first missed; None while it answers."""
        self._indexing = asyncio.Lock()
        self._lines = Lines()
        self._writing = asyncio.Semaphore(WRITING)

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, unfinished: bool = False) -> AsyncIterator["Database"]:
        """Connect to a database, and create its tables if it is new.

        `unfinished`: also if a memory is being moved into it.

        Raises:
            StorageError: It cannot be reached, or has another schema.
        """
        with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="ledger") as threads:
            database = cls(url, threads)
            try:
                await database._run(partial(database._ensure, unfinished=unfinished))
                yield database
            finally:
                await database._run(database._close)

    async def say_alive(self, name: str, now: datetime) -> list[tuple[str, TaskKind]]:
        """Say that this stack lives; return the tenants and kinds of tasks that nobody does.

        What a stack has claimed is free for others once it has not said so for ten seconds.
        """
        asked = {"name": name, "now": stamp(now)}

        def say(connection: PostgresConnection) -> list[tuple[str, TaskKind]]:
            connection.execute(STATEMENTS["say_alive"], asked)
            return [
                (row["tenant"], row["kind"])
                for row in connection.execute(STATEMENTS["unclaimed"], asked)
            ]

        return await self._run(self._read, say, OF_ALL)

    async def count_grown(self) -> list[str]:
        """Let PostgreSQL count the rows of tables that have doubled; return their names.

        Left to itself, it plans for a minute or two as if a new memory had a few records, and joins
        all with all: with some hundred, a recall took half a minute.
        """

        def count(connection: PostgresConnection) -> list[str]:
            grown = [row["name"] for row in connection.execute(STATEMENTS["grown"], {})]
            if grown:
                connection.raw.execute(f"ANALYZE (SKIP_LOCKED) {', '.join(grown)}")
            return grown

        return await self._run(self._use, count)

    async def live_stacks(self) -> list[LiveStack]:
        """The stacks that live, the oldest first."""
        found = await self._run(self._use, lambda c: c.execute(STATEMENTS["stacks"], {}).fetchall())
        return [
            LiveStack(name=row["name"], began_at=row["began_at"], silent=row["silent"])
            for row in found
        ]

    async def server_bytes(self) -> int:
        """How much room the database takes, with its indexes."""
        size = STATEMENTS["database_size"]
        found = await self._run(self._use, lambda c: c.execute(size, {}).fetchall())
        return int(found[0]["bytes"])

    async def read(self, work: Work[T], *, owner: str | None = None) -> T:
        """Run `work`; it must not write. `owner`: the tenant whose rows it sees."""
        return await self._run(self._read, work, owner or "")

    async def read_apart(self, work: Work[T], *, owner: str | None = None) -> T:
        """Run `work`; each job has a connection of its own anyway."""
        return await self.read(work, owner=owner)

    async def write(
        self,
        work: Work[T],
        *,
        owner: str | None = None,
        rests_on: Collection[str] | None = None,
        within: float = math.inf,
    ) -> T:
        """Run `work` in a transaction; return once it is committed.

        Writes of an owner, which is a tenant, follow each other if one of them rests on what the
        other does, or on all. One that may not wait for ever has a caller who awaits it.

        Raises:
            StorageError: PostgreSQL refused, or others held it up for so long; nothing was written.
            Local2Error: `work` raised it; nothing was written.
        """
        tenant, until = owner or "", time.monotonic() + within
        async with AsyncExitStack() as line:
            try:
                async with asyncio.timeout(within if within < math.inf else None):
                    names = [f"{tenant} {name}" for name in rests_on or ()]
                    await line.enter_async_context(
                        self._lines.first_in(names, is_awaited=within < math.inf)
                    )
                    await line.enter_async_context(self._writing)
            except TimeoutError:
                raise held_up_error() from None
            written = asyncio.ensure_future(self._run(self._write, work, tenant, rests_on, until))
            try:
                return await asyncio.shield(written)
            except asyncio.CancelledError:
                # The work is done nevertheless: wait for it before the caller is cancelled.
                await asyncio.wait({written})
                note_failure(written)
                raise

    def version(self, tx: Transaction) -> Version:
        """The transactions that are seen, and those that have all ended."""
        row = tx.execute("version").fetchone()
        # A server that crashed gives numbers of transactions again that it had not yet written.
        return Version((self._losses, row["number"]), row["settled"], row["departures"])

    def full_text(self, budgets: Budgets) -> FullText:  # noqa: ARG002 - it holds little
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
            del row["features"], row["output"], row["parts"]
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
            halves=[as_halves(unpacked(vector.data)) for vector in vectors],
        )

    async def index_vectors(self, tenant: str, embedder: str) -> bool:
        """Build an index of neighbours for each large place, and drop those of other embedders.

        Others go on reading and writing meanwhile. One stack builds at a time, whatever the tenant:
        PostgreSQL lets each new index wait for everything that has begun before, so that two on one
        table would wait for each other, and one of them be ended.
        """
        claim = {"tenant": OF_ALL, "name": INDEXING}
        async with self._indexing:
            if not await self._execute("claim_work", claim):
                return False
            try:
                await self._run(self._read, partial(index_large_places, tenant, embedder), tenant)
            finally:
                with suppress(StorageError):  # it is free once this stack has ended
                    await self._execute("give_back_work", claim)
        return True

    async def scrub(self) -> None:
        """Remove the former versions of rows, except from backups and the write-ahead log."""
        await self._run(self._use, lambda c: c.raw.execute(f"VACUUM {SCRUBBED}"))

    async def problems(self) -> list[str]:
        """The reason why the ledger cannot be read; PostgreSQL itself checks its pages."""
        await self._run(self._use, lambda c: c.raw.execute("SELECT count(*) FROM record"))
        return []

    async def _execute(self, statement: str, values: Mapping[str, Any]) -> int:
        """Execute a named statement about all tenants; return the number of rows it changed."""

        def work(connection: PostgresConnection) -> int:
            return connection.execute(STATEMENTS[statement], values).rowcount

        return await self.write(work, owner=OF_ALL, rests_on=())

    async def _run(self, work: Callable[..., T], *values: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *values)

    def _ensure(self, *, unfinished: bool) -> None:
        """Create the tables, tidy up, and open connections for the first requests."""

        def prepare(connection: PostgresConnection) -> None:
            ensure_schema(connection, unfinished=unfinished)
            if bypasses_policies(connection):
                log.warning("ledger_without_row_security", reason=BYPASSES)
            with connection.reading(OF_ALL):
                connection.execute(STATEMENTS["add_up_usage"], {})
            row = connection.execute(STATEMENTS["identity"], {}).fetchone()
            key, here = (row["key"], row["here"]) if row is not None else (b"", "")
            self.secret = hashlib.blake2b(here.encode(), key=key, person=b"stacks").hexdigest()

        self._use(prepare)
        with suppress(psycopg.Error):  # the server may allow no more; one is enough to begin
            for _ in range(EARLY_CONNECTIONS):
                self._idle.put(self._connect())

    def _close(self) -> None:
        with suppress(StorageError):
            self._use(lambda c: c.execute(STATEMENTS["say_goodbye"], {}), patience=0)
        self._close_idle()

    def _read(self, work: Work[T], tenant: str) -> T:
        def read(connection: PostgresConnection) -> T:
            with connection.reading(tenant):
                return work(connection)

        return self._use(read)

    def _write(
        self, work: Work[T], tenant: str, rests_on: Collection[str] | None, until: float
    ) -> T:
        # Waits for the writes on which it rests, and keeps them away.
        locks, locked = STATEMENTS["lock_tenant"], {}
        if rests_on is not None:
            # In one order, so that none waits for each other.
            locks, locked = STATEMENTS["lock_parts"], {"locked": as_json(sorted(set(rests_on)))}

        def write(connection: PostgresConnection) -> T:
            for attempt in range(ATTEMPTS):
                try:
                    within = until - time.monotonic()
                    with connection.writing(tenant, within=within, locks=locks, **locked):
                        result = work(connection)
                except AGAIN:
                    if attempt == ATTEMPTS - 1:
                        raise
                except UnknownOutcomeError as unknown:
                    if not self._was_committed(unknown.transaction):
                        raise unknown.error from unknown
                    return result
                else:
                    return result
            raise AssertionError  # the last attempt returns or raises

        return self._use(write)

    def _use(self, work: Work[T], *, patience: float | None = None) -> T:
        """Run work on a connection; if the server is away, again on another one.

        Outside of `_read` and `_write`, no rows of tenants are seen.
        """
        patience = PATIENCE if patience is None else patience
        backoff, pause = Backoff(FIRST_PAUSE, LONGEST_PAUSE), 0.0
        while True:
            try:
                try:
                    # A server that allows no more connections leaves those of other threads.
                    connection = self._idle.get(timeout=pause)
                except Empty:
                    connection = self._connect()
                try:
                    return work(connection)
                except psycopg.Error as error:
                    if is_away(error):
                        self._losses += 1
                        connection.raw.close()  # also one to a server that can no longer write
                        self._close_idle()  # else each would cost a pause before it turns out dead
                    raise
                finally:
                    if not connection.raw.closed:
                        self._away_since = None
                        self._idle.put(connection)
            except psycopg.Error as error:
                now = time.monotonic()
                if not is_away(error):
                    raise as_storage_error(error) from error
                since = self._away_since = self._away_since or now
                if now >= since + patience:
                    raise as_storage_error(error) from error
            pause = backoff.next_pause()

    def _connect(self) -> PostgresConnection:
        try:
            connection = connect(self._url, self.stack, PREPARED)
        except psycopg.Error as error:
            if not self._is_refused:
                reason = as_storage_error(error).logged
                log.warning("ledger_connection_refused", reason=reason)
            self._is_refused = True
            raise
        self._is_refused = False
        return connection

    def _close_idle(self) -> None:
        with suppress(Empty):  # other threads take connections, too
            while True:
                self._idle.get_nowait().raw.close()

    def _was_committed(self, transaction: str) -> bool:
        """Find out whether a transaction was committed before the connection was lost.

        Raises:
            StorageError: The server stays away.
        """
        asked = {"transaction": transaction}
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self._use(lambda c: c.execute(STATEMENTS["outcome"], asked).fetchone())
            outcome = None if found is None else found["outcome"]
            # The server may not have noticed yet that its client is gone.
            if outcome != "in progress" or time.monotonic() > deadline:
                return bool(outcome == "committed")
            time.sleep(FIRST_PAUSE)
