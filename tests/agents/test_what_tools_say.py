"""A tool says itself whether its results come from the memory, and whether they are recorded."""

import json
from typing import Any

import pytest

from calling import RICHARD
from factories import ConnectBus, StartGenerator
from local.agents.services import OutputKeeper
from local.bus.connection import BusMessage, Connection
from local.bus.streams import publish_durably
from local.bus.tool_host import ToolHost
from local.client.queries import QueryClient
from local.client.tools import Toolbox, call_tool
from local.ledger.sqlite.database import Database
from local.memory.service import MemoryService
from local.memory.tenant import Memories, Memory
from local.protocol.conversation import ConversationMessage
from local.protocol.payloads import ToolCallRecord
from local.protocol.tool import ToolOutput
from local.tools import sessions
from local.tools.base import READS, Args, MemoryTool
from local.tools.catalog import TOOLS, memory_tools
from recalling import recall
from stand_ins.ollama_server import OllamaStandIn, Reply
from turns import GENERATION, all_done, rows, turn
from waiting import eventually

FORECAST = "A forecast of 21 degrees for Basel."
LONG = FORECAST * 1_000
KINDS = ("tool_output", "chat_message", "document", "fact")


pytestmark = pytest.mark.usefixtures("listener", "memory_agent")


class Theirs:
    """Tools of another team, which know the bus from its description only."""

    def __init__(self, bus: Connection, heard: Toolbox) -> None:
        self._bus = bus
        self._heard = heard

    async def announce(self, name: str, **says: bool) -> None:
        """Tell of a tool, and wait until the memory has heard of it."""
        await self._bus.publish("tool.schema", json.dumps({"name": name, **says}).encode())
        await eventually(lambda: self._heard.get(name) is not None)

    async def serve(self, name: str, content: str, **says: bool) -> None:
        async def answer(message: BusMessage) -> None:
            request = json.loads(message.data)
            result = {
                **{key: request[key] for key in ("user", "session_id", "query_id")},
                "correlation_id": request["id"],
                "payload": {"content": content},
            }
            await self._bus.publish(f"tool.result.{name}", json.dumps(result).encode())

        await self._bus.subscribe(f"tool.request.{name}", answer)
        await self._bus.flush()
        await self.announce(name, **says)

    async def answer(self, name: str, content: str) -> None:
        result = {"user": "richard", "session_id": "s1", "payload": {"content": content}}
        await self._bus.publish(f"tool.result.{name}", json.dumps(result).encode())


@pytest.fixture
async def theirs(connect_bus: ConnectBus, toolbox: Toolbox) -> Theirs:
    return Theirs(await connect_bus(), toolbox)


async def results(database: Database) -> list[tuple[str, str]]:
    kept = [row for row in await rows(database) if row["role"] == "tool"]
    return [(row["label"], row["content"]) for row in kept]


async def has(database: Database, *expected: tuple[str, str]) -> bool:
    return await results(database) == list(expected)


@pytest.mark.parametrize("name", [tool.name for tool in TOOLS])
def test_every_tool_of_the_catalog_says_that_it_answers_from_the_memory_and_is_not_recorded(
    memory: Memory, name: str
) -> None:
    (schema,) = [tool.schema() for tool in memory_tools(Memories(memory)) if tool.name == name]

    assert (schema.reads_memory, schema.recorded, schema.whole) == (True, False, True)
    assert name in memory.tools.own


def test_tools_for_programs_say_so() -> None:
    for_programs = {tool.name for tool in TOOLS if not tool.for_models}
    assert for_programs == {
        "ingest",
        "add_document",
        "read_document",
        "add_knowledge",
        "load_session",
        "relate",
        "relations",
        "top_memories",
        "forget",
        "consolidate",
        "undo",
        "audit",
    }


class Nothing(Args, frozen=True):
    pass


async def _count(memory: MemoryService, args: Nothing) -> ToolOutput:
    return ToolOutput(content=f"{memory.caller.user} has 3 notes on gold.", data=args)


