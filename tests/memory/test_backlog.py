"""Jobs run concurrently; a failing task is set aside, and one that lacks something waits."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from clocks import MovableClock
from ledgers import DAY, record
from local2.errors import InvalidArgumentsError, Local2Error, VectorError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.records import Task, TaskKind
from local2.memory import backlog as module
from local2.memory.backlog import ATTEMPTS, FIRST_RETRY, Backlog, Job
from local2.protocol.maintenance import TaskCounts, TaskRequest
from waiting import eventually
from working import working

MANY = 1_000


class Recorder(Job):
    """A job that finishes its tasks in the ledger, unless a test says otherwise."""

    def __init__(self, ledger: Ledger, kind: TaskKind = "judge", together: int = 8) -> None:
        self.name, self.kinds = f"{kind}_test", (kind,)
        self._ledger = ledger
        self._together = together
        self.refused: dict[str, Exception] = {}
        self.lacking: Local2Error | None = None
        self.may_finish = asyncio.Event()
        self.may_finish.set()
        self.batches: list[list[str]] = []
        self.done: list[str] = []

    def batch_size(self, kind: TaskKind) -> int:
        assert kind in self.kinds
        return self._together

    async def do(self, tasks: Sequence[Task]) -> None:
        self.batches.append([task.id for task in tasks])
        await self.may_finish.wait()
        if self.lacking:
            raise self.lacking
        for task in tasks:
            if error := self.refused.get(task.id):
                raise error
        await self._ledger.backlog.finish(tasks)
        self.done += [task.id for task in tasks]


@pytest.fixture
def ledger(database: Database) -> Ledger:
    return Ledger(database, "default")


@pytest.fixture
def clock() -> MovableClock:
    clock = MovableClock()
    clock.now = DAY
    return clock


@pytest.fixture
def backlog(ledger: Ledger, clock: MovableClock) -> Backlog:
    return Backlog(ledger.backlog, clock)


async def add_records(ledger: Ledger, number: int) -> list[str]:
    """Store records with a task `index` and a task `judge` each; return their ids, oldest first."""
    records = [record(f"Note {n}.", tasks=("judge",)) for n in range(number)]
    await ledger.records.store(records)
    return [one.id for one in records]


async def count_tasks(ledger: Ledger, kind: TaskKind = "judge") -> TaskCounts:
    found = {each.kind: each for each in await ledger.backlog.counts()}
    return found.get(kind, TaskCounts(kind=kind, waiting=0, aside=0))


async def test_waiting_and_later_tasks_are_done_in_batches(
    ledger: Ledger, backlog: Backlog
) -> None:
    job = Recorder(ledger)
    runner = backlog.add_job(job)
    first = await add_records(ledger, 10)

    async with working(backlog):
        await eventually(lambda: runner.is_caught_up)
        assert job.batches == [first[:8], first[8:]]
        later = await add_records(ledger, 1)
        backlog.wake("judge")
        assert not runner.is_caught_up
        await eventually(lambda: runner.is_caught_up)

    assert job.done == [*first, *later]


async def test_a_job_that_has_done_everything_is_not_behind_however_long_ago_that_was(
    ledger: Ledger, backlog: Backlog, clock: MovableClock
) -> None:
    """What another stack has begun may wait meanwhile."""
    runner = backlog.add_job(Recorder(ledger))

    async with working(backlog):
        await eventually(lambda: runner.is_caught_up)
        clock.now += timedelta(hours=1)
        assert runner.last_progress == clock.now

    backlog.wake("judge")
    woken = clock.now
    clock.now += timedelta(hours=1)
    assert runner.last_progress == woken


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make many tasks wait an hour for more."""
    monkeypatch.setattr(module, "GATHERING", 3600)
    monkeypatch.setattr(module, "LONGEST_GATHERING", 3600)


@pytest.mark.usefixtures("patient")
async def test_many_tasks_wait_for_more_until_an_urgent_one(
    ledger: Ledger, backlog: Backlog
) -> None:
    job = Recorder(ledger, together=64)
    runner = backlog.add_job(job)

    async with working(backlog):
        await eventually(lambda: runner.is_caught_up)
        many = await add_records(ledger, 20)
        backlog.wake("judge", many=True)
        many += await add_records(ledger, 20)
        backlog.wake("judge", many=True)
        assert not runner.is_caught_up
        for _ in range(10):  # long enough for a batch to be claimed
            await count_tasks(ledger)
        assert not job.batches
        backlog.wake("judge")
        await eventually(lambda: runner.is_caught_up)

    assert job.batches == [many]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("which", ["GATHERING", "LONGEST_GATHERING"])
