"""The order of the ledger decides, even if clocks are set back or times are in the future."""

import json
from datetime import timedelta
from typing import Any

import pytest

from calling import RICHARD, call, ingest
from local2.agents.listener import Listener
from local2.bus.connection import Connection
from local2.bus.streams import publish_durably
from local2.memory.tenant import Memories, Memory
from recalling import DAY
from turns import GENERATION, all_done
from waiting import eventually

pytestmark = pytest.mark.usefixtures("memory_agent", "tools")

FAR_FUTURE = "9999-12-31T00:00:00Z"


async def publish(bus: Connection, query: str, answer: str, at: str, query_id: str) -> None:
    payload = {"query": query, "answer": answer, "query_id": query_id, "session_id": "s1"}
    message = {"source": "robot", "user": "richard", "timestamp_utc": at, "payload": payload}
    await publish_durably(bus, GENERATION, json.dumps(message).encode())
    await all_done(bus)


async def session_contents(bus: Connection) -> list[str]:
    return [message["content"] for message in (await call(bus, "load_session", {}))["messages"]]


async def scores(bus: Connection, query: str, **args: Any) -> dict[str, float]:
    found = await call(bus, "recall", {"query": query, **args})
    return {item["content"]: item["score"] for item in found["items"]}


async def test_a_session_keeps_its_order_although_the_clock_was_set_back(bus: Connection) -> None:
    await publish(bus, "First?", "One.", "2026-11-20T10:00:00Z", "q1")
    await publish(bus, "Second?", "Two.", "2026-11-20T09:00:00Z", "q2")
    await publish(bus, "Third?", "Three.", FAR_FUTURE, "q3")
    await publish(bus, "Fourth?", "Four.", "2026-11-20T09:01:00Z", "q4")

    assert await session_contents(bus) == [
        "First?", "One.", "Second?", "Two.", "Third?", "Three.", "Fourth?", "Four."
    ]  # fmt: skip


async def test_a_late_turn_is_placed_where_its_question_was_received(
    bus: Connection, memory: Memory
) -> None:
    query = {"query": "First?", "session_id": "s1", "query_id": "1"}
    async with Listener(bus, Memories(memory)):
        await bus.publish(
            "query.received", json.dumps({"user": "richard", "payload": query}).encode()
        )
        await eventually(lambda: session_contents(bus))
    await publish(bus, "Second?", "Two.", "2026-11-20T10:01:00Z", "2")
    await publish(bus, "First?", "One.", "2026-11-20T10:00:00Z", "1")

    assert await session_contents(bus) == ["First?", "One.", "Second?", "Two."]


async def test_a_conversation_keeps_its_true_times_and_its_order(bus: Connection) -> None:
    await ingest(bus, {"role": "user", "content": "New.", "timestamp": "2026-01-01"})
    await ingest(bus, {"role": "user", "content": "Old.", "timestamp": "2019-01-01"})

    assert await session_contents(bus) == ["New.", "Old."]
    loaded = (await call(bus, "load_session", {}))["messages"]
    assert [message["event_time"][:4] for message in loaded] == ["2026", "2019"]


async def test_a_message_dated_in_the_future_scores_like_one_of_now(
    bus: Connection, memory: Memory
) -> None:
    memory.clock = lambda: DAY
    for number, at in enumerate((DAY.isoformat(), FAR_FUTURE)):
        content = f"The meeting about titanium is in room {number}."
        message = {"role": "assistant", "content": content, "timestamp": at, "id": f"m{number}"}
        await ingest(bus, message)

    now, future = (await scores(bus, "titanium meeting")).values()
    assert now == future
    assert len(await scores(bus, "titanium meeting", as_of=DAY.isoformat())) == 1
    assert len(await scores(bus, "titanium meeting", until=DAY.isoformat())) == 1


async def test_an_answer_dated_in_the_future_is_revised_like_any_other(bus: Connection) -> None:
    await publish(bus, "Densest metal?", "Iridium.", FAR_FUTURE, "q1")
    await publish(bus, "Densest metal?", "Osmium.", "2026-11-20T10:00:00Z", "q1")

    assert await session_contents(bus) == ["Densest metal?", "Osmium."]


async def test_the_newest_facts_come_first_although_the_clock_was_set_back(
    bus: Connection, memory: Memory
) -> None:
    for number in range(3):
        memory.clock = lambda number=number: DAY - timedelta(days=number)  # type: ignore[misc]
        fact = {"content": f"Fact {number}.", "scope": "user", "importance": 0.9}
        await call(bus, "remember_fact", fact)
        await call(bus, "save_topic", {"topic": "user.city", "content": f"City {number}."})

    loaded = await call(bus, "load_session", {})
    versions = (await call(bus, "memory_history", {"topic_or_id": "user.city"}))["versions"]

    contents = [one["content"] for one in loaded["memories"]]
    assert contents == ["Fact 2.", "Fact 1.", "Fact 0.", "City 2."]
    assert [one["content"] for one in versions] == ["City 2.", "City 1.", "City 0."]
    assert await call(bus, "recall_topic", {"topic": "user.city"}, RICHARD) | {"id": ""} == {
        "topic": "user.city",
        "found": True,
        "content": "City 2.",
        "id": "",
        "by": "self",
        "source_class": "asserted",
    }
