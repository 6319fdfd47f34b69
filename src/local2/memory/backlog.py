"""Run the jobs that work on records after their acknowledgement.

The tasks are in the ledger, written in the transaction of their records. Each job has a loop, which
claims its tasks in batches and handles failures. If something that the job needs is out of reach,
the job pauses and no task counts a failure. A task that fails on its own is retried later, alone,
and finally set aside, so that the others go on. If several stacks share the ledger, each claims
what no other does (`ledger/operations/backlog.py`).
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import get_args

import structlog

from local2.background import Backoff, give_up
from local2.errors import (
    BusError,
    InvalidArgumentsError,
    Local2Error,
    ModelError,
    ModelRefusedError,
    OverloadedError,
    StorageError,
    TaskTakenError,
    VectorError,
    VectorFaultError,
    quoted,
)
from local2.ledger.operations.backlog import TaskQueue
from local2.ledger.records import LONGEST_RETRY_DELAY, Task, TaskKind
from local2.protocol.envelope import Clock, utc_now
from local2.protocol.maintenance import TaskReport, TaskRequest

ATTEMPTS = 4
"""Number of failures after which a task is set aside. The last one is about two minutes after the
first, which outlasts a restart of the failed service."""
FIRST_RETRY = timedelta(seconds=1)
"""Delay after the first failure of a task; multiplied by ten after each further one."""
GATHERING, LONGEST_GATHERING = 0.1, 1.0
"""Seconds that the tasks of a large write wait for more: after the last one, and at most. A busy
embedder slows down the writes that are not acknowledged yet."""
LONGEST_REST = 30.0
"""Seconds after which a job looks for tasks although nobody woke it: a request that was cancelled
behind its write, or that failed behind the first of several, wakes nobody."""
DISCARDED: tuple[TaskKind, ...] = ("extract", "judge")
"""Kinds of tasks that may be discarded; without one of another kind, the index would differ from
the ledger."""
MAX_LISTED = 100
"""Maximum number of failed tasks of a kind that are listed."""
FIRST_PAUSE = 0.1
"""Seconds of a job's first pause; doubled while what it needs remains out of reach."""

log = structlog.get_logger()


class Job(ABC):
    """Works on the tasks of one or more kinds, which need the same resources."""

    name: str
    """Prefix of the log's events, as in `indexing_delayed`."""
    kinds: tuple[TaskKind, ...]
    max_batches: int = 1
    """Maximum number of batches in flight."""
    longest_pause: float = 60.0
    """Maximum seconds between two checks whether what the job needs is back."""
    was_ready: bool = True
    """Whether what the job needs was ready before: only then is a delay worth a warning."""

    def batch_size(self, kind: TaskKind) -> int:
        """The maximum number of tasks in a batch."""
        del kind
        return 1

    async def ready(self) -> None:  # noqa: B027 - many jobs need no preparation
        """Prepare for taking tasks.

        Raises:
            Local2Error: Something that the job needs is out of reach.
        """

    @abstractmethod
    async def do(self, tasks: Sequence[Task]) -> None:
        """Do tasks of one kind, and finish each in the transaction that stores its effect.

        A task may be passed twice, for example after a kill, so effects outside the ledger must be
        idempotent.

        Raises:
            Local2Error: Something that the job needs is out of reach; see `is_out_of_reach`.
            Exception: Anything else counts as a failure of one of the tasks.
        """

    def all_done(self) -> None:  # noqa: B027 - many jobs ignore it
        """Called when no task is left."""


def is_out_of_reach(error: Exception) -> bool:
    """Whether an error is caused by a service that a job needs, not by the job's input."""
    of_needs = (BusError, OverloadedError, StorageError, VectorError, ModelError)
    of_input = (ModelRefusedError, VectorFaultError)
    return isinstance(error, of_needs) and not isinstance(error, of_input)


