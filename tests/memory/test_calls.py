"""Tool calls in conversations: each result with its own call, however clients number them."""

import json
from typing import Any

import pytest

from local.bus.connection import Connection
from local.bus.tool_host import ToolHost
from local.client.tools import call_tool
from local.ledger.sqlite.database import Database, SqlConnection
from local.memory.intake.conversations import Turn
from local.memory.intake.intake import Result
from local.memory.service import MemoryService
from local.memory.tenant import Memories, Memory
from local.protocol.envelope import Caller
from local.protocol.payloads import ToolCallRecord
from local.tools import sessions
from recalling import DAY, chat_message, recall
from turns import rows


@pytest.fixture
def richard(memory: Memory) -> MemoryService:
    return memory.of(Caller(tenant="default", user="richard", agent="shell"))


def calls(name: str, **fields: Any) -> Any:
    """An assistant's message that calls a tool by an id that every reply begins with."""
    return chat_message(
        None, "assistant", tool_calls=[ToolCallRecord(name=name, id="call_0", **fields)]
    )


def answers(content: str, **fields: Any) -> Any:
    return chat_message(content, "tool", tool_call_id="call_0", **fields)


async def kept(database: Database) -> list[tuple[Any, ...]]:
    """Label, content and reference of the tool outputs."""

    def read(connection: SqlConnection) -> list[tuple[Any, ...]]:
        found = connection.execute(
            "SELECT label, content, source_ref FROM record WHERE kind = 'tool_output' ORDER BY row"
        )
        return [tuple(row) for row in found]

    return await database.read(read)


async def test_a_call_id_used_again_changes_nothing_of_what_was_told_before(
    richard: MemoryService, database: Database
) -> None:
    first = [chat_message("Find osmium"), calls("search"), answers("A page.")]
    await richard.intake.store_conversation(first, "s1")

    longer = [*first, chat_message("Compute"), calls("calc", args={"x": 1}), answers("42")]
    grown = await richard.intake.store_conversation(longer, "s1")

    assert grown.added == 3
    assert await kept(database) == [("search", "A page.", "call_0"), ("calc", "42", "call_0")]


async def test_a_call_id_used_again_by_another_tool_hides_no_result(
    richard: MemoryService, database: Database
) -> None:
    await richard.intake.store_conversation(
        [calls("search"), answers("A page."), calls("recall"), answers("Echo.")]
    )

    assert [label for label, *_ in await kept(database)] == ["search", "recall"]


async def test_the_same_result_twice_is_two_records_where_messages_have_ids(
    richard: MemoryService, database: Database
) -> None:
    await richard.intake.store_conversation(
        [
            calls("search"),
            answers("Nothing.", id="m1"),
            calls("search"),
            answers("Nothing.", id="m2"),
        ]
    )

    assert len(await kept(database)) == 2


async def test_a_result_told_by_its_call_and_by_a_message_is_one_record(
    richard: MemoryService, database: Database
) -> None:
    told = await richard.intake.store_conversation(
        [chat_message("Find"), calls("search", content="A page."), answers("A page.", id="m2")]
    )

    assert (len(told.ids), told.added) == (2, 2)
    assert len(await kept(database)) == 1


async def test_the_reference_of_a_tools_message_without_a_call_is_its_own_id(
    richard: MemoryService, database: Database
) -> None:
    await richard.intake.store_conversation(
        [chat_message("22 g", "tool", name="weigh", id="m7")], "s1"
    )

    assert await kept(database) == [("weigh", "22 g", "m7")]


async def test_turns_without_an_id_keep_a_question_asked_again(
    richard: MemoryService, database: Database
) -> None:
    for answer in ("one", "two"):
        await richard.intake.store_turn(Turn(query="yes", answer=answer, at=DAY, session_id="s1"))

    def read(connection: SqlConnection) -> int:
        asked = connection.execute("SELECT count(*) FROM record WHERE content = 'yes'")
        return int(asked.fetchone()[0])

    assert await database.read(read) == 2


