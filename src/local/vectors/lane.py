"""A thread for blocking calls: urgent ones first, waiting questions answered together."""

import asyncio
import itertools
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import structlog

from local.errors import VectorError
from local.vectors.config import EXIT_SOFTWARE

log = structlog.get_logger()

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")

_URGENT, _NORMAL, _LAST = range(3)


class Lane:
    """Runs calls one at a time in a thread of its own; a call under way is never interrupted."""

    def __init__(self, name: str) -> None:
        self._calls: queue.PriorityQueue[tuple[int, int, Callable[[], None] | None]] = (
            queue.PriorityQueue()
        )
        self._order = itertools.count()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[..., T], *args: Any, urgent: bool = False) -> T:
        """Run `function` when its turn comes; before all that is not urgent if it is."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def call() -> None:
            try:
                result = function(*args)
            except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits the future
                loop.call_soon_threadsafe(_fail, future, error)
            else:
                loop.call_soon_threadsafe(_succeed, future, result)

        self._calls.put((_URGENT if urgent else _NORMAL, next(self._order), call))
        return await future

    def close(self) -> None:
        """Finish what is queued and stop."""
        self._calls.put((_LAST, next(self._order), None))
        self._thread.join()

    def _work(self) -> None:
        while True:
            _, _, call = self._calls.get()
            if call is None:
                return
            try:
                call()
            except BaseException:
                # Chroma's panics are no Exceptions. A worker without its lane would serve nobody:
                # the supervisor starts another, which compares its index with the ledger.
                log.exception("lane_died", lane=self._thread.name)
                os._exit(EXIT_SOFTWARE)


def _succeed(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class _Ask(Generic[Q, A]):
    def __init__(self, question: Q, deadline: float) -> None:
        self.question = question
        self.deadline = deadline
        self.answer: A | None = None
        self.error: Exception | None = None


class Together(Generic[Q, A]):
    """Answers the questions that wait for a lane in one call, `limit` at most.

    Each question queues a call. The first to run answers those behind it as well; their own calls
    then find their answers made.
    """

    def __init__(self, lane: Lane, answer_all: Callable[[list[Q]], list[A]], *, limit: int) -> None:
        self._lane = lane
        self._answer_all = answer_all
        self._limit = limit
        self._waiting: deque[_Ask[Q, A]] = deque()

    async def ask(self, question: Q, *, patience: float, then: Callable[[A], T]) -> T:
        """Answer one question, and do in the lane what is to be done with its answer.

        Raises:
            VectorError: Its turn came after `patience` seconds.
        """
        ask: _Ask[Q, A] = _Ask(question, time.monotonic() + patience)
        self._waiting.append(ask)
        return await self._lane.run(self._answer, ask, then, urgent=True)

    def _answer(self, ask: _Ask[Q, A], then: Callable[[A], T]) -> T:
        self._answer_waiting(ask)
        if ask.error is not None:
            raise ask.error
        assert ask.answer is not None  # noqa: S101 - `_answer_waiting` has just seen to it
        return then(ask.answer)

    def _answer_waiting(self, ask: _Ask[Q, A]) -> None:
        while ask.answer is None and ask.error is None:
            count = min(len(self._waiting), self._limit)
            taken = [self._waiting.popleft() for _ in range(count)]
            batch = [asked for asked in taken if not self._too_late(asked)]
            try:
                answers = self._answer_all([a.question for a in batch]) if batch else []
            except Exception as error:  # noqa: BLE001 - every one of them raises it
                for asked in batch:
                    asked.error = error
            else:
                for asked, answer in zip(batch, answers, strict=True):
                    asked.answer = answer

    def _too_late(self, ask: _Ask[Q, A]) -> bool:
        """Nobody waits for it any more: an overloaded lane must not fall further behind."""
        late = time.monotonic() > ask.deadline
        if late:
            ask.error = VectorError("The vector worker has too much to do.")
        return late
