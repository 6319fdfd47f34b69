"""Rerank results: with a cross-encoder in the vector worker, behind HTTP, or with a chat model."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, NamedTuple, Protocol, Self

import httpx
import msgspec
import structlog

from local2.endpoint.address import authorization, http_url
from local2.errors import Local2Error, ModelError, UnavailableError
from local2.llm.models import StructuredModel
from local2.telemetry import model_call

DEFAULT_PATH = "/rerank"
"""The path at which vLLM, Infinity and llama.cpp serve it. Cohere and Jina need the whole URL."""
DOCUMENT_CHARACTERS = 1_500
"""Maximum characters sent of a document. With the query they are about the 512 tokens that most
cross-encoders read; some servers refuse more."""
QUERY_CHARACTERS = 500
"""Maximum characters sent of the query."""
DOCUMENTS_SENT = 20
"""Number of documents that are sent to a server or shown to a chat model."""
DOCUMENTS_READ = 100
"""Maximum number of documents that the vector worker reads: the answer is nearly always among the
first hundred."""
SHOWN_CHARACTERS = 600
"""Maximum characters of a document that are shown to a chat model. Twenty of them are about 3,000
tokens, of the 8,192 that a model sees by default."""
ORDER_INSTRUCTION = """\
Put the numbered memories into order for the question: first those that answer it, then those that \
help to, and last what has nothing to do with it. Answer with their numbers, each once."""
FAILURES_TO_OPEN = 3
"""Number of failures in a row that open the circuit."""
OPEN_SECONDS = 30.0
"""Seconds between trials while the circuit is open."""
UNNAMED = "reranker"
"""The model in traces and metrics if none is configured, and always the provider, which is not
known."""

log = structlog.get_logger()


class RerankError(UnavailableError):
    pass


class RerankedDocument(NamedTuple):
    """The position of a document in the request, and its score on the model's own scale.

    `score` is None if the server omitted the document.
    """

    position: int
    score: float | None


class Reranker(Protocol):
    count: int
    """Number of documents that it puts into order, unless the caller wants another number."""

    async def rank(self, query: str, documents: Sequence[str]) -> list[RerankedDocument]:
        """All documents, best first.

        Raises:
            RerankError: No usable order arrived in time.
        """
        ...


ScoreDocuments = Callable[[str, list[str]], Awaitable[list[float]]]
"""Scores the first documents for a query, as many as there is time for. May raise Local2Error."""


class WorkerReranker:
    """The vector worker's cross-encoder, which reads the best first, for a limited time."""

    count = DOCUMENTS_READ

    def __init__(self, score: ScoreDocuments, *, model: str) -> None:
        """`model`: its name in traces and metrics."""
        self._score = score
        self._model = model

    async def rank(self, query: str, documents: Sequence[str]) -> list[RerankedDocument]:
        """All documents, best first; those that were not read follow in their old order.

        Raises:
            RerankError: The worker is not there, cannot load the model, or has read nothing in
                time.
        """
        if not documents:
            return []
        sent = [document[:DOCUMENT_CHARACTERS] for document in documents[: self.count]]
        with model_call("rerank", self._model, "local2"):
            try:
                given = await self._score(query[:QUERY_CHARACTERS], sent)
            except Local2Error as error:
                raise RerankError(f"The reranker gave no order: {error}") from error
        return _best_first(dict(enumerate(given)), len(documents))


