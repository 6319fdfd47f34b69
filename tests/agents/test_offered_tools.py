"""A model is offered all of the memory's tools first, then other tools by recent use."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from calling import RICHARD, caller_named
from factories import ConnectBus, StartGenerator
from local2.bus.connection import Connection, connect
from local2.bus.tool_host import ToolHost
from local2.client.queries import QueryClient
from local2.generator.agent import GeneratorAgent
from local2.memory.tenant import Memories, Memory
from local2.protocol.memory_tools import TOOLS
from local2.tools.catalog import memory_tools
from stand_ins.ollama_server import OllamaStandIn, Reply
from waiting import eventually

OFFERED = {tool.name for tool in TOOLS if tool.for_models}
LARGE = 2_000
"""Words per description; two such tools fit the token budget for tools, three do not."""


@pytest.fixture
async def bus(nats_url: str) -> AsyncIterator[Connection]:
    """Connect with the stack's secret."""
    async with connect(nats_url, name="stack", secret="secret") as connection:  # noqa: S106
        yield connection


@pytest.fixture
async def theirs(connect_bus: ConnectBus) -> Connection:
    return await connect_bus()


async def announce(theirs: Connection, name: str, *, words: int = 1, **attributes: Any) -> None:
    function = {"name": name, "description": "word " * words, "parameters": {"type": "object"}}
    tool = {"schema": {"type": "function", "function": function}, **attributes}
    await theirs.publish("tool.schema", json.dumps({"source": "theirs", "payload": tool}).encode())


def offered(ollama: OllamaStandIn) -> list[str]:
    """Return the names of the tools in the last request to the model."""
    return [tool["function"]["name"] for tool in ollama.bodies("/api/chat")[-1]["tools"]]


async def knows_tools(agent: GeneratorAgent, count: int) -> None:
    await eventually(lambda: len(agent._toolbox.schemas) == count)


@pytest.mark.parametrize(
    "attributes", [{}, {"reads_memory": True, "recorded": False, "whole": True}]
)
async def test_the_memorys_tools_are_offered_however_many_others_are_announced_first(
    *,
    bus: Connection,
    memory: Memory,
    theirs: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    attributes: dict[str, bool],
) -> None:
    agent = await start(tools=0)
    for number in range(300):
        await announce(theirs, f"a{number}", **attributes)
    await knows_tools(agent, 300)

    async with AsyncExitStack() as hosts:
        for tool in memory_tools(Memories(memory)):
            await hosts.enter_async_context(ToolHost(bus, tool))
        await knows_tools(agent, len(TOOLS) + 300)
        await client.ask("Hello?", caller=RICHARD)

    assert set(offered(ollama)) >= OFFERED
    assert len(offered(ollama)) < 300


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    "attributes", [{}, {"reads_memory": True, "recorded": False, "whole": True}]
)
async def test_a_foreign_tool_with_a_memory_tools_name_does_not_replace_it(
    theirs: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    attributes: dict[str, bool],
) -> None:
    agent = await start()
    await announce(theirs, "save_topic", words=20_000, **attributes)
    await announce(theirs, "last")
    await knows_tools(agent, len(TOOLS) + 1)

    await client.ask("Hello?", caller=RICHARD)

    assert set(offered(ollama)) == OFFERED | {"last"}
    (ours,) = [
        tool["function"]
        for tool in ollama.bodies("/api/chat")[-1]["tools"]
        if tool["function"]["name"] == "save_topic"
    ]
    assert ours["description"].startswith("Save a preference")


@pytest.mark.parametrize(
    ("only", "expected"), [((), ["weigh"]), (("export", "weigh"), ["export", "weigh"])]
)
async def test_a_tool_not_meant_for_models_is_offered_only_if_the_settings_name_it(
    *,
    theirs: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    only: tuple[str, ...],
    expected: list[str],
) -> None:
    agent = await start(tools=0, only=only)
    await announce(theirs, "export", for_models=False)
    await announce(theirs, "weigh")
    await knows_tools(agent, 2)

    await client.ask("Hello?", caller=RICHARD)

    assert offered(ollama) == expected


async def test_a_users_recently_used_tools_are_offered_before_others(
    theirs: Connection, start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    agent = await start(tools=0)
    for name in ("first", "second"):
        await announce(theirs, name)
    await announce(theirs, "used", words=LARGE)
    await knows_tools(agent, 3)
    ollama.script(Reply(tool_calls=(("used", {}),)))
    await client.ask("Use it.", caller=RICHARD)
    for name in ("first", "second"):
        await announce(theirs, name, words=LARGE)
    await announce(theirs, "last")
    await knows_tools(agent, 4)

    await client.ask("And now?", caller=caller_named("richard", agent="shell", session_id="s2"))
    assert offered(ollama) == ["first", "last", "used"]
    await client.ask("And now?", caller=caller_named("eve", agent="shell", session_id="s1"))
    assert offered(ollama) == ["first", "last", "second"]
