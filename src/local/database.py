"""SQLite: one reader thread, one writer thread, migrations, and the lock on the data folder.

Work arrives as functions of a connection. The writer commits whatever queued together in one
transaction, so a call returns only when its rows survive a power cut; the reader drains its queue
and wakes the event loop once a batch. Nothing here knows what the tables mean.
"""

import asyncio
import fcntl
import os
import queue
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from local.errors import FolderLockedError, Local2Error, StorageError, UnwritableError

Connection = sqlite3.Connection
Row = sqlite3.Row
Cursor = sqlite3.Cursor

T = TypeVar("T")
Work = Callable[[Connection], T]

BATCH_LIMIT = 512
SLOW_SECONDS = 0.001
PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "fullfsync = ON",
    "foreign_keys = ON",
    "temp_store = MEMORY",
    "cache_size = -65536",
)


class _Job(NamedTuple, Generic[T]):
    work: Work[T]
    future: asyncio.Future[T]


class _Outcome(NamedTuple):
    future: asyncio.Future[Any]
    result: Any
    error: Exception | None


class Database:
    """One SQLite file. `read` and `write` run a function of a connection off the event loop."""

    def __init__(self, reader: "_Lane", writer: "_Lane") -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, migrations: Sequence[Traversable] = ()
    ) -> AsyncIterator["Database"]:
        """Open or create the file and bring its schema up to date.

        Args:
            path: Where the file is; its folder must exist.
            migrations: SQL files in the order of their numbers; never changed once released.

        Raises:
            StorageError: The file cannot be opened, or is newer than these migrations.
        """
        writer = _Lane(path, _commit_together, prepare=lambda c: _migrate(c, path, migrations))
        reader = _Lane(path, _run_each)
        try:
            await writer.start()
            await reader.start()
            yield cls(reader, writer)
        finally:
            await reader.stop()
            await writer.stop()

    async def read(self, work: Work[T]) -> T:
        """Run `work` on the reader's connection; it must not write."""
        return await self._reader.submit(work)

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction; returns once it is committed to disk.

        Raises:
            StorageError: SQLite refused, e.g. the disk is full; nothing was written.
            Local2Error: Whatever `work` raised; nothing of it was written.
        """
        written = self._writer.submit(work)
        try:
            return await asyncio.shield(written)
        except asyncio.CancelledError:
            # It is written all the same: whoever is cancelled goes on once that is so.
            await asyncio.wait({written})
            raise


class _Lane:
    """A thread with a connection of its own that works through a queue in batches."""

    def __init__(
        self,
        path: Path,
        run_batch: Callable[[Connection, list[_Job[Any]]], Iterable[list[_Outcome]]],
        prepare: Callable[[Connection], None] = lambda _: None,
    ) -> None:
        self._path = path
        self._run_batch = run_batch
        self._prepare = prepare
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._stopped = asyncio.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name=run_batch.__name__, daemon=True)

    async def start(self) -> None:
        self._thread.start()
        await self._ready

    async def stop(self) -> None:
        """Finish what is queued, then close the connection."""
        self._closing = True
        if self._thread.is_alive():
            self._jobs.put(None)
            await self._stopped.wait()

    def submit(self, work: Work[T]) -> asyncio.Future[T]:
        if self._closing:
            raise StorageError(f"The database {self._path} is closed.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Job(work, future))
        return future

    def _work(self) -> None:
        connection = None
        try:
            connection = _connect(self._path)
            self._prepare(connection)
        except (sqlite3.Error, StorageError) as error:
            self._deliver([_Outcome(self._ready, None, _as_storage_error(error, self._path))])
        else:
            self._deliver([_Outcome(self._ready, None, None)])
            for batch in _batches(self._jobs):
                for outcomes in self._run_batch(connection, batch):
                    self._deliver(outcomes)
        finally:
            if connection is not None:
                connection.close()
            self._loop.call_soon_threadsafe(self._stopped.set)

    def _deliver(self, outcomes: list[_Outcome]) -> None:
        self._loop.call_soon_threadsafe(_settle, outcomes)


def _settle(outcomes: list[_Outcome]) -> None:
    for future, result, error in outcomes:
        if future.done():  # its caller was cancelled; the work is done all the same
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def _batches(jobs: "queue.SimpleQueue[_Job[Any] | None]") -> Iterator[list[_Job[Any]]]:
    while (job := jobs.get()) is not None:
        batch = [job]
        while len(batch) < BATCH_LIMIT:
            try:
                job = jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                yield batch
                return
            batch.append(job)
        yield batch


def _run_each(connection: Connection, batch: list[_Job[Any]]) -> Iterator[list[_Outcome]]:
    """Read for each; what was quick is delivered together, and not after what is slow."""
    outcomes: list[_Outcome] = []
    begun = time.perf_counter()
    for job in batch:
        outcomes.append(_attempt(connection, job))
        if time.perf_counter() - begun > SLOW_SECONDS:
            yield outcomes
            outcomes, begun = [], time.perf_counter()
    yield outcomes


def _commit_together(connection: Connection, batch: list[_Job[Any]]) -> Iterator[list[_Outcome]]:
    try:
        connection.execute("BEGIN IMMEDIATE")
        if len(batch) == 1:
            outcomes = [_attempt_alone(connection, batch[0])]
        else:
            outcomes = [_attempt_in_savepoint(connection, job) for job in batch]
        connection.execute("COMMIT")
    except (sqlite3.Error, StorageError) as error:
        if connection.in_transaction:
            with suppress(sqlite3.Error):  # the disk that refused the commit may refuse this, too
                connection.execute("ROLLBACK")
        failure = _as_storage_error(error)
        outcomes = [_Outcome(job.future, None, failure) for job in batch]
    yield outcomes


def _attempt_alone(connection: Connection, job: _Job[Any]) -> _Outcome:
    """Without a savepoint: within one FTS5 writes its index at every row."""
    outcome = _attempt(connection, job)
    if outcome.error is not None:
        if not connection.in_transaction:
            raise _as_storage_error(outcome.error)
        connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
    return outcome


def _attempt_in_savepoint(connection: Connection, job: _Job[Any]) -> _Outcome:
    connection.execute("SAVEPOINT job")
    outcome = _attempt(connection, job)
    if outcome.error is not None:
        if not connection.in_transaction:  # SQLite gave the whole batch up, as on a full disk
            raise _as_storage_error(outcome.error)
        connection.execute("ROLLBACK TO job")
    connection.execute("RELEASE job")
    return outcome


def _attempt(connection: Connection, job: _Job[Any]) -> _Outcome:
    try:
        return _Outcome(job.future, job.work(connection), None)
    except sqlite3.Error as error:
        return _Outcome(job.future, None, _as_storage_error(error))
    except Exception as error:  # noqa: BLE001 - it is the caller's, and goes back to the caller
        return _Outcome(job.future, None, error)


def _as_storage_error(error: Exception, path: Path | None = None) -> Exception:
    if isinstance(error, Local2Error):
        return error
    where = f" ({path})" if path else ""
    wrapped = StorageError(
        f"The ledger{where} refused: {error}.", remedy="Check the disk's space and permissions."
    )
    wrapped.__cause__ = error
    return wrapped


def data_version(connection: Connection) -> int:
    """Another number after every change that another connection has made; never 0."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def _connect(path: Path) -> Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=True, cached_statements=256, timeout=30
    )
    connection.row_factory = sqlite3.Row
    try:
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _migrate(connection: Connection, path: Path, migrations: Sequence[Traversable]) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(migrations):
        raise StorageError(
            f"{path} has schema {version}; this local2 knows {len(migrations)}.",
            remedy="Update local2, or use another data folder.",
        )
    for number, migration in enumerate(migrations[version:], start=version + 1):
        script = migration.read_text(encoding="utf-8")
        connection.executescript(f"BEGIN; {script} PRAGMA user_version = {number}; COMMIT;")


@contextmanager
def folder_lock(folder: Path) -> Iterator[int]:
    """Own the data folder for as long as the context lasts; yields the lock's file descriptor.

    Child processes that inherit the descriptor keep the lock until they, too, are gone: a server
    left over from a killed stack can never share its files with a new one.

    Raises:
        FolderLockedError: Another process holds the folder; the message names it.
        StorageError: The folder cannot be made, or not be written to.
    """
    path = folder / "lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnwritableError(folder, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = path.read_text(encoding="utf-8").strip()
            raise FolderLockedError(
                f"{folder.resolve()} is in use by another stack (process {holder or 'unknown'}).",
                holder=int(holder) if holder.isdigit() else None,
                remedy="Use that one or stop it; a second stack needs LOCAL2_MEMORY__DATA_DIR and "
                "LOCAL2_MEMORY__CHROMA_PATH of its own.",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)
