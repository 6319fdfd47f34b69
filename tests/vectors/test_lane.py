"""Calls in a worker thread: urgent ones first, waiting questions together."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from local2.errors import VectorError
from local2.vectors.worker_thread import Batcher, WorkerThread
from waiting import eventually

PATIENT = 60.0


@pytest.fixture
def lane() -> Iterator[WorkerThread]:
    opened = WorkerThread("test")
    yield opened
    opened.close()


class Answers:
    """Answers in capitals, and records which questions were answered together."""

    def __init__(self, lane: WorkerThread, *, limit: int = 16) -> None:
        self.batches: list[list[str]] = []
        self.failure: Exception | None = None
        self.together: Batcher[str, str] = Batcher(lane, self.answer_all, limit=limit)

    def answer_all(self, questions: list[str]) -> list[str]:
        self.batches.append(questions)
        if self.failure is not None and questions:
            raise self.failure
        return [question.upper() for question in questions]

    async def ask_all(self, count: int, *, patience: float = PATIENT) -> list[str]:
        questions = (f"q{number}" for number in range(count))
        return await asyncio.gather(
            *(self.together.ask(question, patience=patience, then=str) for question in questions)
        )


@asynccontextmanager
async def busy(lane: WorkerThread) -> AsyncIterator[None]:
    """Occupy the lane, so that questions wait together."""
    begun, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        may_end.wait(30)

    holding = asyncio.create_task(lane.run(hold))
    await eventually(begun.is_set)
    try:
        yield
    finally:
        may_end.set()
        await holding


async def wait_for_questions(answers: Answers, count: int) -> None:
    await eventually(lambda: len(answers.together._waiting) == count)


async def test_waiting_questions_are_answered_together_each_with_its_own_answer(
    lane: WorkerThread,
) -> None:
    answers = Answers(lane)
    async with busy(lane):
        asking = asyncio.create_task(answers.ask_all(5))
        await wait_for_questions(answers, 5)

    assert await asking == ["Q0", "Q1", "Q2", "Q3", "Q4"]
    assert answers.batches == [["q0", "q1", "q2", "q3", "q4"]]


async def test_no_more_questions_than_the_limit_are_answered_together(lane: WorkerThread) -> None:
    answers = Answers(lane, limit=2)
    async with busy(lane):
        asking = asyncio.create_task(answers.ask_all(5))
        await wait_for_questions(answers, 5)

    assert await asking == ["Q0", "Q1", "Q2", "Q3", "Q4"]
    assert answers.batches == [["q0", "q1"], ["q2", "q3"], ["q4"]]


async def test_a_question_that_has_waited_too_long_is_refused(
    lane: WorkerThread,
) -> None:
    answers = Answers(lane)
    async with busy(lane):
        late = asyncio.create_task(answers.together.ask("late", patience=0.0, then=str))
        patient = asyncio.create_task(answers.together.ask("patient", patience=PATIENT, then=str))
        await wait_for_questions(answers, 2)

    with pytest.raises(VectorError, match="overloaded"):
        await late
    assert await patient == "PATIENT"
    assert [question for batch in answers.batches for question in batch] == ["patient"]


async def test_a_failure_affects_all_questions_of_a_batch_and_none_later(
    lane: WorkerThread,
) -> None:
    answers = Answers(lane)
    answers.failure = VectorError("The model is gone.")
    async with busy(lane):
        asking = [
            asyncio.create_task(answers.together.ask(question, patience=PATIENT, then=str))
            for question in ("one", "two")
        ]
        await wait_for_questions(answers, 2)
    for batches in asking:
        with pytest.raises(VectorError, match="The model is gone"):
            await batches

    answers.failure = None
    assert await answers.together.ask("three", patience=PATIENT, then=str) == "THREE"


async def test_a_cancelled_question_does_not_affect_the_next(
    lane: WorkerThread,
) -> None:
    answers = Answers(lane)
    async with busy(lane):
        left = asyncio.create_task(answers.together.ask("left", patience=PATIENT, then=str))
        stays = asyncio.create_task(answers.together.ask("stays", patience=PATIENT, then=str))
        await wait_for_questions(answers, 2)
        left.cancel()

    assert await stays == "STAYS"
    assert await answers.together.ask("next", patience=PATIENT, then=str) == "NEXT"


async def test_urgent_calls_run_before_earlier_ones(lane: WorkerThread) -> None:
    order: list[str] = []
    async with busy(lane):
        calls = [asyncio.create_task(lane.run(order.append, name)) for name in ("first", "second")]
        calls.append(asyncio.create_task(lane.run(order.append, "urgent", urgent=True)))
        await eventually(lambda: lane._calls.qsize() == 3)

    await asyncio.gather(*calls)
    assert order == ["urgent", "first", "second"]


async def test_closing_finishes_queued_calls() -> None:
    lane = WorkerThread("test")
    done: list[int] = []
    async with busy(lane):
        calls = [asyncio.create_task(lane.run(done.append, number)) for number in range(3)]
        await eventually(lambda: lane._calls.qsize() == 3)
        closing = asyncio.create_task(asyncio.to_thread(lane.close))
        await eventually(lambda: lane._calls.qsize() == 4)

    await closing
    await asyncio.gather(*calls)
    assert done == [0, 1, 2]


async def test_the_callback_for_an_answer_runs_in_the_lane(lane: WorkerThread) -> None:
    answers = Answers(lane)

    def where(_: str) -> str:
        return threading.current_thread().name

    assert await answers.together.ask("q", patience=PATIENT, then=where) == "test"


async def test_a_failing_callback_fails_no_other_question(lane: WorkerThread) -> None:
    answers = Answers(lane)

    def refuse(_: str) -> str:
        raise VectorError("no")

    async with busy(lane):
        refused = asyncio.create_task(answers.together.ask("a", patience=PATIENT, then=refuse))
        taken = asyncio.create_task(answers.together.ask("b", patience=PATIENT, then=str))
        await asyncio.sleep(0)

    with pytest.raises(VectorError, match="no"):
        await refused
    assert await taken == "B"
