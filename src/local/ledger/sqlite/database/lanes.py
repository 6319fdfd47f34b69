"""A thread with a connection of its own, and what becomes of the work that queues for it.

The writer commits whatever queued together in one transaction; the reader drains its queue and
wakes the event loop once a batch.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from local.errors import StorageError
from local.ledger.sqlite.database.connections import SqlConnection
from local.ledger.sqlite.database.soundness import as_storage_error
from local.ledger.sqlite.database.tally import Tally

T = TypeVar("T")
Work = Callable[[SqlConnection], T]

BATCH_LIMIT = 512
SLOW_SECONDS = 0.001


class _Job(NamedTuple, Generic[T]):
    work: Work[T]
    future: asyncio.Future[T]


class _Outcome(NamedTuple):
    future: asyncio.Future[Any]
    result: Any
    error: Exception | None


class Lane:
    """A thread with a connection of its own that works through a queue in batches."""

    def __init__(
        self,
        path: Path,
        run_batch: Callable[[SqlConnection, list[_Job[Any]]], Iterable[list[_Outcome]]],
        *,
        name: str,
        connect: Callable[[], SqlConnection],
    ) -> None:
        self._path = path
        self._run_batch = run_batch
        self._connect = connect
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._stopped = asyncio.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

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
            connection = self._connect()
        except StorageError as error:
            self._deliver([_Outcome(self._ready, None, error)])
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


def run_each(connection: SqlConnection, batch: list[_Job[Any]]) -> Iterator[list[_Outcome]]:
    """Read for each; what was quick is delivered together, and not after what is slow."""
    outcomes: list[_Outcome] = []
    begun = time.perf_counter()
    for job in batch:
        outcomes.append(_attempt(connection, job))
        if time.perf_counter() - begun > SLOW_SECONDS:
            yield outcomes
            outcomes, begun = [], time.perf_counter()
    yield outcomes


def commit_together(
    tally: Tally, connection: SqlConnection, batch: list[_Job[Any]]
) -> Iterator[list[_Outcome]]:
    before = connection.total_changes
    try:
        connection.execute("BEGIN IMMEDIATE")
        if len(batch) == 1:
            outcomes = [_attempt_alone(connection, batch[0])]
        else:
            outcomes = [_attempt_in_savepoint(connection, job) for job in batch]
        count = tally.add(connection) if connection.total_changes != before else None
        connection.execute("COMMIT")
    except (connection.Error, StorageError) as error:
        if connection.in_transaction:
            with suppress(
                connection.Error
            ):  # the disk that refused the commit may refuse this, too
                connection.execute("ROLLBACK")
        failure = as_storage_error(error)
        outcomes = [_Outcome(job.future, None, failure) for job in batch]
    else:
        if count is not None:
            tally.write(count)
    yield outcomes


def _attempt_alone(connection: SqlConnection, job: _Job[Any]) -> _Outcome:
    """Without a savepoint: within one FTS5 writes its index at every row."""
    outcome = _attempt(connection, job)
    if outcome.error is not None:
        if not connection.in_transaction:
            raise as_storage_error(outcome.error)
        connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
    return outcome


def _attempt_in_savepoint(connection: SqlConnection, job: _Job[Any]) -> _Outcome:
    connection.execute("SAVEPOINT job")
    outcome = _attempt(connection, job)
    if outcome.error is not None:
        if not connection.in_transaction:  # SQLite gave the whole batch up, as on a full disk
            raise as_storage_error(outcome.error)
        connection.execute("ROLLBACK TO job")
    connection.execute("RELEASE job")
    return outcome


def _attempt(connection: SqlConnection, job: _Job[Any]) -> _Outcome:
    try:
        return _Outcome(job.future, job.work(connection), None)
    except connection.Error as error:
        return _Outcome(job.future, None, as_storage_error(error))
    except Exception as error:  # noqa: BLE001 - it is the caller's, and goes back to the caller
        return _Outcome(job.future, None, error)
