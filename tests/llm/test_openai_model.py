"""Conversations with models of OpenAI-compatible endpoints, over HTTP, against the stand-in."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from local2.endpoint.address import Endpoint
from local2.errors import ModelError, ModelRefusedError, PromptTooLargeError
from local2.llm import openai as adapter
from local2.llm.models import ChatChunk, ChatMessage, ToolCall, ToolDefinition
from local2.llm.openai import OpenAIModel
from own_logs import own_logs
from stand_ins.ollama_server import Reply
from stand_ins.openai_server import Failure, OpenAIStandIn, event

RECALL = ToolDefinition(
    name="recall_topic",
    description="Look up a standing fact.",
    parameters={"type": "object", "properties": {"topic": {"type": "string"}}},
)
CHAT = "chat/completions"
HELLO = [ChatMessage(role="user", content="Hello")]


@pytest.fixture
async def model(openai: OpenAIStandIn) -> AsyncIterator[OpenAIModel]:
    opened = await open_model(openai)
    yield opened
    await opened.close()


async def open_model(server: OpenAIStandIn, name: str = "gemma4") -> OpenAIModel:
    endpoint = Endpoint(url=server.url, key="sk-mark", settings="config/generator.yaml")
    return await OpenAIModel.open(name, temperature=0.5, endpoint=endpoint)


async def ask(
    model: OpenAIModel,
    messages: Sequence[ChatMessage] = HELLO,
    tools: Sequence[ToolDefinition] = (),
) -> list[ChatChunk]:
    return [chunk async for chunk in model.stream(messages, tools)]


def piece(delta: dict[str, Any], reason: str | None = None) -> bytes:
    return event({"choices": [{"delta": delta, "finish_reason": reason}]})


def stream_of_calls(*deltas: dict[str, Any]) -> Reply:
    """Return a stream of pieces of calls."""
    pieces = b"".join(piece({"tool_calls": [delta]}) for delta in deltas)
    return Reply(raw=pieces + piece({}, "tool_calls"))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thinking_is_separate_from_the_answer(
    openai: OpenAIStandIn, model: OpenAIModel, field: str
) -> None:
    openai.script(Reply(raw=piece({field: "Two, "}) + piece({"content": "Two."}, "stop")))

    chunks = await ask(model)

    assert [chunk.thinking for chunk in chunks if chunk.thinking] == ["Two, "]
    assert "".join(chunk.content for chunk in chunks) == "Two."


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param(
            [
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"n":1}'}},
                {"index": 0, "id": "b", "function": {"name": "g", "arguments": '{"n":2}'}},
            ],
            [("f", {"n": 1}), ("g", {"n": 2})],
            id="all numbered 0",
        ),
        pytest.param(
            [
                {"id": "a", "function": {"name": "f", "arguments": '{"n":'}},
                {"function": {"arguments": "1}"}},
                {"id": "b", "function": {"name": "g"}},
            ],
            [("f", {"n": 1}), ("g", {})],
            id="not numbered",
        ),
        pytest.param(
            [{"index": 0, "function": {"name": "f", "arguments": {"n": 1}}}],
            [("f", {"n": 1})],
            id="an object, without id",
        ),
        pytest.param(
            [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "null"}}],
            [("f", {})],
            id="no arguments, as null",
        ),
    ],
)
async def test_calls_in_nonstandard_forms_are_read(
    openai: OpenAIStandIn, model: OpenAIModel, deltas: list[Any], expected: list[Any]
) -> None:
    openai.script(stream_of_calls(*deltas))

    calls = [call for chunk in await ask(model, tools=[RECALL]) for call in chunk.tool_calls]

    assert [(call.name, call.arguments) for call in calls] == expected
    assert len({call.id for call in calls}) == len(calls)


async def test_the_request_contains_conversation_tools_key_and_temperature(
    openai: OpenAIStandIn, model: OpenAIModel
) -> None:
    call = ToolCall(id="1", name="recall_topic", arguments={"topic": "user.name"})

    await ask(
        model,
        [
            ChatMessage(role="user", content="My name?"),
            ChatMessage(role="assistant", thinking="Look it up.", tool_calls=(call,)),
            ChatMessage(role="tool", content="Ada", tool_call_id="1", tool_name="recall_topic"),
        ],
        [RECALL],
    )

    (request,) = openai.requests
    assert request.headers["authorization"] == "Bearer sk-mark"
    assert request.body["temperature"] == 0.5
    assert request.body["tools"][0]["function"]["name"] == "recall_topic"
    function = {"name": "recall_topic", "arguments": '{"topic":"user.name"}'}
    assert request.body["messages"] == [
        {"role": "user", "content": "My name?"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "Ada", "tool_call_id": "1"},
    ]


async def test_a_tool_whose_name_endpoints_refuse_is_not_offered(
    openai: OpenAIStandIn, model: OpenAIModel
) -> None:
    odd = ToolDefinition(name="a tool.of others", description="", parameters={"type": "object"})

    await ask(model, tools=[odd])
    await ask(model, tools=[odd, RECALL])

    without, with_one = openai.bodies(CHAT)
    assert "tools" not in without
    assert [tool["function"]["name"] for tool in with_one["tools"]] == ["recall_topic"]


async def test_refused_parameters_are_omitted_from_then_on(
    openai: OpenAIStandIn, model: OpenAIModel
) -> None:
    openai.refuses = {"temperature", "stream_options"}

    answers = [await ask(model) for _ in range(2)]

    assert ["".join(chunk.content for chunk in chunks) for chunks in answers] == 2 * ["Understood."]
    *_, second = openai.bodies(CHAT)
    assert not {"temperature", "stream_options"} & set(second)
    assert len(openai.bodies(CHAT)) == 4


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        pytest.param(
            event({"error": {"message": "runner died"}}), r"an error: runner died\. ", id="an error"
        ),
        pytest.param(b"", "broke off", id="no end"),
        pytest.param(b"<html>\n", "cannot be read", id="no event"),
        pytest.param(b"data: {\n\n", "cannot be read", id="no JSON"),
        pytest.param(b"data: []\n\n", "cannot be read", id="no object"),
    ],
)
async def test_pieces_before_a_broken_stream_are_delivered_and_the_break_is_an_error(
    openai: OpenAIStandIn, model: OpenAIModel, rest: bytes, message: str
) -> None:
    openai.script(Reply(raw=piece({"content": "Half an"}) + rest))
    pieces = model.stream(HELLO, [])

    assert (await anext(pieces)).content == "Half an"
    with pytest.raises(ModelError, match=message) as caught:
        await anext(pieces)
    assert caught.value.remedy


async def test_a_line_separator_within_a_text_does_not_end_an_event(
    openai: OpenAIStandIn, model: OpenAIModel
) -> None:
    raw = 'data: {"choices": [{"delta": {"content": "a\u2028b"}}]}\r\n\r\n: alive\n\ndata: [DONE]'
    openai.script(Reply(raw=raw.encode()))

    assert [chunk.content for chunk in await ask(model)] == ["a\u2028b"]


async def test_an_endpoint_that_hangs_times_out(
    openai: OpenAIStandIn, model: OpenAIModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "SILENCE_SECONDS", 0.2)
    openai.trouble = "hangs"

    with pytest.raises(ModelError, match=r"did not answer within 0\.2 s") as caught:
        await ask(model)

    assert "see its log" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        pytest.param(Failure(status=401), ModelError, "refused the key (401)", id="wrong key"),
        pytest.param(Failure(status=403), ModelError, "refused the key (403)", id="no right"),
        pytest.param(
            Failure(status=404, message="The model `x` does not exist"),
            ModelError,
            "does not have the model gemma4",
            id="no model",
        ),
        pytest.param(
            Failure(status=400, message="Invalid model name passed in"),
            ModelError,
            "does not have the model gemma4",
            id="no model, by 400",
        ),
        pytest.param(
            Failure(status=404, raw=b"<html>"),
            ModelError,
            "the address is wrong",
            id="no such path",
        ),
        pytest.param(
            Failure(status=402), ModelError, "has no quota left (402)", id="no money, by 402"
        ),
        pytest.param(
            Failure(status=429, code="insufficient_quota"),
            ModelError,
            "has no quota left (429)",
            id="no money, by 429",
        ),
        pytest.param(Failure(status=301), ModelError, "redirects", id="elsewhere"),
        pytest.param(
            Failure(status=422, message="no such option"),
            ModelRefusedError,
            "no such option",
            id="refused",
        ),
        pytest.param(
            Failure(status=400, message="maximum context length is 8 tokens"),
            PromptTooLargeError,
            "context length",
            id="too large",
        ),
    ],
)
async def test_a_permanent_failure_is_one_clear_error_without_a_retry(
    openai: OpenAIStandIn,
    model: OpenAIModel,
    failure: Failure,
    kind: type[ModelError],
    message: str,
) -> None:
    openai.fail_next(failure)

    with pytest.raises(ModelError) as caught:
        await ask(model)

    assert type(caught.value) is kind
    assert message in caught.value.message
    assert caught.value.remedy or kind is not ModelError
    assert len(openai.requests) == 1


async def test_a_wrong_key_is_named_by_its_setting_and_never_shown(
    openai: OpenAIStandIn, model: OpenAIModel
) -> None:
    openai.key = "another"

    with own_logs() as logs, pytest.raises(ModelError) as caught:
        await ask(model)
    openai.key = None
    openai.fail_next(Failure(status=400, message="Cannot use sk-mark for this"))
    with pytest.raises(ModelRefusedError) as refused:
        await ask(model)

    assert "openai_key in config/generator.yaml" in str(caught.value)
    assert "Cannot use … for this" in str(refused.value)
    assert "sk-mark" not in f"{caught.value!r} {caught.value} {refused.value} {logs}"


async def test_a_server_that_is_down_is_an_error_with_a_remedy(
    openai: OpenAIStandIn, model: OpenAIModel, quick_retries: None
) -> None:
    del quick_retries
    openai.stop()

    with pytest.raises(ModelError, match=r"No answer from http.*Start it, or correct openai_url"):
        await ask(model)


async def test_a_model_that_is_not_listed_is_called_to_check_it(
    openai: OpenAIStandIn, model: OpenAIModel
) -> None:
    assert await model.list_models() == ["gemma4", "nomic-embed-text"]
    assert await model.is_available()
    missing = await open_model(openai, "other")
    assert not await missing.is_available()
    openai.fail_next(Failure(status=404))
    assert await model.list_models() is None
    openai.models = ["models/gemma4"]
    assert await model.is_available()
    openai.lists = False
    assert await missing.is_available()
    await missing.close()


async def test_an_endpoint_with_an_unreadable_answer_fails_its_check(
    openai: OpenAIStandIn, model: OpenAIModel
) -> None:
    await model.try_out(within=10)

    openai.script_json(Reply(raw=b"<html>Log in</html>"))
    with pytest.raises(ModelError, match="cannot be read") as caught:
        await model.try_out(within=10)
    assert caught.value.remedy
