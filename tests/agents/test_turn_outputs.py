"""A turn shortens tool outputs that are too long for its model, and stores them whole."""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from calling import RICHARD
from factories import Listen, StartGenerator
from local2.bus.connection import BusMessage, Connection
from local2.bus.outputs import store_output
from local2.bus.tool_host import ToolHost
from local2.client.queries import QueryClient
from local2.memory.tenant import Memories, Memory
from local2.protocol.envelope import Caller
from local2.protocol.memory_tools import READ_TOOL_OUTPUT
from local2.protocol.tool import Tool, ToolOutput
from local2.settings import GeneratorSettings
from local2.tools.catalog import bind
from serving import service_host
from stand_ins.ollama_server import OllamaStandIn, Reply
from waiting import eventually

BOOK = "".join(f"Sentence {n} of the book. " for n in range(5_000))

LARGE = 200_000
"""Size in tokens of a context that holds the book."""


class NoArgs(msgspec.Struct):
    pass


@pytest.fixture
async def foreign_book(bus: Connection) -> AsyncIterator[None]:
    """Serve a tool `book` as a participant written in another language might."""

    async def send_book(message: BusMessage) -> None:
        result = {"ok": True, "content": BOOK}
        await bus.publish(message.reply, json.dumps({"payload": result}).encode())

    async def announce(_: BusMessage) -> None:
        function = {"name": "book", "description": "A book.", "parameters": {"type": "object"}}
        schema = {"type": "function", "function": function}
        tool = {"name": "book", "description": "A book.", "version": "1", "schema": schema}
        await bus.publish("tool.schema", json.dumps({"payload": tool}).encode())

    subscriptions = [
        await bus.subscribe("tool.request.book", send_book),
        await bus.subscribe("tool.schema.request", announce),
    ]
    yield
    for subscription in subscriptions:
        await subscription.stop(grace=1)


@pytest.fixture
async def keeper(bus: Connection, memory: Memory) -> AsyncIterator[None]:
    async with service_host("output_keeper", bus, Memories(memory)):
        yield


def tool_results(ollama: OllamaStandIn) -> list[str]:
    """Return the tool results in the last request to the model."""
    messages: list[dict[str, Any]] = ollama.bodies("/api/chat")[-1]["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


@pytest.mark.usefixtures("foreign_book", "keeper")
async def test_the_model_and_the_turn_get_a_preview_of_a_foreign_tools_long_output(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    await start(tools=1)
    ollama.script(Reply(tool_calls=(("book", {}),)), Reply(content="I have read it."))

    turn = await client.ask("Read.", caller=RICHARD, timeout=20)

    (preview,) = tool_results(ollama)
    (call,) = turn.tool_calls
    assert call.tool_output_key is not None
    assert call.content == preview
    assert len(preview) < 5_000
    assert call.tool_output_key in preview
    stored = await memory.of(RICHARD).outputs.read(call.tool_output_key, 0, 1_000_000)
    assert stored.text == BOOK


@pytest.mark.usefixtures("foreign_book", "keeper")
async def test_the_output_limit_for_the_model_is_a_setting_and_the_turn_loses_nothing(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    await start(tools=1, tool_output_limit=len(BOOK), context_size=LARGE)
    ollama.script(Reply(tool_calls=(("book", {}),)), Reply(content="I have read it."))

    turn = await client.ask("Read.", caller=RICHARD, timeout=20)

    assert tool_results(ollama) == [BOOK]
    (call,) = turn.tool_calls
    assert len(call.content) < len(BOOK)
    assert call.tool_output_key is not None
    stored = await memory.of(RICHARD).outputs.read(call.tool_output_key, 0, 1_000_000)
    assert stored.text == BOOK


@pytest.mark.usefixtures("foreign_book")
async def test_without_an_output_keeper_the_model_gets_the_whole_output(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(tools=1, context_size=LARGE)
    ollama.script(Reply(tool_calls=(("book", {}),)), Reply(content="I have read it."))

    turn = await client.ask("Read.", caller=RICHARD, timeout=20)

    assert tool_results(ollama) == [BOOK]
    assert turn.answer == "I have read it."
    assert turn.tool_calls[0].tool_output_key is None


@pytest.mark.usefixtures("foreign_book")
async def test_every_field_of_a_call_is_published_even_if_it_is_empty(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, listen: Listen
) -> None:
    generations = await listen("response.generation")
    await start(tools=1, context_size=LARGE)
    ollama.script(Reply(tool_calls=(("book", {}),)), Reply(content="I have read it."))

    turn = await client.ask("Read.", caller=RICHARD, timeout=20)
    await eventually(lambda: generations)

    (call,) = json.loads(generations[0].data)["payload"]["tool_calls"]
    constant_fields = {
        "name": "book", "args": {}, "ok": True, "tool_output_key": None, "recorded": True,
    }  # fmt: skip
    assert call == {
        **constant_fields,
        "id": turn.tool_calls[0].id,
        "content": turn.tool_calls[0].content,
    }


@pytest.mark.usefixtures("keeper")
async def test_a_piece_read_back_from_the_memory_is_not_shortened_again(
    bus: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    memory: Memory,
) -> None:
    key = await store_output(bus, BOOK, caller=RICHARD)
    args = {"tool_output_key": key, "offset": 10, "limit": 50_000}
    async with ToolHost(bus, bind(READ_TOOL_OUTPUT, Memories(memory))):
        await start(tools=1, context_size=LARGE)
        ollama.script(Reply(tool_calls=(("read_tool_output", args),)), Reply(content="I see."))

        turn = await client.ask("Read on.", caller=RICHARD, timeout=20)

    (piece,) = tool_results(ollama)
    assert piece.startswith(BOOK[10:50_010])
    assert turn.tool_calls[0].tool_output_key is None


@pytest.mark.usefixtures("keeper")
async def test_a_preview_made_by_the_tools_host_is_not_shortened_again(
    bus: Connection, start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    async def read_book(_: Caller, args: NoArgs) -> ToolOutput:
        return ToolOutput(content=BOOK, data=args)

    tool = Tool(name="book", description="A book.", version="1.0.0", args=NoArgs, run=read_book)
    async with ToolHost(bus, tool, output_limit=50_000):
        await start(tools=1)
        ollama.script(Reply(tool_calls=(("book", {}),)), Reply(content="I have read it."))

        turn = await client.ask("Read.", caller=RICHARD, timeout=20)

    (preview,) = tool_results(ollama)
    (call,) = turn.tool_calls
    assert call.tool_output_key is not None
    assert len(preview) > GeneratorSettings().tool_output_limit
    assert call.tool_output_key in call.content.partition("\n")[0]
    assert call.content == preview[:10_000]
