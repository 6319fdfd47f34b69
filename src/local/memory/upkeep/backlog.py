"""The work after the acknowledgement, job by job, each at its own pace.

The tasks are in the ledger, written with their records. The loop here claims them in batches, gives
them to the job that takes their kind, and handles failures. Where something that a job needs is out
of reach, the job pauses and no task is to blame. A task that fails by itself is tried again later,
alone, and is finally set aside, so that others go on.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import structlog

from local.errors import (
    BusError,
    Local2Error,
    ModelError,
    ModelRefusedError,
    OverloadedError,
    StorageError,
    VectorError,
    VectorFaultError,
)
from local.ledger.door import TaskQueue
from local.ledger.records import LONGEST_RETRY_DELAY, Task, TaskKind
from local.protocol.envelope import Clock, utc_now

ATTEMPTS = 4
"""Failures of a task by itself before it is set aside: the last one about two minutes after the
first, which outlasts a restart of whatever failed."""
FIRST_RETRY = timedelta(seconds=1)
"""After the first failure; ten times as long after each further one."""
GATHERING, LONGEST_GATHERING = 0.1, 1.0
"""Seconds that many tasks wait for more, from the last addition, and at most: an embedder at work
slows whatever has yet to be acknowledged."""
FIRST_PAUSE = 0.1
"""Seconds that a job pauses where what it needs is out of reach; twice as long each time."""

log = structlog.get_logger()


class Job(ABC):
    """The work on the tasks of some kinds, which need the same things."""

    name: str
    """Of the log's events, as in `indexing_delayed`."""
    kinds: tuple[TaskKind, ...]
    at_once: int = 1
    """Batches under way together."""
    longest_pause: float = 60.0
    """The most seconds until the job checks again whether what it needs is back."""
    starting: bool = False
    """Whether what it needs has never been there yet, which is no reason for a warning."""

    def together(self, kind: TaskKind) -> int:
        """Return how many tasks a batch has at most."""
        del kind
        return 1

    async def ready(self) -> None:  # noqa: B027 - many jobs need nothing
        """Prepare for taking tasks.

        Raises:
            Local2Error: What the job needs is out of reach.
        """

    @abstractmethod
    async def do(self, tasks: Sequence[Task]) -> None:
        """Do tasks of one kind, and finish each in the transaction that stores its effect.

        A task may come twice, for example after a kill: repeating an effect outside the ledger
        changes nothing.

        Raises:
            Local2Error: What the job needs is out of reach, see `out_of_reach`.
            Exception: Anything else is the fault of one of the tasks.
        """

    def all_done(self) -> None:  # noqa: B027 - many jobs do not care
        """Called when no task waits any more."""


def out_of_reach(error: Exception) -> bool:
    """Return whether it is the fault of what a job needs, and not of its input."""
    needed = (BusError, OverloadedError, StorageError, VectorError, ModelError)
    given = (ModelRefusedError, VectorFaultError)
    return isinstance(error, needed) and not isinstance(error, given)


