"""Conversations in Anthropic's and Gemini's blocks become messages, calls and tool outputs."""

from typing import Any

import pytest

from calling import RICHARD, call, ingest
from local2.bus.connection import Connection
from local2.protocol.lenient.messages import messages_of
from local2.protocol.payloads import Json

pytestmark = pytest.mark.usefixtures("tools")

DAY = "2026-05-02T14:23:01Z"
THOUGHT = {"type": "thinking", "thinking": "A scale would help.", "signature": "c2ln"}
ANTHROPIC: list[Json] = [
    {"role": "user", "content": "How heavy is the osmium?"},
    {
        "role": "assistant",
        "content": [
            THOUGHT,
            {"type": "text", "text": "I weigh it."},
            {"type": "tool_use", "id": "t1", "name": "weigh", "input": {"metal": "osmium"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [{"type": "text", "text": "22 grams"}],
            },
            {"type": "text", "text": "And the gold?"},
        ],
    },
]
GEMINI: list[Json] = [
    {"role": "user", "parts": [{"text": "How heavy is the osmium?"}]},
    {
        "role": "model",
        "parts": [
            {"text": "A scale would help.", "thought": True},
            {"text": "I weigh it."},
            {"functionCall": {"id": "t1", "name": "weigh", "args": {"metal": "osmium"}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "t1", "name": "weigh", "response": "22 grams"}},
            {"text": "And the gold?"},
        ],
    },
]


async def load_messages(bus: Connection) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = (await call(bus, "load_session", {}))["messages"]
    return messages


@pytest.mark.parametrize("talk", [ANTHROPIC, GEMINI], ids=["Anthropic", "Gemini"])
async def test_blocks_are_messages_calls_and_results(bus: Connection, talk: list[Json]) -> None:
    first = await ingest(bus, *talk)
    again = await ingest(bus, *talk)

    assert (first["added"], again["added"], again["known"]) == (4, 0, 4)
    messages = await load_messages(bus)
    assert [(one["role"], one["content"]) for one in messages] == [
        ("user", "How heavy is the osmium?"),
        ("assistant", "I weigh it."),
        ("tool", "22 grams"),
        ("user", "And the gold?"),
    ]
    assert messages[1]["tool_calls"] == [{"id": "t1", "name": "weigh", "args": {"metal": "osmium"}}]
    assert messages[2]["name"] == "weigh"


async def test_thinking_is_stored_beside_the_message_and_not_found(bus: Connection) -> None:
    await ingest(bus, *ANTHROPIC)

    found = (await call(bus, "recall", {"query": "Would a scale help?"}))["items"]
    assert not [item for item in found if "scale" in item["content"]]
    assert THOUGHT in messages_of(ANTHROPIC[1])[0].parts


async def test_a_message_of_only_results_becomes_one_message_per_result(bus: Connection) -> None:
    results = [
        {"type": "tool_result", "tool_use_id": id_, "content": f"{id_} grams"} for id_ in ("a", "b")
    ]
    await ingest(bus, {"role": "user", "id": "m1", "content": results})
    again = await ingest(bus, {"role": "user", "id": "m1", "content": results})

    assert (again["added"], again["changed"], again["known"]) == (0, 0, 2)
    results_shown = [one["content"] for one in await load_messages(bus) if one["role"] == "tool"]
    assert results_shown == ["a grams", "b grams"]


@pytest.mark.parametrize("field", ["timestamp", "event_time", "timestamp_utc", "created_at"])
async def test_the_time_of_a_message_may_have_another_name(bus: Connection, field: str) -> None:
    await ingest(bus, {"role": "user", "content": "The osmium came.", field: DAY})

    found = await call(bus, "recall", {"query": "osmium"}, RICHARD)

    assert found["items"][0]["event_time"] == DAY


async def test_a_loaded_session_can_be_stored_elsewhere_with_its_times(
    bus: Connection,
) -> None:
    message = {"role": "user", "content": "The osmium came.", "timestamp": DAY}
    await call(bus, "ingest", {"messages": [message], "session_id": "s1"}, RICHARD)
    (loaded,) = (await call(bus, "load_session", {"session_id": "s1"}, RICHARD))["messages"]

    await call(bus, "ingest", {"messages": [loaded], "session_id": "s2"}, RICHARD)

    (again,) = (await call(bus, "load_session", {"session_id": "s2"}, RICHARD))["messages"]
    assert again["event_time"] == DAY
