"""Which tools a model is offered: the memory's own whatever else is announced, others by use."""

import json

import pytest

from factories import StartGenerator
from local.bus.connection import Connection
from local.client.queries import QueryClient
from local.generator.agent import GeneratorAgent
from local.protocol.announcement import OWN_TOOLS
from local.protocol.caller import Caller
from local.settings import GeneratorSettings
from stand_ins.ollama_server import OllamaStandIn, Reply
from waiting import eventually

RICHARD = Caller(user="richard", agent="shell", session_id="s1")
OFFERED = OWN_TOOLS - set(GeneratorSettings().hidden_tools)
LARGE = 2_000
"""Words of a description of which two fit the room for tools, and three do not."""


async def announce(
    bus: Connection, name: str, *, words: int = 1, whole: bool = False, source: str = "theirs"
) -> None:
    function = {"name": name, "description": "word " * words, "parameters": {"type": "object"}}
    tool = {"schema": {"type": "function", "function": function}, "whole": whole}
    await bus.publish("tool.schema", json.dumps({"source": source, "payload": tool}).encode())


def offered(ollama: OllamaStandIn) -> list[str]:
    """What the model was offered last."""
    return [tool["function"]["name"] for tool in ollama.bodies("/api/chat")[-1]["tools"]]


async def heard(agent: GeneratorAgent, count: int) -> None:
    await eventually(lambda: len(agent._toolbox.schemas) == count)


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("whole", [False, True])
async def test_the_memorys_tools_are_offered_however_many_others_are_announced(
    bus: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    whole: bool,
) -> None:
    agent = await start()
    for number in range(300):
        await announce(bus, f"a{number}", whole=whole)
    await heard(agent, len(OWN_TOOLS) + 300)

    await client.ask("Hello?", caller=RICHARD)

    assert set(offered(ollama)) >= OFFERED
    assert len(offered(ollama)) < 300


@pytest.mark.usefixtures("tools")
async def test_a_tool_of_others_with_the_memorys_name_takes_nothing_from_it(
    bus: Connection, start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    agent = await start()
    await announce(bus, "save_topic")
    await announce(bus, "last")
    await heard(agent, len(OWN_TOOLS) + 1)

    await client.ask("Hello?", caller=RICHARD)

    (ours,) = [
        tool["function"]
        for tool in ollama.bodies("/api/chat")[-1]["tools"]
        if tool["function"]["name"] == "save_topic"
    ]
    assert ours["description"].startswith("Save a preference")


@pytest.mark.usefixtures("tools")
async def test_one_that_claims_to_be_the_memorys_displaces_itself_at_most(
    bus: Connection, start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    agent = await start()
    await announce(bus, "save_topic", words=20_000, whole=True)
    await announce(bus, "last")
    await heard(agent, len(OWN_TOOLS) + 1)

    await client.ask("Hello?", caller=RICHARD)

    assert set(offered(ollama)) == (OFFERED | {"last"}) - {"save_topic"}


async def test_the_tools_that_a_user_used_last_come_before_others(
    bus: Connection, start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    agent = await start(tools=0)
    for name in ("first", "second"):
        await announce(bus, name)
    await announce(bus, "used", words=LARGE)
    await heard(agent, 3)
    ollama.script(Reply(tool_calls=(("used", {}),)))
    await client.ask("Use it.", caller=RICHARD)
    for name in ("first", "second"):
        await announce(bus, name, words=LARGE)
    await announce(bus, "last")
    await heard(agent, 4)

    await client.ask("And now?", caller=Caller(user="richard", agent="shell", session_id="s2"))
    assert offered(ollama) == ["first", "last", "used"]
    await client.ask("And now?", caller=Caller(user="eve", agent="shell", session_id="s1"))
    assert offered(ollama) == ["first", "last", "second"]
