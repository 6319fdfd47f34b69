"""Tools announce whether their results come from the memory, and whether to record them."""

import json
from typing import Any

import pytest

from calling import RICHARD
from factories import ConnectBus, StartGenerator
from local2.bus.connection import BusMessage, Connection
from local2.bus.streams import publish_durably
from local2.bus.tool_host import ToolHost
from local2.client.queries import QueryClient
from local2.client.tools import Toolbox, call_tool
from local2.ledger.engines.sqlite.database import Database
from local2.memory.service import MemoryService
from local2.memory.tenant import Memories, Memory
from local2.protocol.conversation import ConversationMessage
from local2.protocol.memory_tools import NOTE, READS, TOOL_NAMES, Arguments, MemoryTool
from local2.protocol.payloads import ToolCallRecord
from local2.protocol.tool import ToolOutput
from local2.tools.base import answers
from local2.tools.catalog import bind, memory_tools
from recalling import recall
from serving import service_host
from stand_ins.ollama_server import OllamaStandIn, Reply
from stored import records
from turns import GENERATION, all_done, turn
from waiting import eventually

FORECAST = "A forecast of 21 degrees for Basel."
LONG = FORECAST * 1_000
KINDS = ("tool_output", "chat_message", "document", "fact")


pytestmark = pytest.mark.usefixtures("listener", "memory_agent")


class ForeignTools:
    """Another team's tools, which know the bus only from its documentation."""

    def __init__(self, bus: Connection, toolbox: Toolbox) -> None:
        self._bus = bus
        self._toolbox = toolbox

    async def announce(self, name: str, **attributes: bool) -> None:
        """Announce a tool, and wait until the memory knows it."""
        await self._bus.publish("tool.schema", json.dumps({"name": name, **attributes}).encode())
        await eventually(lambda: self._toolbox.get(name) is not None)

    async def serve(self, name: str, content: str, **attributes: bool) -> None:
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
        await self.announce(name, **attributes)

    async def answer(self, name: str, content: str) -> None:
        result = {"user": "richard", "session_id": "s1", "payload": {"content": content}}
        await self._bus.publish(f"tool.result.{name}", json.dumps(result).encode())


@pytest.fixture
async def theirs(connect_bus: ConnectBus, toolbox: Toolbox) -> ForeignTools:
    return ForeignTools(await connect_bus(), toolbox)


async def results(database: Database) -> list[tuple[str, str]]:
    """Return the tool and the content of each result, without parts of long ones."""
    rows = [row for row in await records(database) if row["kind"] != "output_part"]
    tool_rows = [row for row in rows if row["role"] == "tool"]
    return [(row["label"], row["content"]) for row in tool_rows]


async def has(database: Database, *expected: tuple[str, str]) -> bool:
    return await results(database) == list(expected)


def test_every_tool_of_the_catalogue_reads_the_memory_and_is_not_recorded(memory: Memory) -> None:
    schemas = [tool.schema() for tool in memory_tools(Memories(memory))]

    assert {(one.reads_memory, one.recorded, one.whole) for one in schemas} == {(True, False, True)}
    assert {one.name for one in schemas} == set(TOOL_NAMES) <= memory.tools.own


class NoArgs(Arguments, frozen=True):
    pass


COUNT_NOTES = MemoryTool(
    name="count_notes",
    title="Count",
    description="Count.",
    annotations=READS,
    args=NoArgs,
    answer=NoArgs,
    role="reader",
)


@answers(COUNT_NOTES)
async def count_notes(memory: MemoryService, args: NoArgs) -> ToolOutput:
    return ToolOutput(content=f"{memory.caller.user} has 3 notes on gold.", data=args)