async def test_many_tasks_are_done_after_a_pause_or_a_maximum_time(
    ledger: Ledger, backlog: Backlog, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.setattr(module, which, 0.01)
    job = Recorder(ledger, together=64)
    runner = backlog.add_job(job)

    async with working(backlog):
        await eventually(lambda: runner.is_caught_up)
        many = await add_records(ledger, 20)
        backlog.wake("judge", many=True)
        await eventually(lambda: runner.is_caught_up)

    assert job.done == many


async def test_tasks_of_a_write_whose_caller_was_cancelled_are_done_after_a_rest(
    ledger: Ledger, backlog: Backlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_REST", 0.01)
    job = Recorder(ledger)
    runner = backlog.add_job(job)

    async with working(backlog):
        await eventually(lambda: runner.is_caught_up)
        written = await add_records(ledger, 3)  # and nobody wakes the job
        await eventually(lambda: job.done == written)


async def test_one_poisonous_task_fails_no_other(ledger: Ledger, backlog: Backlog) -> None:
    job = Recorder(ledger, together=64)
    runner = backlog.add_job(job)
    ids = await add_records(ledger, 64)
    job.refused[ids[40]] = ValueError("What is said in it.")

    async with working(backlog):
        await eventually(lambda: runner.is_caught_up)

    assert sorted(job.done) == sorted(set(ids) - {ids[40]})
    assert len(job.batches) <= 2 * 6 + 1, "it was halved, not taken apart"


async def test_a_failing_task_is_retried_with_growing_pauses_and_then_set_aside(
    ledger: Ledger, backlog: Backlog, clock: MovableClock
) -> None:
    job = Recorder(ledger)
    runner = backlog.add_job(job)
    (poison,) = await add_records(ledger, 1)
    job.refused[poison] = ValueError("What is said in it.")

    async with working(backlog):
        for attempt in range(1, ATTEMPTS):
            await eventually(lambda: runner.is_caught_up)
            assert len(job.batches) == attempt
            clock.now += FIRST_RETRY * 10 ** (attempt - 1) - timedelta(milliseconds=1)
            backlog.wake("judge")
            await eventually(lambda: runner.is_caught_up)
            assert len(job.batches) == attempt, "it is not due yet"
            clock.now += timedelta(milliseconds=1)
            backlog.wake("judge")
        await eventually(lambda: runner.is_caught_up)
        others = await add_records(ledger, 2)
        backlog.wake("judge")
        await eventually(lambda: job.done == others)

    assert job.batches == [[poison]] * ATTEMPTS + [others]
    assert await count_tasks(ledger) == TaskCounts(
        kind="judge", waiting=0, aside=1, errors=("ValueError",)
    ), "and nothing of what the error says, which may be what was said"


async def test_a_task_that_failed_with_a_clock_a_year_ahead_does_not_wait_a_year(
    ledger: Ledger, backlog: Backlog, clock: MovableClock
) -> None:
    job = Recorder(ledger)
    runner = backlog.add_job(job)
    (unlucky,) = await add_records(ledger, 1)
    job.refused[unlucky] = ValueError("What is said in it.")
    clock.now += timedelta(days=365)
    async with working(backlog):
        await eventually(lambda: runner.is_caught_up)
    assert job.batches == [[unlucky]]

    clock.now = DAY
    job.refused.clear()
    async with working(backlog):
        await eventually(lambda: job.done == [unlucky])


async def test_tasks_set_aside_are_retried_once_at_the_next_start(
    ledger: Ledger, backlog: Backlog, clock: MovableClock
) -> None:
    stubborn, mended = await add_records(ledger, 2)
    for task in await ledger.backlog.claim({"judge": 2}, now=DAY):
        for _ in range(ATTEMPTS):
            await ledger.backlog.set_aside(task, "It was refused.")
    job = Recorder(ledger)
    job.refused[stubborn] = InvalidArgumentsError("It says this.", logged="It is refused still.")
    runner = backlog.add_job(job)

    async with working(backlog):
        await eventually(lambda: runner.is_caught_up)
        clock.now += timedelta(days=1)
        backlog.wake("judge")
        await eventually(lambda: runner.is_caught_up)

    assert job.done == [mended]
    assert job.batches == [[stubborn, mended], [stubborn], [mended]]
    assert await count_tasks(ledger) == TaskCounts(
        kind="judge", waiting=0, aside=1, errors=("It is refused still.",)
    )


async def test_an_unreachable_service_does_not_count_as_a_failed_attempt(
    ledger: Ledger, backlog: Backlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    job = Recorder(ledger)
    job.longest_pause = 0.01
    runner = backlog.add_job(job)
    ids = await add_records(ledger, 20)
    job.lacking = VectorError("The vector worker ended.")

    async with working(backlog):
        await eventually(lambda: len(job.batches) > 3 * ATTEMPTS)
        assert runner.problem == "The vector worker ended."
        assert {task.attempts for task in await ledger.backlog.claim({"judge": 99}, now=DAY)} == {0}
        job.lacking = None
        await eventually(lambda: runner.is_caught_up)

    assert sorted(job.done) == sorted(ids)
    assert runner.problem is None


async def test_a_pause_ends_immediately_when_the_missing_service_returns(
    ledger: Ledger, backlog: Backlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 3_600.0)
    job = Recorder(ledger)
    runner = backlog.add_job(job)
    ids = await add_records(ledger, 3)
    job.lacking = VectorError("The vector worker ended.")

    async with working(backlog):
        await eventually(lambda: runner.problem)
        job.lacking = None
        backlog.wake("judge")
        for _ in range(3):  # one more claim would show up before these reads
            await count_tasks(ledger)
        assert len(job.batches) == 1, "new work is no reason to ask again"
        runner.resume()
        await eventually(lambda: job.done == ids)


async def test_a_task_that_found_its_service_unreachable_runs_after_the_others(
    ledger: Ledger, backlog: Backlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    job = Recorder(ledger, together=1)
    job.longest_pause = 0.001
    backlog.add_job(job)
    slow, *others = await add_records(ledger, 3)
    job.refused[slow] = VectorError("It took too long.")

    async with working(backlog):
        await eventually(lambda: sorted(job.done) == sorted(others))


async def test_a_hanging_job_does_not_slow_the_others(ledger: Ledger, backlog: Backlog) -> None:
    hanging, other = Recorder(ledger, "judge"), Recorder(ledger, "index")
    hanging.may_finish.clear()
    for job in (hanging, other):
        backlog.add_job(job)
    ids = await add_records(ledger, 50)

    async with working(backlog):
        await eventually(lambda: sorted(other.done) == sorted(ids))

    assert (len(hanging.batches), hanging.done) == (1, [])


async def test_a_job_with_many_tasks_does_not_delay_another_jobs_task(
    ledger: Ledger, backlog: Backlog
) -> None:
    busy, idle = Recorder(ledger, "index", together=1), Recorder(ledger, "judge")
    runners = [backlog.add_job(job) for job in (busy, idle)]
    await ledger.records.store([record(f"Note {n}.") for n in range(MANY)])

    async with working(backlog):
        await eventually(lambda: runners[1].is_caught_up and busy.done)
        await add_records(ledger, 1)
        backlog.wake("judge")
        before = len(busy.done)
        await eventually(lambda: idle.done)

    assert len(busy.done) - before < MANY / 4


async def test_tasks_without_a_job_of_their_kind_wait(ledger: Ledger, backlog: Backlog) -> None:
    job = Recorder(ledger, "index")
    runner = backlog.add_job(job)
    await add_records(ledger, 3)

    async with working(backlog):
        backlog.wake("judge", "index")
        await eventually(lambda: runner.is_caught_up)

    assert not backlog.handles("judge")
    assert await count_tasks(ledger) == TaskCounts(kind="judge", waiting=3, aside=0)


async def test_tasks_set_aside_are_listed_tried_again_and_discarded_on_request(
    ledger: Ledger, backlog: Backlog
) -> None:
    first, second, third = await add_records(ledger, 3)
    for task in await ledger.backlog.claim({"judge": 3}, now=DAY):
        await ledger.backlog.set_aside(task, "It was refused.")
    for task in await ledger.backlog.claim({"index": 1}, now=DAY):
        await ledger.backlog.set_aside(task, "It cannot be embedded.")

    listed = await backlog.report(TaskRequest(kind="judge"))
    retried = await backlog.report(TaskRequest(action="retry", kind="judge", ids=(second,)))
    waiting = [task.id for task in await ledger.backlog.claim({"judge": 9}, now=DAY)]
    discarded = await backlog.report(TaskRequest(action="discard"))

    assert listed.counts == [TaskCounts(kind="judge", aside=3, errors=("It was refused.",))]
    assert [(task.id, task.attempts, task.due) for task in listed.failed] == [
        (id_, 1, None) for id_ in (first, second, third)
    ]
    assert {task.error for task in listed.failed} == {"It was refused."}
    assert (retried.changed, waiting) == (1, [second])
    assert discarded.changed == 2
    assert [(task.kind, task.error) for task in discarded.failed] == [
        ("index", "It cannot be embedded.")
    ]
    for refused in (TaskRequest(action="discard", kind="index"), TaskRequest(kind="wash")):
        with pytest.raises(InvalidArgumentsError):
            await backlog.report(refused)


async def test_a_task_that_is_tried_again_later_is_listed_with_its_time(
    ledger: Ledger, backlog: Backlog
) -> None:
    await add_records(ledger, 1)
    (task,) = await ledger.backlog.claim({"judge": 1}, now=DAY)
    await ledger.backlog.postpone(task, "It was refused.", not_before=DAY)

    report = await backlog.report(TaskRequest(kind="judge"))

    assert report.counts == [TaskCounts(kind="judge", waiting=1, aside=0)]
    assert [(failed.id, failed.due) for failed in report.failed] == [(task.id, DAY)]
