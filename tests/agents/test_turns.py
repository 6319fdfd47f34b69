"""A turn ends, whatever its model says or does, and whatever tools are announced."""

import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from factories import Listen, StartGenerator
from local.agents.generator_agent import GeneratorAgent
from local.bus.connection import Connection
from local.bus.query_client import QueryClient
from local.llm.chat import ChatChunk, ChatMessage, ToolDefinition
from local.memory.service import Memory
from local.protocol.caller import Caller
from local.protocol.codec import decode
from local.protocol.payloads import Generation, Json
from local.settings import GeneratorSettings
from stand_ins.ollama_server import OllamaStandIn, Reply
from waiting import eventually

RICHARD = Caller(user="richard", agent="shell", session_id="s1")


async def announce(bus: Connection, name: str, parameters: Json) -> None:
    """Tell of a tool as a participant written in another language might."""
    function = {"name": name, "description": "Foreign.", "parameters": parameters}
    schema = {"type": "function", "function": function}
    tool = {"name": name, "description": "Foreign.", "version": "1", "schema": schema}
    await bus.publish("tool.schema", json.dumps({"payload": tool}).encode())


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({"type": "object", "properties": {"x": True}}, id="any value"),
        pytest.param({"type": "object", "properties": ["x"]}, id="a list of properties"),
        pytest.param({"type": "object", "required": "x"}, id="required is no list"),
    ],
)
@pytest.mark.usefixtures("tools")
async def test_a_tool_whose_schema_the_model_cannot_be_given_is_left_out(
    bus: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    parameters: Json,
) -> None:
    agent = await start()
    await announce(bus, "odd", parameters)
    await eventually(lambda: "odd" in {schema.name for schema in agent._toolbox.schemas})

    turn = await client.ask("Hello?", caller=RICHARD, timeout=20)

    (chat,) = ollama.bodies("/api/chat")
    assert turn.answer == "Understood."
    offered = {tool["function"]["name"] for tool in chat["tools"]}
    hidden = {"odd", *GeneratorSettings().hidden_tools}
    assert offered == {schema.name for schema in agent._toolbox.schemas} - hidden


async def test_a_turn_with_more_thinking_than_a_message_carries_ends_without_it(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, listen: Listen
) -> None:
    await start(tools=0)
    heard = await listen("response.generation")
    ollama.script(Reply(thinking="x" * 1_200_000, content="Au."))

    turn = await client.ask("Symbol of gold?", caller=RICHARD, timeout=20)

    await eventually(lambda: heard)
    assert decode(heard[0].data, Generation).payload == turn
    assert (turn.answer, turn.thinking, turn.error) == ("Au.", None, None)


class BreaksOnce:
    """A chat model with a mistake in it."""

    name = "breaks once"

    def __init__(self) -> None:
        self._broken = False

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> AsyncGenerator[ChatChunk, None]:
        assert messages
        assert tools == []
        yield ChatChunk(content="Half an")
        if not self._broken:
            self._broken = True
            raise ZeroDivisionError("secret of the inside")
        yield ChatChunk(content=" answer.")

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.usefixtures("memory_agent")
async def test_a_model_with_a_mistake_ends_the_turn_as_internal_and_nothing_is_remembered(
    bus: Connection, client: QueryClient, memory: Memory, logs: Path
) -> None:
    async with GeneratorAgent(bus, BreaksOnce(), GeneratorSettings()):
        failed = await client.ask("First?", caller=RICHARD, timeout=20)
        answered = await client.ask("Second?", caller=RICHARD, timeout=20)

    assert failed.error is not None
    assert failed.error.code == "internal"
    assert "secret" not in failed.error.message
    assert failed.answer == ""
    assert (answered.answer, answered.error) == ("Half an answer.", None)
    await eventually(lambda: "secret of the inside" in logs.read_text())

    async def remembered() -> bool:
        return (await memory.ledger.counts()).records > 0

    await eventually(remembered)
    found = await memory.of(RICHARD).search_episodic("First Second answer")
    assert [hit.content for hit in found.hits] == ["Q: Second?\nA: Half an answer."]


class TalksForEver:
    """A chat model whose answer is larger than a message, in pieces that are not."""

    name = "talks for ever"

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> AsyncGenerator[ChatChunk, None]:
        assert messages
        assert tools == []
        for _ in range(3):
            yield ChatChunk(content="x" * 500_000)

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.usefixtures("memory_agent")
async def test_an_answer_larger_than_a_message_ends_the_turn_as_too_large(
    bus: Connection, client: QueryClient
) -> None:
    async with GeneratorAgent(bus, TalksForEver(), GeneratorSettings()):
        turn = await client.ask("Tell me all.", caller=RICHARD, timeout=20)

    assert turn.error is not None
    assert turn.error.code == "too_large"
    assert turn.query == "Tell me all."
