"""The Ollama adapter, tested with the real client against the stand-in."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from ollama import AsyncClient

from local2.errors import ConfigError, ModelError, ModelRefusedError, PromptTooLargeError
from local2.llm import ollama as adapter
from local2.llm.models import ChatChunk, ChatMessage, ToolCall, ToolDefinition
from local2.llm.ollama import OllamaModel, installed_models
from own_logs import own_logs
from stand_ins.ollama_server import OllamaStandIn, Reply

RECALL = ToolDefinition(
    name="recall_topic",
    description="Look up a standing fact.",
    parameters={
        "type": "object",
        "properties": {"topic": {"type": "string", "description": "Topic key."}},
        "required": ["topic"],
    },
)


@pytest.fixture
async def model(ollama: OllamaStandIn) -> AsyncIterator[OllamaModel]:
    opened = await open_model(ollama.url)
    yield opened
    await opened.close()


async def open_model(url: str) -> OllamaModel:
    return await OllamaModel.open("gemma4", temperature=0.5, context_size=4096, url=url)


async def ask(
    model: OllamaModel, *messages: ChatMessage, tools: Sequence[ToolDefinition] = ()
) -> list[ChatChunk]:
    conversation = messages or (ChatMessage(role="user", content="Hello"),)
    return [chunk async for chunk in model.stream(conversation, tools)]


def line(**part: Any) -> bytes:
    return json.dumps(part).encode() + b"\n"


HALF = line(message={"role": "assistant", "content": "Half an"}, done=False)


async def test_thinking_is_separate_from_the_answer(
    ollama: OllamaStandIn, model: OllamaModel
) -> None:
    ollama.script(Reply(thinking="She asks for two.", content="Two."))

    chunks = await ask(model)

    assert "".join(chunk.thinking for chunk in chunks) == "She asks for two."
    assert "".join(chunk.content for chunk in chunks) == "Two."


@pytest.mark.parametrize(
    ("capabilities", "think"),
    [
        pytest.param(["completion", "tools", "thinking"], True, id="listed"),
        pytest.param(["completion", "tools"], None, id="not listed"),
    ],
)
async def test_thinking_is_requested_from_models_that_list_it(
    ollama: OllamaStandIn, capabilities: list[str], think: bool | None
) -> None:
    ollama.capabilities = capabilities
    model = await open_model(ollama.url)

    await ask(model)
    await model.close()

    assert ollama.bodies("/api/chat")[0].get("think") is think


async def test_the_request_contains_conversation_tools_and_options(
    ollama: OllamaStandIn, model: OllamaModel
) -> None:
    call = ToolCall(id="1", name="recall_topic", arguments={"topic": "user.name"})

    await ask(
        model,
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content="My name?"),
        ChatMessage(role="assistant", thinking="Look it up.", tool_calls=(call,)),
        ChatMessage(role="tool", content="Richard", tool_call_id="1", tool_name="recall_topic"),
        tools=[RECALL],
    )

    body = ollama.bodies("/api/chat")[0]
    assert body["options"] == {"temperature": 0.5, "num_ctx": 4096}
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": RECALL.name,
                "description": RECALL.description,
                "parameters": RECALL.parameters,
            },
        }
    ]
    function = {"name": "recall_topic", "arguments": {"topic": "user.name"}}
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "My name?"},
        {"role": "assistant", "thinking": "Look it up.", "tool_calls": [{"function": function}]},
        {"role": "tool", "content": "Richard", "tool_name": "recall_topic"},
    ]


async def test_a_name_without_a_tag_means_latest(ollama: OllamaStandIn) -> None:
    ollama.models = ["gemma4:latest"]

    model = await open_model(ollama.url)

    assert model.name == "gemma4"
    await model.close()


async def test_a_missing_model_is_refused_with_the_command_that_gets_it(
    ollama: OllamaStandIn,
) -> None:
    ollama.models = ["gemma4:12b"]

    with pytest.raises(ModelError, match="ollama pull gemma4") as caught:
        await open_model(ollama.url)

    assert "does not have the model gemma4" in caught.value.message


async def test_a_model_that_cannot_call_tools_is_refused_and_leaves_no_client_open(
    ollama: OllamaStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    ollama.capabilities = ["completion"]
    closed = asyncio.Event()

    async def close(_: AsyncClient) -> None:
        closed.set()

    monkeypatch.setattr(AsyncClient, "close", close)
    with pytest.raises(ModelError, match="cannot call tools"):
        await open_model(ollama.url)

    assert closed.is_set()


async def test_a_server_that_is_down_is_an_error_with_a_remedy(ollama: OllamaStandIn) -> None:
    ollama.stop()

    with pytest.raises(ModelError, match="ollama serve"):
        await open_model(ollama.url)


async def test_a_server_that_never_answers_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "PROBE_SECONDS", 0.05)
    left = asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            pass
        writer.close()
        left.set()

    async with await asyncio.start_server(never_answer, "127.0.0.1") as silent:
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(ModelError, match="TimeoutError"):
            await open_model(f"http://127.0.0.1:{port}")
        await left.wait()


async def test_an_invalid_url_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="LOCAL2_GENERATOR__OLLAMA_URL"):
        await open_model("http://localhost:eleven")


async def test_a_server_that_goes_down_later_is_an_error_with_a_remedy(
    ollama: OllamaStandIn, model: OllamaModel
) -> None:
    ollama.stop()

    with pytest.raises(ModelError, match="ollama serve"):
        await ask(model)


async def test_a_model_removed_later_is_refused_with_the_command_that_gets_it(
    ollama: OllamaStandIn, model: OllamaModel
) -> None:
    ollama.models.clear()

    with pytest.raises(ModelError, match="ollama pull gemma4"):
        await ask(model)


async def test_a_failing_server_is_an_error_and_the_next_question_is_answered(
    ollama: OllamaStandIn, model: OllamaModel
) -> None:
    ollama.fail_next(status=500, error="out of memory")

    with pytest.raises(ModelError, match="out of memory"):
        await ask(model)

    assert "".join(chunk.content for chunk in await ask(model)) == "Understood."


async def test_a_refused_request_is_distinguished_from_a_failure(
    ollama: OllamaStandIn, model: OllamaModel
) -> None:
    ollama.fail_next(status=400, error="no such option")

    with pytest.raises(ModelRefusedError, match="no such option"):
        await ask(model)


async def test_a_prompt_larger_than_the_context_is_distinguished_from_other_refusals(
    ollama: OllamaStandIn, model: OllamaModel
) -> None:
    ollama.context_tokens = 100

    with pytest.raises(PromptTooLargeError, match="context length"):
        await ask(model, ChatMessage(role="user", content="Hello " * 100))


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        pytest.param(line(error="runner died"), "runner died", id="error in the stream"),
        pytest.param(b"", "broke off", id="no last line"),
        pytest.param(b"<html>", "cannot be read", id="not JSON"),
        pytest.param(b"[]\n", "cannot be read", id="no object"),
        pytest.param(line(done=True), "cannot be read", id="no message"),
        pytest.param(
            line(
                message={
                    "role": "assistant",
                    "tool_calls": [{"function": {"name": "recall_topic", "arguments": "topic"}}],
                }
            ),
            "cannot be read",
            id="arguments are no JSON",
        ),
    ],
)
async def test_pieces_before_a_broken_stream_are_delivered_and_the_break_is_an_error(
    ollama: OllamaStandIn, model: OllamaModel, rest: bytes, message: str
) -> None:
    ollama.script(Reply(raw=HALF + rest))
    pieces = model.stream([ChatMessage(role="user", content="Hello")], [])

    assert (await anext(pieces)).content == "Half an"
    with pytest.raises(ModelError, match=message):
        await anext(pieces)


@pytest.mark.parametrize(
    ("arguments", "read"),
    [('{"topic": "user.name"}', {"topic": "user.name"}), ("", {}), ("null", {}), (None, {})],
)
async def test_arguments_that_are_null_or_json_as_text_are_read(
    ollama: OllamaStandIn, model: OllamaModel, arguments: str | None, read: dict[str, str]
) -> None:
    calls = [{"function": {"name": "recall_topic", "arguments": arguments}}]
    message = {"role": "assistant", "content": "", "tool_calls": calls}
    ollama.script(Reply(raw=line(message=message, done=True, done_reason="stop")))

    (chunk,) = await ask(model)

    assert [(call.name, call.arguments) for call in chunk.tool_calls] == [("recall_topic", read)]


async def test_an_answer_cut_off_by_the_context_size_is_logged(
    ollama: OllamaStandIn, model: OllamaModel
) -> None:
    end = line(message={"role": "assistant", "content": ""}, done=True, done_reason="length")
    ollama.script(Reply(raw=HALF + end))

    with own_logs() as logs:
        await ask(model)

    assert [(log["event"], log["context_size"]) for log in logs] == [("answer_cut_off", 4096)]


async def test_the_models_of_a_server_are_listed_with_their_tags(ollama: OllamaStandIn) -> None:
    assert await installed_models(ollama.url) == ["gemma4:latest", "nomic-embed-text:latest"]
    ollama.models.clear()
    assert await installed_models(ollama.url) == []


async def test_listing_models_of_a_server_that_is_down_or_fails_is_an_error(
    ollama: OllamaStandIn,
) -> None:
    ollama.fail_next(error="out of memory")
    with pytest.raises(ModelError, match="out of memory"):
        await installed_models(ollama.url)
    ollama.stop()
    with pytest.raises(ModelError, match="No answer from Ollama"):
        await installed_models(ollama.url)
    with pytest.raises(ConfigError, match="not a URL"):
        await installed_models("http://127.0.0.1:none")
