"""No way in which memories reach a model unasked shows what their owner has denied or ended.

Where the old words are shown as what they are, a message, what was said later stands beside them.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from calling import caller_named
from local2.bus.connection import Connection
from local2.client.tools import call_tool
from local2.generator.prompt import PromptWriter
from local2.generator.session import GeneratorSession, SessionEvents
from local2.home import running_url
from local2.hooks.context import ContextReader
from local2.hooks.state import Session, Situation
from local2.protocol.envelope import Sender
from local2.settings import BusSettings, GeneratorSettings, McpSettings, Settings
from local2.stack.app import Stack, open_stack
from mcp_clients import client_of
from stacks import in_step, settings_in
from waiting import eventually

USER = "richard"
SHELL = caller_named(USER, agent="shell", session_id="earlier")
NOW = caller_named(USER, agent="shell", session_id="now")
ROBOT = caller_named(USER, agent="robot", session_id="other")
OLD, NEW = "Northwind", "Bluebird"

Act = Callable[[Connection], Awaitable[None]]


async def call(bus: Connection, tool: str, caller: Sender = SHELL, **args: Any) -> Any:
    result = await call_tool(bus, tool, args, caller=caller)
    assert result.ok, result.content
    return result.data


async def say(bus: Connection, content: str, caller: Sender = SHELL) -> None:
    await call(bus, "ingest", caller, messages=[{"role": "user", "content": content}])


async def standing(bus: Connection, caller: Sender = NOW) -> str:
    return json.dumps(await call(bus, "top_memories", caller))


async def say_and_take_back(bus: Connection) -> None:
    await say(bus, f"I work at {OLD}.")
    await eventually(lambda: _stands(bus, OLD))
    await say(bus, f"I no longer work at {OLD}.")


async def save_and_take_back(bus: Connection) -> None:
    await call(bus, "save_topic", topic="user.employer", content=OLD)
    await say(bus, f"I no longer work at {OLD}.")


async def say_and_change(bus: Connection) -> None:
    await say(bus, f"I work at {OLD}.")
    await eventually(lambda: _stands(bus, OLD))
    await say(bus, f"I work at {NEW} now.")


async def save_and_change(bus: Connection) -> None:
    await call(bus, "save_topic", topic="user.employer", content=OLD)
    await call(bus, "save_topic", topic="user.employer", content=NEW)


async def retire(bus: Connection) -> None:
    fact = await call(bus, "remember_fact", content=f"Works at {OLD}.", importance=0.9)
    await call(bus, "retire_fact", ids=[fact["id"]], reason="It has closed.")


async def replace_by_id(bus: Connection) -> None:
    fact = await call(bus, "remember_fact", content=f"Works at {OLD}.", importance=0.9)
    new, replaces = f"Works at {NEW}.", [fact["id"]]
    await call(bus, "remember_fact", content=new, importance=0.9, replaces=replaces)


async def relate_and_end_the_newer(bus: Connection) -> None:
    old = await call(bus, "remember_fact", content=f"Works at {OLD}.", importance=0.9)
    new = await call(bus, "remember_fact", content=f"Earns money at {NEW}.", importance=0.9)
    await call(bus, "relate", source=new["id"], type="supersedes", target=old["id"])
    await call(bus, "retire_fact", ids=[new["id"]], reason="It has closed.")


async def retire_for_everybody(bus: Connection) -> None:
    """What is said of a project belongs to everybody, and also to the agent that heard it."""
    await say(bus, f"Our project is called {OLD}.")
    await eventually(lambda: _stands(bus, OLD))
    fact = await call(bus, "recall_topic", topic="project.name")
    await call(bus, "retire_fact", ids=[fact["id"]], reason="It was given up.")


async def change_for_everybody_through_another_agent(bus: Connection) -> None:
    await say(bus, f"Our project is called {OLD}.")
    await eventually(lambda: _stands(bus, OLD))
    await call(bus, "save_topic", ROBOT, topic="project.name", content=NEW)


WAYS: tuple[Act, ...] = (
    say_and_take_back,
    save_and_take_back,
    say_and_change,
    save_and_change,
    retire,
    replace_by_id,
    relate_and_end_the_newer,
    retire_for_everybody,
    change_for_everybody_through_another_agent,
)


async def _stands(bus: Connection, word: str) -> bool:
    return word in await standing(bus)


@pytest.fixture
async def stack(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stack]:
    request.getfixturevalue("worker_here")
    async with open_stack(settings_in(tmp_path), with_generator=False) as running:
        yield running


async def shown_unasked(bus: Connection, folder: Path) -> dict[str, str]:
    """Return what a model is shown of standing memory, by the way in which it is shown."""
    url = running_url(settings_in(folder))
    reader = ContextReader(Situation.of(folder, USER), "shell", "now")
    events = SessionEvents(bus)
    session = GeneratorSession(bus, GeneratorSettings(), NOW, events.sink_for(NOW))
    background = await session.begin_turn("Hello", "q1")
    writer = PromptWriter(
        system_prompt="", background=background, count=session.count, room=8_000, tail=2
    )
    shown = {
        "top_memories": (await call_tool(bus, "top_memories", {}, caller=NOW)).content,
        "its data": await standing(bus),
        "load_session": (await call_tool(bus, "load_session", {}, caller=NOW)).content,
        "its data too": json.dumps(await call(bus, "load_session", NOW)),
        "a hook": await asyncio.to_thread(reader.read, Session(), None, within=60) or "",
        "the generator": writer.write([]).messages[0].content,
    }
    settings = Settings(bus=BusSettings(url=url), mcp=McpSettings(user=USER))
    async with client_of(settings, name="shell") as client:
        (message,) = (await client.get_prompt("start_session")).messages
        shown["a prompt of MCP"] = message.model_dump_json()
        resources = (await client.list_resources()).resources
        shown["MCP's resources"] = json.dumps([str(each.uri) for each in resources])
        for each in resources:
            shown[str(each.uri)] = (await client.read_resource(each.uri)).model_dump_json()
        shown["a session of MCP"] = (
            await client.read_resource("memory://sessions/now")
        ).model_dump_json()
    return shown


@pytest.mark.parametrize("act", WAYS, ids=lambda act: act.__name__)
async def test_what_has_ended_is_shown_nowhere(stack: Stack, tmp_path: Path, act: Act) -> None:
    await act(stack.bus)

    await eventually(lambda: standing(stack.bus), lambda found: OLD not in found)
    shown = await shown_unasked(stack.bus, tmp_path)

    assert [way for way, text in shown.items() if OLD in text] == []


async def test_what_is_stated_again_is_shown_again(stack: Stack) -> None:
    await save_and_take_back(stack.bus)

    await eventually(lambda: _stands(stack.bus, OLD), lambda found: not found)
    await call(stack.bus, "save_topic", topic="user.employer", content=OLD)

    assert await _stands(stack.bus, OLD)


@pytest.mark.parametrize("act", [say_and_take_back, save_and_take_back, relate_and_end_the_newer])
async def test_what_a_prompt_recalls_stands_with_what_was_said_later(
    stack: Stack, tmp_path: Path, act: Act
) -> None:
    await act(stack.bus)
    await in_step(stack.bus)
    reader = ContextReader(Situation.of(tmp_path, USER), "shell", "now")

    context = await asyncio.to_thread(
        reader.read, Session(reminded=True), "Where do I work?", within=60
    )

    lines = [line for line in (context or "").splitlines() if OLD in line]
    assert [line for line in lines if "no longer" not in line] == []
