"""Documents are ordered by a rerank server, and every failure of it is a RerankError."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from clocks import Seconds
from local2.errors import ConfigError
from local2.memory.recall.reranker import (
    DOCUMENT_CHARACTERS,
    FAILURES_TO_OPEN,
    OPEN_SECONDS,
    QUERY_CHARACTERS,
    HttpReranker,
    RerankedDocument,
    RerankError,
)
from own_logs import own_logs
from stand_ins.rerank_server import Answer, RerankStandIn
from waiting import eventually

DOCUMENTS = ["Tea is green.", "Canberra is the capital of Australia.", "Capital letters."]
QUESTION = "capital of Australia"
FAILURE = Answer(status=500)

OpenReranker = Callable[..., Awaitable[HttpReranker]]


@pytest.fixture
def server() -> Iterator[RerankStandIn]:
    with RerankStandIn() as stand_in:
        yield stand_in


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
async def open_reranker(server: RerankStandIn, clock: Seconds) -> AsyncIterator[OpenReranker]:
    async with AsyncExitStack() as opened:

        async def open_one(url: str = server.url, **options: Any) -> HttpReranker:
            settings: dict[str, Any] = {"timeout": 10.0, "clock": clock, **options}
            reranker = await HttpReranker.open(url, **settings)
            opened.push_async_callback(reranker.close)
            return reranker

        yield open_one


@pytest.fixture
async def reranker(open_reranker: OpenReranker) -> HttpReranker:
    return await open_reranker()


@pytest.fixture
async def opened_circuit(server: RerankStandIn, reranker: HttpReranker) -> HttpReranker:
    """A reranker that has just failed often enough to open its circuit."""
    server.script(*[FAILURE] * FAILURES_TO_OPEN)
    for _ in range(FAILURES_TO_OPEN):
        await error_message(reranker)
    return reranker


async def positions(reranker: HttpReranker, documents: list[str] = DOCUMENTS) -> list[int]:
    return [ranked.position for ranked in await reranker.rank(QUESTION, documents)]


async def error_message(reranker: HttpReranker) -> str:
    with pytest.raises(RerankError) as caught:
        await reranker.rank(QUESTION, DOCUMENTS)
    return str(caught.value)


async def test_documents_are_returned_best_first(reranker: HttpReranker) -> None:
    assert await reranker.rank(QUESTION, DOCUMENTS) == [
        RerankedDocument(1, 1.0),
        RerankedDocument(2, 1 / 3),
        RerankedDocument(0, 0.0),
    ]


async def test_an_answer_in_another_order_is_sorted(
    server: RerankStandIn, reranker: HttpReranker
) -> None:
    server.script(Answer(results=[(0, -4.5), (1, -9.0), (2, 3.1)]))
    assert await positions(reranker) == [2, 0, 1]


async def test_documents_that_the_server_omits_follow_in_their_order(
    server: RerankStandIn, reranker: HttpReranker
) -> None:
    server.script(Answer(results=[(2, -1.0)]))
    assert await reranker.rank(QUESTION, DOCUMENTS) == [
        RerankedDocument(2, -1.0),
        RerankedDocument(0, None),
        RerankedDocument(1, None),
    ]


async def test_a_score_may_be_named_score(server: RerankStandIn, reranker: HttpReranker) -> None:
    server.script(Answer(raw=b'{"results": [{"index": 1, "score": 2}, {"index": 0, "score": 1}]}'))
    assert await positions(reranker, DOCUMENTS[:2]) == [1, 0]


async def test_without_documents_the_server_is_not_called(
    server: RerankStandIn, reranker: HttpReranker
) -> None:
    assert await reranker.rank(QUESTION, []) == []
    assert server.requests == []


async def test_the_request_has_the_form_of_the_common_rerank_api(
    server: RerankStandIn, open_reranker: OpenReranker
) -> None:
    await (await open_reranker()).rank(QUESTION, DOCUMENTS)
    await (await open_reranker(model="bge")).rank(QUESTION, DOCUMENTS)

    body = {"query": QUESTION, "documents": DOCUMENTS, "top_n": 3}
    assert [request.body for request in server.requests] == [body, {**body, "model": "bge"}]
    assert {request.headers["content-type"] for request in server.requests} == {"application/json"}


async def test_only_the_beginning_of_a_long_text_is_sent(
    server: RerankStandIn, reranker: HttpReranker
) -> None:
    await reranker.rank("q" * 10_000, ["d" * 10_000, "short"])

    (request,) = server.requests
    assert request.body["query"] == "q" * QUERY_CHARACTERS
    assert request.body["documents"] == ["d" * DOCUMENT_CHARACTERS, "short"]


async def test_a_url_without_a_path_gets_rerank_and_any_other_path_is_kept(
    server: RerankStandIn, open_reranker: OpenReranker
) -> None:
    base = server.url.removesuffix("/rerank")
    for url in (base, f"{base}/", f"{base}/v1/rerank?tier=fast"):
        await (await open_reranker(url)).rank(QUESTION, DOCUMENTS)

    assert [r.path for r in server.requests] == ["/rerank", "/rerank", "/v1/rerank?tier=fast"]


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8080", "ftp://host/rerank", "http://", "http://host:port", ""]
)
async def test_an_invalid_url_is_a_config_error(url: str) -> None:
    with pytest.raises(ConfigError, match="reranker_url"):
        await HttpReranker.open(url)


async def test_a_key_is_sent_as_a_bearer_token(
    server: RerankStandIn, open_reranker: OpenReranker
) -> None:
    await (await open_reranker(key="sesame")).rank(QUESTION, DOCUMENTS)
    await (await open_reranker()).rank(QUESTION, DOCUMENTS)

    with_key, without = server.requests
    assert with_key.headers["authorization"] == "Bearer sesame"
    assert "authorization" not in without.headers


@pytest.mark.parametrize("key", ["sesame\n", "sésame"])
async def test_a_key_that_does_not_fit_a_header_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="reranker_key") as caught:
        await HttpReranker.open("http://127.0.0.1/rerank", key=key)
    assert "same" not in str(caught.value)


async def test_requests_share_a_connection(server: RerankStandIn, reranker: HttpReranker) -> None:
    for _ in range(3):
        await reranker.rank(QUESTION, DOCUMENTS)
    assert len({request.client for request in server.requests}) == 1


async def test_an_error_names_the_status_and_nothing_of_the_body(
    server: RerankStandIn, reranker: HttpReranker
) -> None:
    server.script(Answer(status=500, raw=b"cannot rank 'xyzzy'"))
    message = await error_message(reranker)
    assert "500" in message
    assert "xyzzy" not in message


async def test_a_server_that_does_not_answer_times_out(
    server: RerankStandIn, open_reranker: OpenReranker
) -> None:
    reranker = await open_reranker(timeout=0.05)
    server.script(Answer(held=True))
    assert "0.05 s" in await error_message(reranker)


async def test_a_server_that_is_down_is_an_error(
    server: RerankStandIn, reranker: HttpReranker
) -> None:
    server.stop()
    assert "ConnectError" in await error_message(reranker)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b'{"results": [', id="not JSON"),
        pytest.param(b"<html>xyzzy</html>", id="HTML"),
        pytest.param(b"", id="empty"),
        pytest.param(b'[{"index": 0, "score": 1}]', id="a list"),
        pytest.param(b'{"data": []}', id="no results"),
        pytest.param(b'{"results": []}', id="nothing ranked"),
        pytest.param(b'{"results": [{"index": 0}]}', id="no score"),
        pytest.param(b'{"results": [{"index": 0, "score": "xyzzy"}]}', id="no number"),
        pytest.param(b'{"results": [{"index": 0, "score": NaN}]}', id="not a number"),
        pytest.param(b'{"results": [{"index": 3, "score": 1}]}', id="past the end"),
        pytest.param(b'{"results": [{"index": -1, "score": 1}]}', id="before the beginning"),
        pytest.param(
            b'{"results": [{"index": 0, "score": 1}, {"index": 0, "score": 2}]}', id="twice"
        ),
        pytest.param(b"\xff", id="not UTF-8"),
        pytest.param(b'{"results": %s%s}' % (b"[" * 9_999, b"]" * 9_999), id="lists in lists"),
        pytest.param(b'{"more": %s%s}' % (b"[" * 9_999, b"]" * 9_999), id="lists beside"),
    ],
)
async def test_an_unusable_answer_is_an_error_that_does_not_quote_it(
    raw: bytes, server: RerankStandIn, reranker: HttpReranker
) -> None:
    server.script(Answer(raw=raw))
    message = await error_message(reranker)
    assert message.startswith("The reranker's answer")
    assert "xyzzy" not in message


async def test_after_consecutive_failures_the_server_is_not_called_for_a_while(
    server: RerankStandIn, opened_circuit: HttpReranker, clock: Seconds
) -> None:
    clock.now += OPEN_SECONDS - 0.1
    assert "is paused" in await error_message(opened_circuit)
    assert len(server.requests) == FAILURES_TO_OPEN


async def test_a_success_between_failures_resets_the_count(
    server: RerankStandIn, reranker: HttpReranker
) -> None:
    almost = [FAILURE] * (FAILURES_TO_OPEN - 1)
    server.script(*almost, Answer(), *almost, Answer())
    for _ in range(2):
        for _ in almost:
            await error_message(reranker)
        assert await positions(reranker) == [1, 2, 0]


async def test_a_successful_trial_closes_the_circuit(
    server: RerankStandIn, opened_circuit: HttpReranker, clock: Seconds
) -> None:
    clock.now += OPEN_SECONDS
    assert await positions(opened_circuit) == [1, 2, 0]

    server.script(FAILURE, Answer())
    await error_message(opened_circuit)
    assert await positions(opened_circuit) == [1, 2, 0]


async def test_a_failed_trial_opens_the_circuit_for_the_same_time_again(
    server: RerankStandIn, opened_circuit: HttpReranker, clock: Seconds
) -> None:
    server.script(FAILURE)
    clock.now += OPEN_SECONDS
    assert "500" in await error_message(opened_circuit)
    clock.now += OPEN_SECONDS - 0.1
    assert "is paused" in await error_message(opened_circuit)
    clock.now += 0.1
    assert await positions(opened_circuit) == [1, 2, 0]


@pytest.fixture
async def trial(
    server: RerankStandIn, opened_circuit: HttpReranker, clock: Seconds
) -> asyncio.Task[list[int]]:
    """A trial that is under way: the server has received it, and holds its answer back."""
    server.script(Answer(held=True))
    clock.now += OPEN_SECONDS
    trial = asyncio.create_task(positions(opened_circuit))
    await eventually(lambda: len(server.requests) == FAILURES_TO_OPEN + 1)
    return trial


async def test_only_one_trial_runs_at_a_time(
    server: RerankStandIn, opened_circuit: HttpReranker, trial: asyncio.Task[list[int]]
) -> None:
    assert "is paused" in await error_message(opened_circuit)
    server.release()
    assert await trial == [1, 2, 0]
    assert len(server.requests) == FAILURES_TO_OPEN + 1


async def test_after_a_cancelled_trial_another_call_may_try(
    opened_circuit: HttpReranker, trial: asyncio.Task[list[int]]
) -> None:
    trial.cancel()
    with suppress(asyncio.CancelledError):
        await trial

    assert await positions(opened_circuit) == [1, 2, 0]


async def test_opening_and_closing_the_circuit_are_logged_once_without_content(
    server: RerankStandIn, open_reranker: OpenReranker, clock: Seconds
) -> None:
    reranker = await open_reranker(key="sesame")
    server.script(*[FAILURE] * (FAILURES_TO_OPEN + 1))
    with own_logs() as logged:
        for _ in range(FAILURES_TO_OPEN + 2):
            await error_message(reranker)
        clock.now += OPEN_SECONDS
        await error_message(reranker)
        clock.now += OPEN_SECONDS
        await positions(reranker)
        await positions(reranker)

    assert [event["event"] for event in logged] == [
        "rerank_circuit_opened",
        "rerank_circuit_closed",
    ]
    text = str(logged)
    assert not any(secret in text for secret in ("sesame", QUESTION, *DOCUMENTS))
