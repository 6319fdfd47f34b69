"""What models of Ollama and of OpenAI-compatible endpoints have in common, over HTTP."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import pytest

from baskets import BASKET, list_fruits
from local2.endpoint.address import Endpoint
from local2.errors import ModelError, ModelRefusedError
from local2.llm.models import ChatChunk, ChatMessage, ToolDefinition
from local2.llm.ollama import OllamaModel
from local2.llm.openai import OpenAIModel
from own_logs import own_logs
from stand_ins.ollama_server import OllamaStandIn, Reply
from stand_ins.openai_server import OpenAIStandIn

Server = OllamaStandIn | OpenAIStandIn
Model = OllamaModel | OpenAIModel
RECALL = ToolDefinition(
    name="recall_topic",
    description="Look up a standing fact.",
    parameters={"type": "object", "properties": {"topic": {"type": "string"}}},
)
HELLO = [ChatMessage(role="user", content="Hello")]


@pytest.fixture(params=["ollama", "openai"])
def server(request: pytest.FixtureRequest) -> Server:
    chosen: Server = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
async def model(server: Server) -> AsyncIterator[Model]:
    opened: Model
    if isinstance(server, OllamaStandIn):
        opened = await OllamaModel.open(
            "gemma4", temperature=0.5, context_size=4096, url=server.url
        )
    else:
        endpoint = Endpoint(url=server.url, settings="config/generator.yaml")
        opened = await OpenAIModel.open("gemma4", temperature=0.5, endpoint=endpoint)
    yield opened
    await opened.close()


async def ask(
    model: Model, messages: Sequence[ChatMessage] = HELLO, tools: Sequence[ToolDefinition] = ()
) -> list[ChatChunk]:
    return [chunk async for chunk in model.stream(messages, tools)]


async def test_pieces_arrive_while_the_model_is_still_writing(server: Server, model: Model) -> None:
    rest_may_come = threading.Event()
    server.script(Reply(content="One two three", hold=rest_may_come))

    async with asyncio.timeout(5):
        pieces = model.stream(HELLO, [])
        first = await anext(pieces)
        rest_may_come.set()
        rest = [piece.content async for piece in pieces if piece.content]

    assert first.content == "One"
    assert rest == [" two", " three"]


async def test_simultaneous_calls_get_different_ids(server: Server, model: Model) -> None:
    topics = [{"topic": "user.name"}, {"topic": "user.language_preference"}]
    server.script(Reply(tool_calls=tuple(("recall_topic", topic) for topic in topics)))

    calls = [call for chunk in await ask(model, tools=[RECALL]) for call in chunk.tool_calls]

    assert [(call.name, call.arguments) for call in calls] == [
        ("recall_topic", topic) for topic in topics
    ]
    assert len({call.id for call in calls}) == 2


async def test_abandoning_an_answer_closes_the_connection(server: Server, model: Model) -> None:
    rest_may_come = threading.Event()
    server.script(Reply(content="One two three", hold=rest_may_come))
    pool = model._client._client._transport._pool  # type: ignore[union-attr]

    async with aclosing(model.stream(HELLO, [])) as pieces:
        await anext(pieces)
        assert len(pool.connections) == 1

    assert pool.connections == []
    rest_may_come.set()


async def test_the_models_token_counts_are_returned_once(model: Model) -> None:
    short = await ask(model)
    long = await ask(model, [ChatMessage(role="user", content="Hello " * 100)])

    counted = [[chunk.usage for chunk in chunks if chunk.usage] for chunks in (short, long)]
    assert [len(usages) for usages in counted] == [1, 1]
    assert counted[1][0].prompt_tokens > counted[0][0].prompt_tokens > 0


@pytest.mark.parametrize(
    "unreadable",
    [
        pytest.param("I see an apple.", id="prose"),
        pytest.param("", id="nothing"),
        pytest.param('{"fruits": [{"name": "app', id="cut off"),
        pytest.param('{"fruits": [{"name": "apple", "ripe": "maybe"}]}', id="unknown word"),
        pytest.param('{"apple": "ripe"}', id="another object"),
    ],
)
async def test_a_malformed_answer_is_requested_once_more_and_then_an_error_without_content(
    server: Server, model: Model, unreadable: str
) -> None:
    server.script_json(Reply(content=unreadable), BASKET)
    assert await list_fruits(model) == BASKET
    server.script_json(Reply(content=unreadable), Reply(content=unreadable))

    with own_logs() as logs, pytest.raises(ModelRefusedError, match="requested form") as caught:
        await list_fruits(model)

    output = f"{caught.value} {logs}"
    assert "apple" not in output
    assert "maybe" not in output


async def test_a_model_that_takes_too_long_is_a_temporary_error(
    server: Server, model: Model
) -> None:
    never = threading.Event()
    server.script_json(Reply(hold=never))

    with pytest.raises(ModelError, match=r"within 0\.05 s") as caught:
        await list_fruits(model, within=0.05)
    never.set()

    assert not isinstance(caught.value, ModelRefusedError)