async def test_a_new_memory_tool_causes_no_echoes_by_default(
    bus: Connection,
    theirs: ForeignTools,
    memory: Memory,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its results are not stored when it answers or when a turn reports them, even blank ones."""
    monkeypatch.setattr(memory.tools, "own", memory.tools.own | {COUNT_NOTES.name})
    async with ToolHost(bus, bind(COUNT_NOTES, Memories(memory))):
        counted = await call_tool(bus, "count_notes", {}, caller=RICHARD)
        await theirs.answer("weigh", "19.3 g")
        await eventually(lambda: has(database, ("weigh", "19.3 g")))
        calls = [{"name": "count_notes", "content": content} for content in (counted.content, "")]
        await publish_durably(bus, GENERATION, turn(tool_calls=calls))
        await all_done(bus)

    assert counted.ok
    assert await results(database) == [("weigh", "19.3 g")]
    assert [row["kind"] for row in await records(database)] == [
        "tool_output", "episode", "chat_message", "chat_message",
    ]  # fmt: skip


async def test_results_are_recalled_unless_their_tool_announces_otherwise(
    theirs: ForeignTools, memory: Memory, database: Database
) -> None:
    await theirs.announce("forecast", recorded=False)
    await theirs.announce("weather")

    await theirs.answer("forecast", FORECAST)
    await theirs.answer("weather", "21 degrees in Basel.")
    await eventually(lambda: has(database, ("weather", "21 degrees in Basel.")))

    assert await recall(memory.of(RICHARD), "degrees Basel", kinds=KINDS) == [
        "21 degrees in Basel."
    ]


async def test_the_call_of_an_unrecorded_tool_is_stored_without_its_result(
    bus: Connection, theirs: ForeignTools, memory: Memory, database: Database
) -> None:
    """The tool's announcement or the reported call says so, in whatever form it is reported."""
    await theirs.announce("forecast", recorded=False)
    calls: list[dict[str, Any]] = [
        {"name": "forecast", "id": "c1", "args": {"city": "Basel"}, "content": FORECAST},
        {"tool": "forecast", "id": "c2", "result": FORECAST},
        {"name": "unheard", "id": "c3", "content": FORECAST, "recorded": False},
        {"tool": "unheard", "id": "c4", "result": FORECAST, "recorded": False},
        {"name": "weather", "id": "c5", "content": "21 degrees in Basel."},
    ]
    for _ in range(2):
        await publish_durably(bus, GENERATION, turn(tool_calls=calls))
        await all_done(bus)

    assert await results(database) == [("weather", "21 degrees in Basel.")]
    (call_row,) = [row for row in await records(database) if row["kind"] == "transcript"]
    assert json.loads(call_row["metadata"])["tool_calls"] == [
        {"id": "c1", "name": "forecast", "args": {"city": "Basel"}},
        {"id": "c2", "name": "forecast", "args": {}},
        {"id": "c3", "name": "unheard", "args": {}},
        {"id": "c4", "name": "unheard", "args": {}},
    ]
    assert await recall(memory.of(RICHARD), "forecast", kinds=KINDS) == []


@pytest.mark.parametrize("is_announced", [True, False])
async def test_ingesting_a_conversation_reports_the_results_left_out(
    theirs: ForeignTools, memory: Memory, database: Database, is_announced: bool
) -> None:
    if is_announced:
        await theirs.announce("forecast", recorded=False)
    call = ToolCallRecord(id="c1", name="forecast", recorded=is_announced)
    call_row = ConversationMessage(role="assistant", tool_calls=[call])
    result = ConversationMessage(role="tool", tool_call_id="c1", content=FORECAST)

    ingested = await memory.of(RICHARD).intake.store_conversation([call_row, result])

    (skipped,) = ingested.skipped
    assert (skipped.index, skipped.reason) == (1, "not to be recorded, as its tool says")
    assert await results(database) == []


@pytest.mark.parametrize("recorded", [True, False])
async def test_the_generator_marks_unrecorded_calls_and_gives_its_model_every_result(
    *,
    bus: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    theirs: ForeignTools,
    memory: Memory,
    database: Database,
    recorded: bool,
) -> None:
    agent = await start(tools=0, tool_output_limit=len(LONG), context_size=200_000)
    await theirs.serve("forecast", LONG, recorded=recorded)
    await eventually(lambda: len(agent._toolbox.schemas) == 1)
    ollama.script(Reply(tool_calls=(("forecast", {}),)), Reply(content="Warm."))

    async with service_host("output_keeper", bus, Memories(memory)):
        generation = await client.ask("How warm is it?", caller=RICHARD, timeout=20)
        await all_done(bus)

    assert ollama.bodies("/api/chat")[-1]["messages"][-1]["content"] == LONG
    (call,) = generation.tool_calls
    assert (call.name, call.recorded) == ("forecast", recorded)
    assert (call.tool_output_key is not None) == recorded
    assert [label for label, _ in await results(database)] == ["forecast"] * recorded


async def test_a_foreign_tool_with_the_name_of_a_memory_tool_is_recorded(
    bus: Connection, theirs: ForeignTools, memory: Memory, toolbox: Toolbox, database: Database
) -> None:
    async with ToolHost(bus, bind(NOTE, Memories(memory))):
        await eventually(lambda: toolbox.get("note") is not None)
        await theirs.answer("note", "A note by somebody else.")
        await eventually(lambda: has(database, ("note", "A note by somebody else.")))


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("reads_memory", [True, False])
async def test_an_answer_is_from_memory_whichever_tool_read_it(
    bus: Connection, theirs: ForeignTools, database: Database, *, reads_memory: bool
) -> None:
    await theirs.announce("briefing", reads_memory=reads_memory, recorded=False)
    saved = await call_tool(
        bus, "save_topic", {"topic": "user.dog", "content": "Rex, a terrier"}, caller=RICHARD
    )
    await call_tool(bus, "recall", {"query": "terrier"}, caller=RICHARD)
    summary = "Summarised briefly: favoured is Rex, a brown terrier."

    calls = [{"name": "briefing", "content": summary}]
    await publish_durably(
        bus, GENERATION, turn(query="What dog do I have?", answer=summary, tool_calls=calls)
    )
    await all_done(bus)

    (answer,) = [row for row in await records(database) if row["source_ref"] == "q1:agent"]
    assert saved.ok
    assert json.loads(answer["metadata"])["recalled"] is True