async def test_a_new_tool_of_the_memory_that_says_nothing_else_brings_no_echoes(
    bus: Connection,
    theirs: Theirs,
    memory: Memory,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither when it answers, nor when a turn reports it, nor where it answered nothing."""
    new = MemoryTool(
        name="count_notes",
        title="Count",
        description="Count.",
        annotations=READS,
        args=Nothing,
        function=_count,
    )
    monkeypatch.setattr(memory.tools, "own", memory.tools.own | {new.name})
    async with ToolHost(bus, new.bind(Memories(memory))):
        counted = await call_tool(bus, "count_notes", {}, caller=RICHARD)
        await theirs.answer("weigh", "19.3 g")
        await eventually(lambda: has(database, ("weigh", "19.3 g")))
        calls = [{"name": "count_notes", "content": content} for content in (counted.content, "")]
        await publish_durably(bus, GENERATION, turn(tool_calls=calls))
        await all_done(bus)

    assert counted.ok
    assert await results(database) == [("weigh", "19.3 g")]
    assert [row["kind"] for row in await rows(database)] == [
        "tool_output", "episode", "chat_message", "chat_message",
    ]  # fmt: skip


async def test_of_a_tool_that_is_not_recorded_nothing_is_recalled_and_of_one_that_says_nothing_all(
    theirs: Theirs, memory: Memory, database: Database
) -> None:
    await theirs.announce("forecast", recorded=False)
    await theirs.announce("weather")

    await theirs.answer("forecast", FORECAST)
    await theirs.answer("weather", "21 degrees in Basel.")
    await eventually(lambda: has(database, ("weather", "21 degrees in Basel.")))

    assert await recall(memory.of(RICHARD), "degrees Basel", kinds=KINDS) == [
        "21 degrees in Basel."
    ]


async def test_a_turn_keeps_the_call_of_a_tool_that_is_not_recorded_without_its_result(
    bus: Connection, theirs: Theirs, memory: Memory, database: Database
) -> None:
    """By what the tool announced, in whatever form an agent reports it; or by what a call says."""
    await theirs.announce("forecast", recorded=False)
    made: list[dict[str, Any]] = [
        {"name": "forecast", "id": "c1", "args": {"city": "Basel"}, "content": FORECAST},
        {"tool": "forecast", "id": "c2", "result": FORECAST},
        {"name": "unheard", "id": "c3", "content": FORECAST, "recorded": False},
        {"tool": "unheard", "id": "c4", "result": FORECAST, "recorded": False},
        {"name": "weather", "id": "c5", "content": "21 degrees in Basel."},
    ]
    for _ in range(2):
        await publish_durably(bus, GENERATION, turn(tool_calls=made))
        await all_done(bus)

    assert await results(database) == [("weather", "21 degrees in Basel.")]
    (asking,) = [row for row in await rows(database) if row["kind"] == "transcript"]
    assert json.loads(asking["metadata"])["tool_calls"] == [
        {"id": "c1", "name": "forecast", "args": {"city": "Basel"}},
        {"id": "c2", "name": "forecast", "args": {}},
        {"id": "c3", "name": "unheard", "args": {}},
        {"id": "c4", "name": "unheard", "args": {}},
    ]
    assert await recall(memory.of(RICHARD), "forecast", kinds=KINDS) == []


@pytest.mark.parametrize("heard", [True, False])
async def test_a_conversation_that_is_ingested_says_which_results_are_left_out(
    theirs: Theirs, memory: Memory, database: Database, heard: bool
) -> None:
    if heard:
        await theirs.announce("forecast", recorded=False)
    call = ToolCallRecord(id="c1", name="forecast", recorded=heard)
    asking = ConversationMessage(role="assistant", tool_calls=[call])
    answering = ConversationMessage(role="tool", tool_call_id="c1", content=FORECAST)

    ingested = await memory.of(RICHARD).intake.store_conversation([asking, answering])

    (skipped,) = ingested.skipped
    assert (skipped.index, skipped.reason) == (1, "not to be recorded, as its tool says")
    assert await results(database) == []


@pytest.mark.parametrize("recorded", [True, False])
async def test_the_generator_says_of_each_call_whether_it_is_recorded_and_tells_its_model_all(
    *,
    bus: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    theirs: Theirs,
    memory: Memory,
    database: Database,
    recorded: bool,
) -> None:
    agent = await start(tools=0, tool_output_limit=len(LONG), context_size=200_000)
    await theirs.serve("forecast", LONG, recorded=recorded)
    await eventually(lambda: len(agent._toolbox.schemas) == 1)
    ollama.script(Reply(tool_calls=(("forecast", {}),)), Reply(content="Warm."))

    async with OutputKeeper(bus, Memories(memory)):
        generation = await client.ask("How warm is it?", caller=RICHARD, timeout=20)
        await all_done(bus)

    assert ollama.bodies("/api/chat")[-1]["messages"][-1]["content"] == LONG
    (call,) = generation.tool_calls
    assert (call.name, call.recorded) == ("forecast", recorded)
    assert (call.tool_output_key is not None) == recorded
    assert [label for label, _ in await results(database)] == ["forecast"] * recorded


async def test_a_tool_of_others_under_the_name_of_an_own_one_is_recorded_whatever_ours_says(
    bus: Connection, theirs: Theirs, memory: Memory, toolbox: Toolbox, database: Database
) -> None:
    async with ToolHost(bus, sessions.NOTE.bind(Memories(memory))):
        await eventually(lambda: toolbox.get("note") is not None)
        await theirs.answer("note", "A note by somebody else.")
        await eventually(lambda: has(database, ("note", "A note by somebody else.")))


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("reads_memory", "adds"), [(True, []), (False, ["briefli", "brown", "favour", "summaris"])]
)
async def test_what_another_tool_has_from_the_memory_is_no_news_of_an_answer(
    bus: Connection, theirs: Theirs, database: Database, reads_memory: bool, adds: list[str]
) -> None:
    await theirs.announce("briefing", reads_memory=reads_memory, recorded=False)
    saved = await call_tool(
        bus, "save_topic", {"topic": "user.dog", "content": "Rex, a terrier"}, caller=RICHARD
    )
    await call_tool(bus, "recall", {"query": "terrier"}, caller=RICHARD)
    told = "Summarised briefly: favoured is Rex, a brown terrier."

    calls = [{"name": "briefing", "content": told}]
    await publish_durably(
        bus, GENERATION, turn(query="What dog do I have?", answer=told, tool_calls=calls)
    )
    await all_done(bus)

    (answer,) = [row for row in await rows(database) if row["source_ref"] == "q1:agent"]
    assert saved.ok
    assert json.loads(answer["metadata"]).get("adds", []) == adds
