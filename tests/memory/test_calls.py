"""Tool calls in conversations: each result belongs to its call, however clients number them."""

import json
from typing import Any

import pytest

from calling import caller_named
from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.client.tools import call_tool
from local2.ledger.engines.sqlite.database import Database
from local2.memory.intake.conversations import Turn
from local2.memory.intake.intake import Result
from local2.memory.service import MemoryService
from local2.memory.tenant import Memories, Memory
from local2.protocol.memory_tools import INGEST
from local2.protocol.payloads import ToolCallRecord
from local2.tools.catalog import bind
from recalling import DAY, chat_message, recall
from stored import records, select


def calls(name: str, **fields: Any) -> Any:
    """Return an assistant's message with a tool call, whose id is the same in every message."""
    return chat_message(
        None, "assistant", tool_calls=[ToolCallRecord(name=name, id="call_0", **fields)]
    )


def answers(content: str, **fields: Any) -> Any:
    return chat_message(content, "tool", tool_call_id="call_0", **fields)


async def stored_outputs(database: Database) -> list[tuple[Any, ...]]:
    """Return label, content and reference of the stored tool outputs."""
    return await select(
        database,
        "SELECT label, content, source_ref FROM record WHERE kind = 'tool_output' ORDER BY row",
    )


async def test_a_reused_call_id_does_not_change_earlier_results(
    richard: MemoryService, database: Database
) -> None:
    first = [chat_message("Find osmium"), calls("search"), answers("A page.")]
    await richard.intake.store_conversation(first, "s1")

    longer = [*first, chat_message("Compute"), calls("calc", args={"x": 1}), answers("42")]
    grown = await richard.intake.store_conversation(longer, "s1")

    assert grown.added == 3
    assert await stored_outputs(database) == [
        ("search", "A page.", "call_0"),
        ("calc", "42", "call_0"),
    ]


async def test_a_call_id_reused_by_another_tool_hides_no_result(
    richard: MemoryService, database: Database
) -> None:
    await richard.intake.store_conversation(
        [calls("search"), answers("A page."), calls("recall"), answers("Echo.")]
    )

    assert [label for label, *_ in await stored_outputs(database)] == ["search", "recall"]


async def test_a_repeated_result_is_two_records_if_the_messages_have_ids(
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

    assert len(await stored_outputs(database)) == 2


async def test_a_result_in_both_its_call_and_a_message_is_one_record(
    richard: MemoryService, database: Database
) -> None:
    ingested = await richard.intake.store_conversation(
        [chat_message("Find"), calls("search", content="A page."), answers("A page.", id="m2")]
    )

    assert (len(ingested.ids), ingested.added) == (2, 2)
    assert len(await stored_outputs(database)) == 1


async def test_the_reference_of_a_tools_message_without_a_call_is_its_own_id(
    richard: MemoryService, database: Database
) -> None:
    await richard.intake.store_conversation(
        [chat_message("22 g", "tool", name="weigh", id="m7")], "s1"
    )

    assert await stored_outputs(database) == [("weigh", "22 g", "m7")]


async def test_turns_without_an_id_store_a_repeated_question_twice(
    richard: MemoryService, database: Database
) -> None:
    for answer in ("one", "two"):
        await richard.intake.store_turn(Turn(query="yes", answer=answer, at=DAY, session_id="s1"))

    assert [record["content"] for record in await records(database)].count("yes") == 2


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
    async with ToolHost(bus, bind(INGEST, Memories(memory))):
        result = await call_tool(
            bus, "ingest", {"messages": messages}, caller=caller_named("richard")
        )

    assert result.ok, result.content
    assert await stored_outputs(database) == [("weather", "Rain.", "c1")]
    assert await recall(memory.of(caller_named("richard")), "Bern", top_k=1) == [
        "And in Bern?\n[image]"
    ]


FORECASTS = [
    chat_message("And in Bern?"), calls("weather", args={"city": "Bern"}), answers("Sunny."),
    chat_message("And in Basel?"), calls("weather", args={"city": "Basel"}), answers("Sunny."),
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 6])
async def test_an_identical_output_for_other_arguments_is_another_result(
    richard: MemoryService, database: Database, size: int
) -> None:
    """The same holds for cumulative pieces, and however often the conversation is sent."""
    for end in [*range(size, len(FORECASTS), size), len(FORECASTS), len(FORECASTS)]:
        sent = await richard.intake.store_conversation(FORECASTS[:end], "s1")

    assert (sent.added, sent.known) == (0, 6)
    assert await cities(database) == ["Bern", "Basel"]


async def test_results_keep_the_ids_of_the_previous_release(richard: MemoryService) -> None:
    """The release before made these ids, and left out the second result."""
    sent = await richard.intake.store_conversation(FORECASTS, "s1")

    assert sent.ids[2] == "3209ffe389fd1e9519da3bc999d1cdfc"


@pytest.mark.parametrize("received_args", [{}, {"args": {"city": "Basel"}}])
async def test_received_results_are_matched_to_calls_by_their_arguments(
    richard: MemoryService, database: Database, received_args: dict[str, Any]
) -> None:
    """A received result may know its arguments; a conversation that reports both completes each."""
    for id_, fields in (("r0", received_args), ("r1", {})):
        call = ToolCallRecord(name="weather", id=id_, content="Sunny.", **fields)
        await richard.intake.store_result(Result(call=call, at=DAY, session_id="s1", query_id=None))
    for _ in range(2):
        await richard.intake.store_conversation(FORECASTS, "s1")

    assert sorted(await cities(database)) == ["Basel", "Bern"]


async def cities(database: Database) -> list[str]:
    """Return the cities in the arguments of calls with stored results, in their order."""
    found = [row for row in await records(database) if row["kind"] == "tool_output"]
    return [json.loads(row["metadata"])["args"]["city"] for row in found]
