"""Runs queued work in a thread that has its own connection.

The writer commits all queued work in one transaction; the reader drains its queue and wakes the
event loop once per batch. Owners take turns: the work of one owner is done in order, and another
owner's work does not wait for all of it.
"""

import asyncio
import math
import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from local2.errors import StorageError
from local2.ledger.engines import held_up_error
from local2.ledger.engines.sqlite.connections import SqlConnection
from local2.ledger.engines.sqlite.soundness import Tally, as_storage_error
from local2.telemetry import watching_lane

T = TypeVar("T")
Work = Callable[[SqlConnection], T]

BATCH_LIMIT = 512
"""Maximum number of jobs in a batch."""
BATCH_SECONDS = 0.02
"""Seconds after which a batch takes no more jobs; later jobs wait for the next batch."""
SLOW_SECONDS = 0.001
"""Seconds after which the results of a read batch so far are delivered."""


class _Job(NamedTuple, Generic[T]):
    work: Work[T]
    future: asyncio.Future[T]
    owner: Hashable
    claim: threading.Lock
    """Whoever takes it decides: the lane does the work, or its caller gives it up."""

    def take(self) -> bool:
        """Whether nobody else has decided yet."""
        return self.claim.acquire(blocking=False)

    def give_up(self) -> None:
        """Let the caller wait no longer, unless the work has begun."""
        if self.take() and not self.future.done():
            self.future.set_exception(held_up_error())


class _Outcome(NamedTuple):
    future: asyncio.Future[Any]
    result: Any
    error: Exception | None


class Lane:
    """A thread with its own connection that works through a queue in batches."""

    def __init__(
        self,
        path: Path,
        run_batch: Callable[[SqlConnection, Iterator[_Job[Any]]], Iterable[list[_Outcome]]],
        *,
        name: str,
        connect: Callable[[], SqlConnection],
    ) -> None:
        self._path = path
        self._run_batch = run_batch
        self._connect = connect
        self._jobs = _Queue()
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._stopped = asyncio.Event()
        self._closing = False
        self._watches = watching_lane(name)
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

    def submit(self, work: Work[T], owner: Hashable, within: float = math.inf) -> asyncio.Future[T]:
        """Queue work. It is given up if it has not begun after `within` seconds."""
        if self._closing:
            raise StorageError(f"The database {self._path} is closed.")
        future: asyncio.Future[T] = self._loop.create_future()
        for watch in self._watches:
            watch(future)
        job = _Job(work, future, owner, threading.Lock())
        if within < math.inf:
            giving_up = self._loop.call_later(within, job.give_up)
            future.add_done_callback(lambda _: giving_up.cancel())
        self._jobs.put(job)
        return future

    def _work(self) -> None:
        connection = None
        try:
            connection = self._connect()
        except Exception as error:  # noqa: BLE001 - `start` raises it
            self._deliver([_Outcome(self._ready, None, error)])
        else:
            self._deliver([_Outcome(self._ready, None, None)])
            while (first := self._jobs.take(wait=True)) is not None:
                for outcomes in self._run_batch(connection, _batch(first, self._jobs)):
                    self._deliver(outcomes)
        finally:
            if connection is not None:
                connection.close()
            self._loop.call_soon_threadsafe(self._stopped.set)

    def _deliver(self, outcomes: list[_Outcome]) -> None:
        self._loop.call_soon_threadsafe(_settle, outcomes)


def _settle(outcomes: list[_Outcome]) -> None:
    for future, result, error in outcomes:
        if future.done():  # given up, or cancelled: then the work was done nevertheless
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


class _Queue:
    """A queue with many producers and one consumer, which takes a job of each owner in turn."""

    def __init__(self) -> None:
        self._incoming: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._waiting: OrderedDict[Hashable, deque[_Job[Any]]] = OrderedDict()
        self._closed = False

    def put(self, job: _Job[Any] | None) -> None:
        """Add a job; None means that no more jobs follow."""
        self._incoming.put(job)

    def take(self, *, wait: bool = False) -> _Job[Any] | None:
        """The next job; None if there is none or, with `wait`, if no more follow."""
        wait = wait and not self._waiting and not self._closed
        while wait or not self._incoming.empty():
            new = self._incoming.get()
            if new is None:
                self._closed = True
            else:
                self._waiting.setdefault(new.owner, deque()).append(new)
            wait = False
        if not self._waiting:
            return None
        owner, jobs = self._waiting.popitem(last=False)
        job = jobs.popleft()
        if jobs:
            self._waiting[owner] = jobs  # to the end of the line
        return job


def _batch(first: _Job[Any], jobs: _Queue) -> Iterator[_Job[Any]]:
    """Yield the jobs of a batch; each is taken when the previous one is done."""
    until = time.perf_counter() + BATCH_SECONDS
    yield first
    for _ in range(BATCH_LIMIT - 1):
        if time.perf_counter() > until or (job := jobs.take()) is None:
            return
        yield job


def run_each(connection: SqlConnection, batch: Iterator[_Job[Any]]) -> Iterator[list[_Outcome]]:
    """Run each job; deliver quick results together, without waiting for slow jobs after them."""
    outcomes: list[_Outcome] = []
    started = time.perf_counter()
    for job in batch:
        outcomes.append(_attempt(connection, job))
        if time.perf_counter() - started > SLOW_SECONDS:
            yield outcomes
            outcomes, started = [], time.perf_counter()
    yield outcomes


def commit_together(
    tally: Tally, connection: SqlConnection, batch: Iterator[_Job[Any]]
) -> Iterator[list[_Outcome]]:
    before = connection.total_changes
    taken = list(islice(batch, 2))
    try:
        connection.execute("BEGIN IMMEDIATE")
        if len(taken) == 1:
            outcomes = [_attempt_alone(connection, taken[0])]
        else:
            outcomes = [_attempt_in_savepoint(connection, job) for job in taken]
            for job in batch:
                taken.append(job)
                outcomes.append(_attempt_in_savepoint(connection, job))
        count = tally.add(connection) if connection.total_changes != before else None
        connection.execute("COMMIT")
    except (connection.Error, StorageError, UnicodeDecodeError) as error:
        if connection.in_transaction:
            with suppress(connection.Error):  # a disk that refused the commit may refuse this, too
                connection.execute("ROLLBACK")
        failure = as_storage_error(error)
        outcomes = [_Outcome(job.future, None, failure) for job in taken]
    else:
        if count is not None:
            tally.write(count)
    yield outcomes


def _attempt_alone(connection: SqlConnection, job: _Job[Any]) -> _Outcome:
    """Run a job without a savepoint: within one, FTS5 would write its index at every row."""
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
        if not connection.in_transaction:  # SQLite rolled the whole batch back, as on a full disk
            raise as_storage_error(outcome.error)
        connection.execute("ROLLBACK TO job")
    connection.execute("RELEASE job")
    return outcome


def _attempt(connection: SqlConnection, job: _Job[Any]) -> _Outcome:
    if not job.take():
        return _Outcome(job.future, None, None)  # which its caller no longer awaits
    try:
        return _Outcome(job.future, job.work(connection), None)
    except (connection.Error, UnicodeDecodeError) as error:
        return _Outcome(job.future, None, as_storage_error(error))
    except Exception as error:  # noqa: BLE001 - raised to the caller of the job
        return _Outcome(job.future, None, error)