async def test_a_rating_of_another_users_query_counts_for_nothing(memory: Memory) -> None:
    ann, eve = (
        memory.of(Caller(tenant="default", user="ann")),
        memory.of(Caller(tenant="default", user="eve")),
    )
    await ann.intake.store_turn(Turn(query="Osmium?", answer="22.59", at=DAY, query_id="q1"))
    await eve.intake.store_rating("q1", -1.0)

    (hit,) = (await ann.search_episodic("Osmium")).hits

    assert not hit.metadata.get("score")


async def test_a_conversation_in_openais_form_is_ingested(
    bus: Connection, memory: Memory, database: Database
) -> None:
    function = {"name": "weather", "arguments": '{"town": "Bern"}'}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "And in Bern?"}, {"type": "image"}]},
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "Rain."},
    ]
    async with ToolHost(bus, sessions.INGEST.bind(Memories(memory))):
        result = await call_tool(
            bus, "ingest", {"messages": messages}, caller=Caller(tenant="default", user="richard")
        )

    assert result.ok, result.content
    assert await kept(database) == [("weather", "Rain.", "c1")]
    assert await recall(memory.of(Caller(tenant="default", user="richard")), "Bern", top_k=1) == [
        "And in Bern?\n[image]"
    ]


async def test_a_tool_call_without_a_name_is_refused_with_an_example(
    bus: Connection, memory: Memory
) -> None:
    messages = [{"role": "assistant", "tool_calls": [{"id": "c1"}]}]
    async with ToolHost(bus, sessions.INGEST.bind(Memories(memory))):
        result = await call_tool(
            bus, "ingest", {"messages": messages}, caller=Caller(tenant="default", user="r")
        )

    assert result.error is not None
    assert "messages[0].tool_calls" in result.error.message


FORECASTS = [
    chat_message("And in Bern?"), calls("weather", args={"city": "Bern"}), answers("Sunny."),
    chat_message("And in Basel?"), calls("weather", args={"city": "Basel"}), answers("Sunny."),
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 6])
async def test_the_same_output_of_one_call_id_to_other_arguments_is_another_result(
    richard: MemoryService, database: Database, size: int
) -> None:
    """Also in pieces, of which the last are the whole up to there, and however often it is sent."""
    for end in [*range(size, len(FORECASTS), size), len(FORECASTS), len(FORECASTS)]:
        sent = await richard.intake.store_conversation(FORECASTS[:end], "s1")

    assert (sent.added, sent.known) == (0, 6)
    assert await cities(database) == ["Bern", "Basel"]


async def test_results_that_were_stored_before_keep_their_ids(richard: MemoryService) -> None:
    """As the release before made them, which left out the second."""
    sent = await richard.intake.store_conversation(FORECASTS, "s1")

    assert sent.ids[2] == "3209ffe389fd1e9519da3bc999d1cdfc"


@pytest.mark.parametrize("heard_args", [{}, {"args": {"city": "Basel"}}])
async def test_results_that_were_heard_are_those_of_the_calls_with_their_arguments(
    richard: MemoryService, database: Database, heard_args: dict[str, Any]
) -> None:
    """One that was heard may know its arguments; what reports both completes each."""
    for id_, fields in (("r0", heard_args), ("r1", {})):
        call = ToolCallRecord(name="weather", id=id_, content="Sunny.", **fields)
        await richard.intake.store_result(Result(call=call, at=DAY, session_id="s1", query_id=None))
    for _ in range(2):
        await richard.intake.store_conversation(FORECASTS, "s1")

    assert sorted(await cities(database)) == ["Basel", "Bern"]


async def cities(database: Database) -> list[str]:
    """What the calls asked for whose results are stored, in their order."""
    found = [row for row in await rows(database) if row["kind"] == "tool_output"]
    return [json.loads(row["metadata"])["args"]["city"] for row in found]