class Runner:
    """Does the tasks of one job while `run` runs."""

    def __init__(self, job: Job, queue: TaskQueue, clock: Clock) -> None:
        self._job = job
        self._queue = queue
        self._clock = clock
        self._work = asyncio.Event()
        self._at_once = asyncio.Event()
        self._added_at = 0.0
        self._resumed = asyncio.Event()
        self._kinds = list(job.kinds)
        """The kinds whose turn is first."""
        self._retry = False
        self._unlucky: set[Task] = set()
        """Tasks that met something out of reach; they come after others, until others succeed."""
        self.caught_up = False
        """Whether every task that was added before is done, except for failed ones."""
        self.moved_at = clock()
        """When a task was last done, or when the first of those that wait was added."""
        self.problem: str | None = None
        """Why the job pauses, until it succeeds."""
        self._reported: str | None = None
        self._pause = FIRST_PAUSE

    def wake(self, *, many: bool = False) -> None:
        """Wake the loop: a task was added, or many, which are likely to be followed by more."""
        if self.caught_up:
            self.moved_at = self._clock()
        self.caught_up = False
        self._added_at = time.monotonic()
        self._work.set()
        if not many:
            self._at_once.set()

    def resume(self) -> None:
        """End a pause: what the job needs is back."""
        self._resumed.set()
        self.wake()

    async def pause(self, seconds: float) -> None:
        """Wait until the job is resumed, at most so long."""
        await _wait(self._resumed, seconds)
        self._resumed.clear()

    async def finish(self, tasks: Sequence[Task]) -> None:
        """Finish tasks whose effect is not in the ledger."""
        await self._queue.finish(tasks)

    async def run(self) -> None:
        """Do what waits until cancelled; tasks set aside before get one more attempt."""
        tried_again = False
        while True:
            self._work.clear()
            self._at_once.clear()
            try:
                if not tried_again:
                    await self._queue.try_again(*self._job.kinds)
                    tried_again = True
                await self._job.ready()
                await self._do_all()
                due = await self._queue.next_due(*self._job.kinds)
            except Local2Error as error:
                self._delayed(str(error))
                await self.pause(self._pause)
                self._pause = min(2 * self._pause, self._job.longest_pause)
            else:
                self._succeeded()
                await _wait(self._work, self._until(due) if due else None)
                await self._gathered()

    async def _gathered(self) -> None:
        """Wait while many tasks are being added, unless one is to be done at once."""
        latest = time.monotonic() + LONGEST_GATHERING
        while not self._at_once.is_set():
            left = min(self._added_at + GATHERING, latest) - time.monotonic()
            if left <= 0:
                return
            await _wait(self._at_once, left)

    def _until(self, due: datetime) -> float:
        """Return the seconds until then; a clock that is set must not make them a year."""
        return min(due - self._clock(), LONGEST_RETRY_DELAY).total_seconds()

    async def _do_all(self) -> None:
        """Run batches until nothing waits; raise what is out of reach."""
        # Not a TaskGroup: it swallows a cancellation that comes while a task of it fails.
        under_way: dict[asyncio.Task[None], list[Task]] = {}
        try:
            while (batch := await self._next(under_way.values())) or under_way:
                if batch:
                    under_way[asyncio.create_task(self._attempt(batch))] = batch
                if not batch or len(under_way) == self._job.at_once:
                    done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                    for one in done:
                        await one
                        del under_way[one]
        finally:
            for one in under_way:
                one.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
        self.caught_up = not self._work.is_set()
        if self.caught_up:
            self._job.all_done()

    async def _next(self, under_way: Iterable[Sequence[Task]]) -> list[Task]:
        """Return tasks of the next kind; those that failed take turns with the others."""
        busy = {task for batch in under_way for task in batch}
        for but in (busy | self._unlucky, busy) if self._unlucky else (busy,):
            limits = {kind: self._job.together(kind) for kind in self._kinds}
            if batch := await self._queue.claim(
                limits, now=self._clock(), but=but, retry=self._retry
            ):
                self._retry = not self._retry
                self._kinds.remove(batch[0].kind)
                self._kinds.append(batch[0].kind)
                return batch
        return []

    async def _attempt(self, tasks: list[Task]) -> None:
        """Do a batch; one that fails as a whole is halved until the failing task is found."""
        try:
            await self._job.do(tasks)
        except Exception as error:
            if out_of_reach(error):
                self._unlucky.update(tasks)
                raise
            if len(tasks) == 1:
                await self._failed(tasks[0], error)
                return
            half = len(tasks) // 2
            await self._attempt(tasks[:half])
            await self._attempt(tasks[half:])
        else:
            self._unlucky.clear()
            self._succeeded()
            self.moved_at = self._clock()

    async def _failed(self, task: Task, error: Exception) -> None:
        """Count a failure: the task alone is to blame."""
        reason = error.logged if isinstance(error, Local2Error) else type(error).__name__
        trace = None if isinstance(error, Local2Error) else error
        about = {"kind": task.kind, "id": task.id, "reason": reason, "exc_info": trace}
        if task.attempts + 1 >= ATTEMPTS:
            await self._queue.set_aside(task, reason)
            log.error("task_set_aside", **about)
            return
        due = self._clock() + min(FIRST_RETRY * 10**task.attempts, LONGEST_RETRY_DELAY)
        await self._queue.postpone(task, reason, not_before=due)
        log.warning("task_failed", **about)

    def _delayed(self, problem: str) -> None:
        """Log a problem when it lasts and when it ends, not at every attempt."""
        lasts, self.problem = self.problem is not None, problem
        if lasts and problem != self._reported:
            event, self._reported = f"{self._job.name}_delayed", problem
            write_log = log.info if self._job.starting else log.warning
            write_log(event, reason=problem)

    def _succeeded(self) -> None:
        if self._reported:
            event = f"{self._job.name}_resumed"
            log.info(event)
        self.problem = self._reported = None
        self._pause = FIRST_PAUSE


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class Backlog:
    """One tenant's jobs."""

    def __init__(self, queue: TaskQueue, clock: Clock = utc_now) -> None:
        self._queue = queue
        self._clock = clock
        self._runners: dict[TaskKind, Runner] = {}

    def add(self, job: Job) -> Runner:
        """Let a job take the tasks of its kinds, from the next `run` on."""
        runner = Runner(job, self._queue, self._clock)
        self._runners.update(dict.fromkeys(job.kinds, runner))
        return runner

    def takes(self, kind: TaskKind) -> bool:
        """Return whether a job takes such tasks: without one none should be added."""
        return kind in self._runners

    def wake(self, *kinds: TaskKind, many: bool = False) -> None:
        """Wake the jobs of these kinds: tasks were added; if many, they wait a little for more."""
        for kind in kinds:
            if (runner := self._runners.get(kind)) is not None:
                runner.wake(many=many)

    async def run(self) -> None:
        """Run all jobs beside each other until cancelled."""
        async with asyncio.TaskGroup() as jobs:
            for runner in dict.fromkeys(self._runners.values()):
                jobs.create_task(runner.run())
