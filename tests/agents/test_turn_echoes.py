"""A turn answered from memory is stored unchanged, with relations to its sources."""

import json
from typing import Any

import pytest

from calling import caller_named
from local2.bus.connection import Connection
from local2.bus.streams import publish_durably
from local2.client.tools import call_tool
from local2.ledger.engines.sqlite.database import Database
from local2.protocol.envelope import Caller
from local2.protocol.payloads import ToolResult
from stored import records, select
from turns import GENERATION, all_done, turn

pytestmark = pytest.mark.usefixtures("memory_agent", "tools")

LATER = caller_named("richard", session_id="s2")
QUESTION = "What language do I prefer?"


async def call(bus: Connection, tool: str, caller: Caller = LATER, **args: object) -> ToolResult:
    return await call_tool(bus, tool, args, caller=caller)


async def publish_answer(
    bus: Connection, answer: str, *, query: str = QUESTION, **more: Any
) -> None:
    payload = {"query": query, "answer": answer, "session_id": "s2", "query_id": "q2", **more}
    await publish_durably(bus, GENERATION, turn(**payload))
    await all_done(bus)


async def sources(database: Database) -> dict[str, set[str]]:
    """Return the ids that the later turn's records derive from, by role or kind."""
    found: dict[str, set[str]] = {}
    for role_or_kind, target in await select(
        database,
        "SELECT coalesce(record.role, record.kind), relation.target FROM relation "
        "JOIN record ON record.id = relation.source WHERE relation.type = 'derived_from'",
    ):
        found.setdefault(role_or_kind, set()).add(target)
    return found


async def metadata_by_role(database: Database) -> dict[str, dict[str, Any]]:
    """Return the metadata of the later turn's records, by role or kind."""
    found = {row["role"] or row["kind"]: row for row in await records(database)}
    return {name: json.loads(row["metadata"]) for name, row in found.items()}


async def test_an_answer_from_a_fact_is_stored_unchanged_with_its_source(
    bus: Connection, database: Database
) -> None:
    saved = await call(bus, "save_topic", topic="user.language", content="Elixir")
    shown = await call(bus, "recall_topic", topic="user.language")

    reported = [{"name": "recall_topic", "content": shown.content}]
    await publish_answer(bus, f"I know: {shown.content}.", tool_calls=reported)

    (answer,) = [row for row in await records(database) if row["role"] == "assistant"]
    assert answer["content"] == "I know: [Memory: user.language] Elixir."
    fact = saved.data["id"]
    assert await sources(database) == {"episode": {fact}, "user": {fact}, "assistant": {fact}}


@pytest.mark.parametrize(
    ("asker", "reported"),
    [
        (LATER, []),
        (LATER, [{"name": "recall"}]),
        (LATER, [{"name": "recall", "content": "{}"}]),
        (caller_named("richard"), []),
        (caller_named("richard"), ["recall"]),
    ],
)
async def test_sources_are_known_even_if_the_agent_reports_neither_its_calls_nor_a_session(
    bus: Connection, database: Database, asker: Caller, reported: list[object]
) -> None:
    saved = await call(bus, "save_topic", topic="user.language", content="Elixir")
    await call(bus, "recall", asker, query=QUESTION)

    await publish_answer(bus, "You prefer Elixir.", tool_calls=reported)

    fact = saved.data["id"]
    assert await sources(database) == {"episode": {fact}, "user": {fact}, "assistant": {fact}}


async def test_an_answer_from_a_note_ranks_below_the_note(
    bus: Connection, database: Database
) -> None:
    saved = await call(bus, "save_memory", content="Richard prefers Elixir to Erlang.")
    await call(bus, "recall", query=QUESTION)

    await publish_answer(bus, "You prefer Elixir to Erlang.")

    note = saved.data["id"]
    assert await sources(database) == {"episode": {note}, "user": {note}, "assistant": {note}}
    found = (await call(bus, "recall", query=QUESTION)).data["items"]
    assert found[0]["id"] == note
    assert found[1]["content"] == "You prefer Elixir to Erlang."


async def test_a_result_that_the_answer_did_not_use_is_no_source(
    bus: Connection, database: Database
) -> None:
    saved = await call(bus, "save_topic", topic="user.language", content="Elixir")
    await call(bus, "save_topic", topic="user.bread", content="Sourdough, baked on Saturdays")
    for topic in ("user.language", "user.bread"):
        await call(bus, "recall_topic", topic=topic)

    await publish_answer(bus, "You prefer Elixir.")

    assert (await sources(database))["episode"] == {saved.data["id"]}


async def test_another_users_or_sessions_results_are_no_source(
    bus: Connection, database: Database
) -> None:
    for user, session in (("eve", "s2"), ("richard", "s3")):
        caller = caller_named(user, session_id=session)
        await call(bus, "save_topic", caller, topic="user.language", content="Elixir")
        await call(bus, "recall_topic", caller, topic="user.language")

    await publish_answer(bus, "You prefer Elixir.")

    assert await sources(database) == {}


async def test_an_echo_of_an_echo_derives_from_the_original_statement(
    bus: Connection, database: Database
) -> None:
    first = turn(query="I prefer the language Elixir.", answer="Noted.", session_id="s1")
    await publish_durably(bus, GENERATION, first)
    await all_done(bus)
    (statement_id,) = [row["id"] for row in await records(database) if row["role"] == "user"]
    await call(bus, "search_memory", query="language")
    await publish_answer(bus, "You prefer Elixir.", query_id="q2")
    (echo,) = [row for row in await records(database) if row["content"] == "You prefer Elixir."]

    again = caller_named("richard", session_id="s4")
    await call(bus, "memory_history", again, topic_or_id=echo["id"])
    await publish_answer(bus, "It is Elixir.", session_id="s4", query_id="q4")

    assert {statement_id, echo["id"]} <= (await sources(database))["assistant"]


async def test_a_refusal_and_its_question_are_marked_until_the_question_is_answered(
    bus: Connection, database: Database
) -> None:
    await publish_answer(bus, "I remember nothing about that.")
    unanswered = await metadata_by_role(database)
    await publish_answer(bus, "Elixir, since you build telephone switches.")

    assert all(unanswered[kind]["unanswered"] for kind in ("episode", "user", "assistant"))
    assert not any(
        "unanswered" in metadata for metadata in (await metadata_by_role(database)).values()
    )
