"""A turn is stored as an episode, its messages and its tool results, without echoes."""

import json
from typing import Any

import pytest

from calling import caller_named
from local2.bus.connection import Connection
from local2.bus.streams import publish_durably
from local2.errors import InvalidArgumentsError
from local2.ledger.engines.sqlite.database import Database
from local2.memory.recall.recaller import RecallRequest
from local2.memory.tenant import Memory
from local2.protocol.memories import Scope
from local2.protocol.payloads import MemoryChange
from local2.settings import TOOL_OUTPUT_LIMIT
from stored import records
from turns import GENERATION, all_done, turn

pytestmark = pytest.mark.usefixtures("memory_agent")

CALLS: list[dict[str, Any]] = [
    {"name": "weigh", "id": "c1", "content": "Gold: 19.3 g"},
    {"name": "recall_topic", "id": "c2", "content": "[Memory: user.metal] Gold"},
    {"name": "wait", "id": "c3", "content": " "},
    {"name": "weigh", "id": "c4", "ok": False, "content": "Error: no scales."},
]


async def test_messages_and_tool_results_are_stored_and_announced_once_beside_the_episode(
    bus: Connection, database: Database, announced: list[tuple[str, MemoryChange]]
) -> None:
    for _ in range(2):
        await publish_durably(bus, GENERATION, turn(tool_calls=CALLS))
    await all_done(bus)

    rows = await records(database)
    changes = [MemoryChange(id=row["id"], kind=row["kind"]) for row in rows]
    assert announced == [("memory.saved", change) for change in changes]
    episode, *other_rows = rows
    assert episode["kind"] == "episode"
    stored = [(row["kind"], row["role"], row["label"], row["content"]) for row in other_rows]
    assert stored == [
        ("chat_message", "user", None, "What is the symbol of gold?"),
        ("transcript", "assistant", None, ""),
        ("tool_output", "tool", "weigh", "Gold: 19.3 g"),
        ("transcript", "tool", "recall_topic", "[Memory: user.metal] Gold"),
        ("tool_output", "tool", "weigh", "Error: no scales."),
        ("chat_message", "assistant", None, "Au."),
    ]
    source_refs = [row["source_ref"] for row in other_rows]
    assert source_refs == ["q1:user", None, "c1", "c2", "c4", "q1:agent"]
    assert json.loads(other_rows[1]["metadata"]) == {
        "tool_calls": [{"id": "c3", "name": "wait", "args": {}}]
    }
    for row in other_rows:
        assert (row["owner"], row["agent"]) == ("richard", "generator_agent")
        assert (row["session_id"], row["query_id"]) == ("s1", "q1")
        assert row["event_time"] == "2026-11-20T23:30:00.000+00:00"


async def test_the_same_text_in_two_turns_is_stored_twice(
    bus: Connection, database: Database
) -> None:
    for query_id in ("q1", "q2"):
        await publish_durably(bus, GENERATION, turn(query_id=query_id, tool_calls=CALLS[:1]))
    await all_done(bus)

    stored = [(row["query_id"], row["kind"]) for row in await records(database)]
    kinds = ["episode", "chat_message", "tool_output", "chat_message"]
    assert stored == [(query_id, kind) for query_id in ("q1", "q2") for kind in kinds]


async def test_a_turn_can_be_recalled_in_its_session_and_from_later_ones(
    bus: Connection, memory: Memory
) -> None:
    await publish_durably(bus, GENERATION, turn(tool_calls=CALLS))
    await all_done(bus)

    async def recalled_kinds(session: str, scope: Scope) -> set[str]:
        caller = caller_named("richard", session_id=session)
        recalled = await memory.of(caller).recall(RecallRequest(query="gold", top_k=9, scope=scope))
        return {item.record.kind for item in recalled.items}

    assert await recalled_kinds("s1", "session") == await recalled_kinds("s2", "history")
    assert await recalled_kinds("s1", "session") == {"chat_message", "tool_output"}
    assert await recalled_kinds("s1", "history") == await recalled_kinds("s2", "session") == set()


async def test_a_long_output_in_another_agents_turn_is_a_preview_whose_key_reads_it_whole(
    bus: Connection, database: Database, memory: Memory
) -> None:
    logs = "".join(f"Line {number}: nothing.\n" for number in range(2_000))
    calls = [{"id": "c1", "name": "read_logs", "content": logs}]
    for _ in range(2):
        await publish_durably(bus, GENERATION, turn(tool_calls=calls))
        await all_done(bus)

    (result,) = (row for row in await records(database) if row["kind"] == "tool_output")
    key = json.loads(result["metadata"])["tool_output_key"]
    assert key in result["content"].partition("\n")[0]
    assert len(result["content"]) < TOOL_OUTPUT_LIMIT
    richard = memory.of(caller_named("richard"))
    assert (await richard.outputs.read(key, 0, len(logs))).text == logs

    await richard.erasure.erase(richard.erasure.selection(session_id="s1"))

    with pytest.raises(InvalidArgumentsError, match="no tool output"):
        await richard.outputs.read(key, 0, 1)
