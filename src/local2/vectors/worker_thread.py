"""A thread for blocking calls, with priorities and batches.

The executors of the standard library support neither, and both are needed: a search must not wait
for a batch of documents, and several questions are embedded faster in one call than one by one.
"""

import asyncio
import itertools
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

import structlog

from local2.bounded_dict import BoundedDict
from local2.errors import VectorError
from local2.vectors.config import EXIT_SOFTWARE
from local2.vectors.embedder import Embedder, FloatMatrix

QUERY_BATCH_SIZE = 16
"""Maximum number of questions embedded in one call; as many searches run concurrently (decision
0016)."""
QUERIES_CACHED = 64
"""Number of recent questions whose vectors are cached: a search that requests more hits sends the
same text again."""

log = structlog.get_logger()

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")

_URGENT, _NORMAL, _LAST = range(3)
"""Priorities in the queue; the lowest number is first."""


class WorkerThread:
    """Runs calls one at a time; a call that has started is never interrupted."""

    def __init__(self, name: str) -> None:
        self._calls: queue.PriorityQueue[tuple[int, int, Callable[[], None] | None]] = (
            queue.PriorityQueue()
        )
        self._order = itertools.count()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[..., T], *args: Any, urgent: bool = False) -> T:
        """Run `function` in the thread; urgent calls run before all others."""
        future = Future[T]()
        future.set_running_or_notify_cancel()  # it runs even if its caller is cancelled meanwhile

        def call() -> None:
            try:
                result = function(*args)
            except Exception as error:  # noqa: BLE001 - raised where the future is awaited
                future.set_exception(error)
            else:
                future.set_result(result)

        self._calls.put((_URGENT if urgent else _NORMAL, next(self._order), call))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Finish the queued calls and stop."""
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
                # A panic in Chroma is not an Exception. Without this thread the worker is useless;
                # the supervisor starts another one, which compares its index with the ledger.
                log.exception("thread_died", thread=self._thread.name)
                os._exit(EXIT_SOFTWARE)


class _Request(Generic[Q, A]):
    def __init__(self, question: Q, deadline: float) -> None:
        self.question = question
        self.deadline = deadline
        self.answer: A | None = None
        self.error: Exception | None = None


class Batcher(Generic[Q, A]):
    """Answers the questions that wait for a thread in one call, at most `limit` at a time.

    Each question queues a call. The first call that runs also answers the questions that queue
    after it; their own calls then find the answers.
    """

    def __init__(
        self, thread: WorkerThread, answer_all: Callable[[list[Q]], list[A]], *, limit: int
    ) -> None:
        self._thread = thread
        self._answer_all = answer_all
        self._limit = limit
        self._waiting: deque[_Request[Q, A]] = deque()

    async def ask(self, question: Q, *, patience: float, then: Callable[[A], T]) -> T:
        """Answer one question, and apply `then` to the answer in the thread.

        Raises:
            VectorError: The question had to wait longer than `patience` seconds.
        """
        request: _Request[Q, A] = _Request(question, time.monotonic() + patience)
        self._waiting.append(request)
        return await self._thread.run(self._answer, request, then, urgent=True)

    def _answer(self, request: _Request[Q, A], then: Callable[[A], T]) -> T:
        while request.answer is None and request.error is None:
            count = min(len(self._waiting), self._limit)
            taken = [self._waiting.popleft() for _ in range(count)]
            batch = []
            for asked in taken:
                if time.monotonic() > asked.deadline:  # nobody waits for it any more
                    asked.error = VectorError("The vector worker is overloaded.")
                else:
                    batch.append(asked)
            try:
                answers = self._answer_all([asked.question for asked in batch]) if batch else []
            except Exception as error:  # noqa: BLE001 - each request raises it
                for asked in batch:
                    asked.error = error
            else:
                for asked, answer in zip(batch, answers, strict=True):
                    asked.answer = answer
        if request.error is not None:
            raise request.error
        assert request.answer is not None  # noqa: S101 - the loop above has set it
        return then(request.answer)


class LoadedEmbedder:
    """An embedder with its threads, the questions that wait for it, and a cache of recent ones.

    If a server embeds, questions have a separate thread: otherwise, a batch that the server does
    not answer would delay all questions.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.thread = WorkerThread("embedding")
        self.asking = WorkerThread("asking") if embedder.is_served else self.thread
        self.queries: Batcher[str, FloatMatrix] = Batcher(
            self.asking,
            lambda texts: list(embedder.embed_queries(texts)),
            limit=QUERY_BATCH_SIZE,
        )
        self.recent = BoundedDict[str, FloatMatrix](QUERIES_CACHED)
        """The vectors of recent questions: the same question is not embedded again."""

    @property
    def name(self) -> str:
        return self.embedder.name

    def condition(self) -> tuple[int, str | None]:
        """The dimensions and None, or 0 and the reason why the embedder does not work."""
        try:
            return self.embedder.dimensions, None
        except VectorError as error:
            return 0, str(error)

    def close(self) -> None:
        if self.asking is not self.thread:
            self.asking.close()
        self.thread.close()
        self.embedder.close()