class _Memory(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    text: str


class _ToOrder(msgspec.Struct, frozen=True, kw_only=True):
    question: str
    memories: list[_Memory]


class _Order(msgspec.Struct, frozen=True, kw_only=True):
    numbers: list[int]


class ModelReranker:
    """Ranks with a chat model, without scores."""

    count = DOCUMENTS_SENT

    def __init__(self, model: StructuredModel, *, within: float) -> None:
        """`within`: maximum seconds that a search waits for the model."""
        self._model = model
        self._within = within

    async def rank(self, query: str, documents: Sequence[str]) -> list[RerankedDocument]:
        """All documents, best first; those that the model omits follow in their old order.

        Raises:
            RerankError: The model does not answer in time, is not asked, or gives no order.
        """
        if not documents:
            return []
        shown = [
            _Memory(number=number, text=document[:SHOWN_CHARACTERS])
            for number, document in enumerate(documents, start=1)
        ]
        question = _ToOrder(question=query[:QUERY_CHARACTERS], memories=shown)
        try:
            order = await self._model.answer_as(
                _Order, instruction=ORDER_INSTRUCTION, material=question, within=self._within
            )
        except ModelError as error:
            raise RerankError(f"The reranking model gave no order: {error.message}") from error
        numbers = dict.fromkeys(order.numbers)
        chosen = [number - 1 for number in numbers if 0 < number <= len(documents)]
        if not chosen:
            raise RerankError("The reranking model's answer names none of the memories.")
        left_out = sorted(set(range(len(documents))).difference(chosen))
        return [RerankedDocument(position, None) for position in chosen + left_out]


class _Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    query: str
    documents: list[str]
    top_n: int
    model: str | None = None


class _Result(msgspec.Struct, frozen=True, kw_only=True):
    index: Annotated[int, msgspec.Meta(ge=0)]
    relevance_score: float | None = None
    score: float | None = None


class _Answer(msgspec.Struct, frozen=True):
    results: list[_Result]


class HttpReranker:
    """One rerank endpoint with the API of Cohere and Jina; created by `open`.

    After three failures in a row it fails immediately for 30 seconds, then sends one trial request.
    """

    count = DOCUMENTS_SENT

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: httpx.URL,
        *,
        model: str | None,
        timeout: float,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._url = url
        self._model = model
        self._timeout = timeout
        self._circuit = Circuit(clock)

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        key: str | None = None,
        model: str | None = None,
        timeout: float = 2.0,  # noqa: ASYNC109 - of each later request, not of this call
        clock: Callable[[], float] = time.monotonic,
    ) -> Self:
        """Create the client; nothing is sent before the first `rank`.

        Args:
            url: The whole URL of the endpoint. `/rerank` is added to a URL without a path.
            key: Sent as a bearer token.
            model: Sent with each request, for servers with several models.
            timeout: Seconds for a request, from connecting to the last byte of the response.
            clock: A monotonic clock in seconds, for the circuit.

        Raises:
            ConfigError: `url` is not an HTTP URL, or `key` cannot be sent in a header.
        """
        endpoint = http_url(url, "reranker_url", example="http://127.0.0.1:8080/rerank")
        if endpoint.path == "/":
            endpoint = endpoint.copy_with(path=DEFAULT_PATH)
        headers = {"Content-Type": "application/json", **authorization(key, "reranker_key")}
        # In a thread, because the constructor reads the system's certificates. The client's own
        # timeouts limit single reads; `rank` limits the whole request instead.
        client = await asyncio.to_thread(httpx.AsyncClient, headers=headers, timeout=None)
        return cls(client, endpoint, model=model, timeout=timeout, clock=clock)

    async def rank(self, query: str, documents: Sequence[str]) -> list[RerankedDocument]:
        """All documents, best first; those that the server omits follow in their old order.

        Only the beginnings of the query and of the documents are sent.

        Raises:
            RerankError: No response in time, an error status, an unusable response, or the circuit
                is open.
        """
        if not documents:
            return []
        request = _Request(
            query=query[:QUERY_CHARACTERS],
            documents=[document[:DOCUMENT_CHARACTERS] for document in documents],
            top_n=len(documents),
            model=self._model,
        )
        with self._circuit.attempt(), model_call("rerank", self._model or UNNAMED, UNNAMED):
            try:
                async with asyncio.timeout(self._timeout):
                    content = msgspec.json.encode(request)
                    response = await self._client.post(self._url, content=content)
            except TimeoutError as error:
                raise RerankError(
                    f"The reranker did not answer within {self._timeout:g} s.",
                    remedy="Give it fewer documents, or raise reranker_timeout.",
                ) from error
            except httpx.HTTPError as error:
                raise RerankError(
                    f"The reranker cannot be reached ({type(error).__name__}).",
                    remedy="Start it, or correct reranker_url.",
                ) from error
            if not response.is_success:
                raise RerankError(
                    f"The reranker answered with status {response.status_code}.",
                    remedy="Look at its log; 401 and 403 mean reranker_key, 404 reranker_url.",
                )
            try:
                results = msgspec.json.decode(response.content, type=_Answer).results
            except (msgspec.MsgspecError, RecursionError) as error:
                # The decoder's message names the path of the fault, never the content.
                raise RerankError(f"The reranker's answer cannot be read: {error}.") from error
            scores: dict[int, float] = {}
            for result in results:
                score = result.score if result.relevance_score is None else result.relevance_score
                if score is None or result.index >= len(documents) or result.index in scores:
                    raise RerankError(
                        "The reranker's answer lacks a score, or names a document twice or an "
                        "unknown one."
                    )
                scores[result.index] = score
            if not scores:
                raise RerankError("The reranker's answer ranks nothing.")
        return _best_first(scores, len(documents))  # not every server sorts its answer

    async def close(self) -> None:
        await self._client.aclose()


class Circuit:
    """A circuit breaker.

    It opens after FAILURES_TO_OPEN in a row, then allows one trial each OPEN_SECONDS.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._trial_at: float | None = None
        self._trying = False

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Record whether the body succeeds or raises RerankError; a cancellation counts as neither.

        Raises:
            RerankError: The circuit is open, and no trial is due or another one is running.
        """
        is_trial = self._trial_at is not None
        if self._trial_at is not None:
            if self._trying or self._clock() < self._trial_at:
                raise RerankError(
                    "The reranker failed several times in a row and is paused.",
                    remedy="It is tried again automatically.",
                )
            self._trying = True
        try:
            yield
        except RerankError as error:
            self._failures += 1
            if self._failures >= FAILURES_TO_OPEN:
                if self._trial_at is None:
                    log.warning("rerank_circuit_opened", reason=error.message)
                self._trial_at = self._clock() + OPEN_SECONDS
            raise
        else:
            if self._trial_at is not None:
                log.info("rerank_circuit_closed")
            self._failures = 0
            self._trial_at = None
        finally:
            if is_trial:
                self._trying = False


def _best_first(scores: dict[int, float], count: int) -> list[RerankedDocument]:
    """`count` documents by their scores; those without one follow in their old order."""
    best_first = sorted(scores, key=lambda index: scores[index], reverse=True)
    left_out = [index for index in range(count) if index not in scores]
    return [RerankedDocument(index, scores.get(index)) for index in best_first + left_out]
