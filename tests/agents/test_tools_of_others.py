"""The generator calls other teams' tools, which know the bus only from its documentation."""

import json
from typing import Any

import pytest

from calling import RICHARD
from factories import ConnectBus, StartGenerator
from local2.bus.connection import BusMessage, Connection
from local2.client.queries import QueryClient
from stand_ins.ollama_server import OllamaStandIn, Reply

NAME = "get-Weather"
SCHEMA = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@pytest.fixture
async def theirs(connect_bus: ConnectBus) -> Connection:
    """Serve a tool that announces the bare schema, and never replies."""
    bus = await connect_bus()

    async def announce(_: BusMessage) -> None:
        await bus.publish("tool.schema", json.dumps({"payload": SCHEMA}).encode())

    async def answer(message: BusMessage) -> None:
        request = json.loads(message.data)
        result: dict[str, Any] = {
            "session_id": request["session_id"],
            "query_id": request["query_id"],
            "payload": {"result": {"city": request["payload"]["args"]["city"], "degrees": 21}},
        }
        await bus.publish(f"tool.result.{NAME}", json.dumps(result).encode())

    await bus.subscribe("tool.schema.request", announce)
    await bus.subscribe(f"tool.request.{NAME}", answer)
    await bus.flush()
    return bus


@pytest.mark.usefixtures("theirs")
async def test_a_tool_that_only_publishes_its_result_is_offered_and_called(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(tools=1)
    ollama.script(
        Reply(tool_calls=((NAME, {"city": "Berlin"}),)), Reply(content="21 degrees in Berlin.")
    )

    turn = await client.ask("How warm is it in Berlin?", caller=RICHARD, timeout=5)

    assert turn.answer == "21 degrees in Berlin."
    (call,) = turn.tool_calls
    assert (call.name, call.ok, call.content) == (NAME, True, '{"city":"Berlin","degrees":21}')
    offered, followed_up = ollama.bodies("/api/chat")
    assert [tool["function"]["name"] for tool in offered["tools"]] == [NAME]
    assert followed_up["messages"][-1]["content"] == call.content
