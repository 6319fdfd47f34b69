"""What fails over HTTP is a problem with the code of the bus, a status, and a remedy."""

import httpx
import pytest

from commands import Served
from http_servers import HttpServer, post, problem, team_tool
from local2.errors import CODES, OverloadedError, ToolFailedError
from local2.web.answers import STATUS_BY_CODE

RECALL = "/v1/tools/recall"


def test_every_code_of_the_bus_has_a_status() -> None:
    assert STATUS_BY_CODE.keys() == CODES.keys()
    assert all(status >= 400 for status in STATUS_BY_CODE.values())


@pytest.mark.parametrize(
    ("path", "body", "refusal", "detail"),
    [
        ("/v1/tools/recal", {}, (404, "unknown_tool"), "GET /v1/openapi.json"),
        (RECALL, {}, (422, "invalid_arguments"), "query"),
        (RECALL, {"query": "x", "top_k": 0}, (422, "invalid_arguments"), "top_k"),
        (RECALL, {"query": "x", "min_relevence": 0}, (422, "invalid_arguments"), "min_relevance?"),
        (RECALL, {"query": "x", "scope": "all"}, (422, "invalid_arguments"), "One of:"),
        ("/v1/services/memory.items.get", {"collection": "X"}, (400, "bad_request"), "collection"),
        ("/v1/services/memory.export", {"scope": "moon"}, (400, "bad_request"), "scope"),
        ("/v1/services/memory.turn", {}, (404, "bad_request"), "not found"),
        ("/v1/services/vector.search", {}, (404, "bad_request"), "not found"),
        ("/v1/nothing", {}, (404, "bad_request"), "not found"),
        ("/", {}, (404, "bad_request"), "not found"),
        ("/v1/tools", {}, (404, "bad_request"), "not found"),
        ("/v1/tools/recall/", {}, (404, "bad_request"), "not found"),
        ("/v1/memories/1", {}, (405, "bad_request"), "method not allowed"),
    ],
)
def test_a_wrong_request_is_told_what_to_change(
    ada: httpx.Client, path: str, body: object, refusal: tuple[int, str], detail: str
) -> None:
    found = problem(ada.post(path, json=body))

    assert found[:2] == refusal
    assert detail in found[2]


def test_a_method_that_a_path_has_not_is_told_which_it_has(ada: httpx.Client) -> None:
    assert ada.post("/v1/memories/1").headers["allow"] == "DELETE, GET, PATCH"
    assert ada.request("OPTIONS", RECALL).headers["allow"] == "POST"
    assert ada.head("/mem0/v1/memories/1/").headers["allow"] == "DELETE, GET, PUT"


@pytest.mark.parametrize(
    ("tool", "body", "said"),
    [
        ("recall", {"query": 7}, "Expected `str`, got `int` - at `query`."),
        ("recall", {}, "Object missing required field `query`."),
        ("recall", {"query": "x", "q": 1}, "Object contains unknown field `q`."),
        ("add_knowledge", {"facts": [{"subject": 7}]}, " - at `facts[0].subject`."),
    ],
)
def test_a_field_is_named_as_it_was_sent(
    ada: httpx.Client, tool: str, body: object, said: str
) -> None:
    _, _, detail = problem(ada.post(f"/v1/tools/{tool}", json=body))

    assert said in detail
    assert "args" not in detail


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"query"',
        b"\xff\xfe",
        b'{"query": "\xff"}',
        b'{"query": NaN}',
        b'{"query": "x"} {}',
        b'{"query": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_a_body_that_is_no_json_object_is_refused(ada: httpx.Client, body: bytes) -> None:
    answer = ada.post(RECALL, content=body, headers={"Content-Type": "application/json"})

    assert problem(answer)[:2] == (400, "bad_request")
    assert "payload" not in answer.json()["detail"]


@pytest.mark.parametrize("declared", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_that_is_not_declared_to_be_json_is_refused(
    ada: httpx.Client, declared: str
) -> None:
    answer = ada.post(RECALL, content=b'{"query": "x"}', headers={"Content-Type": declared})

    assert problem(answer)[0] == 415


def test_what_the_bus_cannot_carry_is_too_large(ada: httpx.Client) -> None:
    answer = ada.post("/v1/tools/add_document", json={"content": "x" * 2_000_000, "title": "X"})

    assert problem(answer)[:2] == (413, "too_large")


async def test_a_tool_of_another_team_is_called_by_the_same_caller(
    stack: Served, ada: httpx.Client
) -> None:
    async with team_tool(stack) as notes:
        answer = await post(ada, "/v1/tools/jot", text="x")
        notes.failure = ToolFailedError("It broke.")
        failed = await post(ada, "/v1/tools/jot", text="x")
        notes.failure = OverloadedError(retry_after=1.2)
        busy = await post(ada, "/v1/tools/jot", text="x")

    assert answer.json() == {"content": "Noted.", "data": {"text": "x"}}
    assert [(caller.user, caller.agent) for caller, _ in notes.noted] == [("ada", "http")]
    assert problem(failed) == (502, "tool_failed", "It broke.")
    assert problem(busy)[:2] == (429, "overloaded")
    assert (busy.headers["retry-after"], busy.json()["retry_after"]) == ("2", 1.2)


async def test_a_tool_that_does_not_answer_in_time_is_a_timeout(
    stack: Served, ada: httpx.Client
) -> None:
    async with team_tool(stack) as notes:
        notes.may_finish.clear()
        late = await post(ada, "/v1/tools/jot", text="x")
        notes.may_finish.set()

    assert problem(late)[:2] == (504, "unavailable")
    assert "did not answer within 2 s" in problem(late)[2]


async def test_a_client_that_goes_away_cancels_its_call(
    stack: Served, server: HttpServer, ada: httpx.Client
) -> None:
    async with team_tool(stack) as notes:
        notes.may_finish.clear()
        headers = dict(ada.headers)
        with pytest.raises(httpx.ReadTimeout):
            async with httpx.AsyncClient(headers=headers, timeout=0.5, trust_env=False) as client:
                await client.post(f"{server.url}/v1/tools/jot", json={"text": "x"})
        await post(ada, "/v1/services/memory.ready")  # the cancellation was sent before
        notes.may_finish.set()

    assert notes.noted == []
