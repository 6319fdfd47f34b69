"""Which tools a model is offered: the memory's own whatever else is announced, others by use."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from calling import RICHARD
from factories import ConnectBus, StartGenerator
from local.bus.connection import Connection, connect
from local.bus.tool_host import ToolHost
from local.client.queries import QueryClient
from local.generator.agent import GeneratorAgent
from local.memory.tenant import Memories, Memory
from local.protocol.envelope import Caller
from local.tools.catalog import TOOLS, memory_tools
from stand_ins.ollama_server import OllamaStandIn, Reply
from waiting import eventually

OFFERED = {tool.name for tool in TOOLS if tool.for_models}
LARGE = 2_000
"""Words of a description of which two fit the room for tools, and three do not."""


@pytest.fixture
async def bus(nats_url: str) -> AsyncIterator[Connection]:
    """The stack's own connection, which knows its secret."""
    async with connect(nats_url, name="stack", secret="secret") as connection:  # noqa: S106
        yield connection


@pytest.fixture
async def theirs(connect_bus: ConnectBus) -> Connection:
    return await connect_bus()


async def announce(theirs: Connection, name: str, *, words: int = 1, **says: Any) -> None:
    function = {"name": name, "description": "word " * words, "parameters": {"type": "object"}}
    tool = {"schema": {"type": "function", "function": function}, **says}
    await theirs.publish("tool.schema", json.dumps({"source": "theirs", "payload": tool}).encode())


def offered(ollama: OllamaStandIn) -> list[str]:
    """What the model was offered last."""
    return [tool["function"]["name"] for tool in ollama.bodies("/api/chat")[-1]["tools"]]


async def heard(agent: GeneratorAgent, count: int) -> None:
    await eventually(lambda: len(agent._toolbox.schemas) == count)


@pytest.mark.parametrize("says", [{}, {"reads_memory": True, "recorded": False, "whole": True}])
async def test_the_memorys_tools_are_offered_however_many_others_are_announced_before_them(
    *,
    bus: Connection,
    memory: Memory,
    theirs: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    says: dict[str, bool],
) -> None:
    agent = await start(tools=0)
    for number in range(300):
        await announce(theirs, f"a{number}", **says)
    await heard(agent, 300)

    async with AsyncExitStack() as hosts:
        for tool in memory_tools(Memories(memory)):
            await hosts.enter_async_context(ToolHost(bus, tool))
        await heard(agent, len(TOOLS) + 300)
        await client.ask("Hello?", caller=RICHARD)

    assert set(offered(ollama)) >= OFFERED
    assert len(offered(ollama)) < 300


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("says", [{}, {"reads_memory": True, "recorded": False, "whole": True}])
async def test_a_tool_of_others_with_the_memorys_name_takes_nothing_from_it(
    theirs: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    says: dict[str, bool],
) -> None:
    agent = await start()
    await announce(theirs, "save_topic", words=20_000, **says)
    await announce(theirs, "last")
    await heard(agent, len(TOOLS) + 1)

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
async def test_a_tool_that_is_not_for_models_is_offered_only_where_the_settings_name_it(
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
    await heard(agent, 2)

    await client.ask("Hello?", caller=RICHARD)

    assert offered(ollama) == expected


async def test_the_tools_that_a_user_used_last_come_before_others(
    theirs: Connection, start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    agent = await start(tools=0)
    for name in ("first", "second"):
        await announce(theirs, name)
    await announce(theirs, "used", words=LARGE)
    await heard(agent, 3)
    ollama.script(Reply(tool_calls=(("used", {}),)))
    await client.ask("Use it.", caller=RICHARD)
    for name in ("first", "second"):
        await announce(theirs, name, words=LARGE)
    await announce(theirs, "last")
    await heard(agent, 4)

    await client.ask(
        "And now?", caller=Caller(tenant="default", user="richard", agent="shell", session_id="s2")
    )
    assert offered(ollama) == ["first", "last", "used"]
    await client.ask(
        "And now?", caller=Caller(tenant="default", user="eve", agent="shell", session_id="s1")
    )
    assert offered(ollama) == ["first", "last", "second"]