class Runner:
    """Runs one job: claims its tasks, retries them and pauses."""

    def __init__(self, job: Job, queue: TaskQueue, clock: Clock) -> None:
        self._job = job
        self._queue = queue
        self._clock = clock
        self._work = asyncio.Event()
        self._urgent = asyncio.Event()
        """Set if a task was added that does not wait for more."""
        self._added_at = 0.0
        self._resumed = asyncio.Event()
        self._kinds = list(job.kinds)
        """The job's kinds, the one whose turn is next first."""
        self._retry = False
        """Whether the next claim prefers failed tasks; this alternates."""
        self._interrupted: set[Task] = set()
        """Tasks of batches interrupted by a failing service; others go first until one succeeds."""
        self.is_caught_up = False
        """Whether all added tasks are done, except for failed ones."""
        self._last_progress = clock()
        self.problem: str | None = None
        """The reason why the job pauses, until it succeeds."""
        self._reported: str | None = None
        self._backoff = Backoff(FIRST_PAUSE, job.longest_pause)

    @property
    def last_progress(self) -> datetime:
        """When a task was last done, or when the first of the waiting tasks was added.

        Now, if all are done: tasks that wait nevertheless are those that another stack does.
        """
        return self._clock() if self.is_caught_up else self._last_progress

    def wake(self, *, many: bool = False) -> None:
        """Wake the loop after tasks were added. `many`: wait for more, which probably follow."""
        if self.is_caught_up:
            self._last_progress = self._clock()
        self.is_caught_up = False
        self._added_at = time.monotonic()
        self._work.set()
        if not many:
            self._urgent.set()

    def resume(self) -> None:
        """End a pause, because what the job needs is back."""
        self._resumed.set()
        self.wake()

    async def pause(self, seconds: float) -> None:
        """Wait until the job is resumed, at most for so many seconds."""
        await _wait(self._resumed, seconds)
        self._resumed.clear()

    async def finish(self, tasks: Sequence[Task]) -> None:
        """Finish tasks whose effect is outside the ledger."""
        await self._queue.finish(tasks)

    async def run(self) -> None:
        """Do tasks until cancelled. Tasks that were set aside get one more attempt first."""
        tried_again = False
        while True:
            self._work.clear()
            self._urgent.clear()
            try:
                if not tried_again:
                    await self._queue.try_again(*self._job.kinds)
                    tried_again = True
                await self._job.ready()
                await self._do_all()
                due = await self._queue.next_due(*self._job.kinds)
            except Local2Error as error:
                # Logged once if it lasts, and when it ends, not at each attempt.
                lasts, self.problem = self.problem is not None, str(error)
                if lasts and self.problem != self._reported:
                    self._reported = self.problem
                    write_log = log.warning if self._job.was_ready else log.info
                    write_log(f"{self._job.name}_delayed", reason=self.problem)
                await self.pause(self._backoff.next_pause())
            else:
                self._note_success()
                seconds = LONGEST_REST
                if due is not None:
                    seconds = min(seconds, (due - self._clock()).total_seconds())
                await _wait(self._work, seconds)
                await asyncio.sleep(0)  # the answer to who added the task leaves first
                # Further tasks of a large write are waited for, unless a task is urgent.
                latest = time.monotonic() + LONGEST_GATHERING
                while not self._urgent.is_set():
                    waited = min(self._added_at + GATHERING, latest) - time.monotonic()
                    if waited <= 0:
                        break
                    await _wait(self._urgent, waited)

    async def _do_all(self) -> None:
        """Run batches until no task is left; raise errors of unreachable services."""
        # Not a TaskGroup: that swallows a cancellation that arrives while one of its tasks fails.
        running: dict[asyncio.Task[None], list[Task]] = {}
        try:
            while (batch := await self._next_batch(running.values())) or running:
                if batch:
                    running[asyncio.create_task(self._attempt(batch))] = batch
                if not batch or len(running) == self._job.max_batches:
                    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for attempt in done:
                        await attempt
                        del running[attempt]
        finally:
            await give_up(*running)
        self.is_caught_up = not self._work.is_set()
        if self.is_caught_up:
            self._job.all_done()

    async def _next_batch(self, running: Iterable[Sequence[Task]]) -> list[Task]:
        """Claim tasks of the next kind; failed tasks take turns with the others."""
        busy = {task for batch in running for task in batch}
        for excluded in (busy | self._interrupted, busy) if self._interrupted else (busy,):
            limits = {kind: self._job.batch_size(kind) for kind in self._kinds}
            if batch := await self._queue.claim(
                limits, now=self._clock(), exclude=excluded, retry=self._retry
            ):
                self._retry = not self._retry
                self._kinds.remove(batch[0].kind)
                self._kinds.append(batch[0].kind)
                return batch
        return []

    async def _attempt(self, tasks: list[Task]) -> None:
        """Do a batch. If it fails, halve it until the failing task is found."""
        try:
            await self._job.do(tasks)
        except Exception as error:
            if is_out_of_reach(error):
                self._interrupted.update(tasks)
                await self._queue.give_back(tasks)
                raise
            if len(tasks) == 1:
                if isinstance(error, TaskTakenError):
                    log.info("task_taken", kind=tasks[0].kind, id=tasks[0].id)
                    return
                # It failed on its own: it is postponed, or set aside after the last attempt.
                task = tasks[0]
                known = error if isinstance(error, Local2Error) else None
                reason = known.logged if known else type(error).__name__
                trace = None if known else error
                about = {"kind": task.kind, "id": task.id, "reason": reason, "exc_info": trace}
                if task.attempts + 1 >= ATTEMPTS:
                    await self._queue.set_aside(task, reason)
                    log.error("task_set_aside", **about)  # noqa: TRY400 - a trace if it is a fault
                    return
                due = self._clock() + min(FIRST_RETRY * 10**task.attempts, LONGEST_RETRY_DELAY)
                await self._queue.postpone(task, reason, not_before=due)
                log.warning("task_failed", **about)
                return
            half = len(tasks) // 2
            await self._attempt(tasks[:half])
            await self._attempt(tasks[half:])
        else:
            self._interrupted.clear()
            self._note_success()
            self._last_progress = self._clock()

    def _note_success(self) -> None:
        if self._reported:
            event = f"{self._job.name}_resumed"
            log.info(event)
        self.problem = self._reported = None
        self._backoff.reset()


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class Backlog:
    """The jobs of one tenant."""

    def __init__(self, queue: TaskQueue, clock: Clock = utc_now) -> None:
        self._queue = queue
        self._clock = clock
        self._runners: dict[TaskKind, Runner] = {}

    def add_job(self, job: Job) -> Runner:
        """Let a job take the tasks of its kinds; it starts with the next `run`."""
        runner = Runner(job, self._queue, self._clock)
        self._runners.update(dict.fromkeys(job.kinds, runner))
        return runner

    def handles(self, kind: TaskKind) -> bool:
        """Whether any job takes such tasks; if not, none should be added."""
        return kind in self._runners

    def wake(self, *kinds: TaskKind, many: bool = False) -> None:
        """Wake the jobs after tasks of these kinds were added; see `Runner.wake`."""
        for kind in kinds:
            if (runner := self._runners.get(kind)) is not None:
                runner.wake(many=many)

    async def report(self, request: TaskRequest) -> TaskReport:
        """Report the tasks, after trying those that were set aside again, or discarding them.

        Raises:
            InvalidArgumentsError: There is no such kind, or its tasks may not be discarded.
        """
        kinds: tuple[TaskKind, ...] = get_args(TaskKind)
        if request.kind is not None:
            kinds = tuple(kind for kind in kinds if kind == request.kind)
            if not kinds:
                raise InvalidArgumentsError(
                    f"kind: there are no tasks of kind {quoted(request.kind)}.",
                    remedy=f"One of: {', '.join(get_args(TaskKind))}.",
                )
        changed = 0
        if request.action == "retry":
            changed = await self._queue.try_again(*kinds, ids=request.ids)
            self.wake(*kinds)
        elif request.action == "discard":
            discarded = [kind for kind in kinds if kind in DISCARDED]
            if not discarded:
                raise InvalidArgumentsError(
                    f"Tasks of kind {request.kind} cannot be discarded: the index would differ "
                    "from the ledger.",
                    remedy="Try them again, or erase or hide the record.",
                )
            changed = await self._queue.discard(*discarded, ids=request.ids)
        counts = [counted for counted in await self._queue.counts() if counted.kind in kinds]
        failed = [task for kind in kinds for task in await self._queue.failed(kind, MAX_LISTED)]
        return TaskReport(counts=counts, failed=failed, changed=changed)

    async def run(self) -> None:
        """Run all jobs concurrently until cancelled."""
        async with asyncio.TaskGroup() as jobs:
            for runner in dict.fromkeys(self._runners.values()):
                jobs.create_task(runner.run())
