"""Everything in an export is stored: other data beside the text, unsearched messages in place."""

import hashlib
import json
from typing import Any

import msgspec
import pytest

from calling import RICHARD, call, ingest
from local2.bus.connection import Connection
from local2.client.tools import call_tool
from local2.ledger.engines.sqlite.database import Database
from local2.protocol.lenient.messages import MAX_EXTRA_BYTES, bounded, messages_of
from local2.protocol.payloads import Json
from stored import records

pytestmark = pytest.mark.usefixtures("tools")

IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/osmium.png"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weigh", "arguments": '{"n": 1}'}}


async def rows(database: Database) -> list[dict[str, Any]]:
    found = await records(database)
    return [{**record, "metadata": json.loads(record["metadata"])} for record in found]


async def test_instructions_blanks_and_calls_are_stored_in_place_but_not_recalled(
    bus: Connection,
) -> None:
    talk: list[Json] = [
        {"role": "system", "content": "You are a patient metal agent."},
        {"role": "user", "content": "How heavy is the metal?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "user", "content": "  "},
        {"role": "developer", "content": "Be brief about metal."},
    ]
    ingested = await ingest(bus, *talk)
    again = await ingest(bus, *talk)

    assert (ingested["added"], ingested["skipped"], again["known"]) == (5, [], 5)
    loaded = await call(bus, "load_session", {})
    assert [(m["role"], m["content"]) for m in loaded["messages"]] == [
        ("system", "You are a patient metal agent."),
        ("user", "How heavy is the metal?"),
        ("assistant", ""),
        ("user", "  "),
        ("system", "Be brief about metal."),
    ]
    assert loaded["messages"][2]["tool_calls"] == [{"id": "c1", "name": "weigh", "args": {"n": 1}}]
    recalled = await call(bus, "recall", {"query": "metal agent brief"})
    assert [item["content"] for item in recalled["items"]] == ["How heavy is the metal?"]


async def test_a_call_whose_result_arrives_later_is_stored_once(bus: Connection) -> None:
    await ingest(bus, {"role": "assistant", "id": "m1", "content": "", "tool_calls": [CALL]})
    await ingest(bus, {"role": "tool", "name": "weigh", "tool_call_id": "c1", "content": "1 g"})

    loaded = await call(bus, "load_session", {})
    asking, answer = loaded["messages"]
    assert [one["id"] for one in asking["tool_calls"]] == ["c1"]
    assert (answer["content"], answer["tool_call_id"]) == ("1 g", "c1")


async def test_images_are_named_in_the_text_and_stored_beside_it(
    bus: Connection, database: Database
) -> None:
    look = {"type": "text", "text": "Which metal is this?"}
    await ingest(bus, {"role": "user", "id": "m1", "content": [look, IMAGE]})

    (row,) = await rows(database)
    assert row["content"] == "Which metal is this?\n[image]"
    assert row["metadata"]["parts"] == [look, IMAGE]


async def test_a_different_image_with_the_same_text_is_a_newer_version(
    bus: Connection, database: Database
) -> None:
    other = {"type": "image_url", "image_url": {"url": "https://example.org/gold.png"}}
    for image in (IMAGE, IMAGE, other):
        last = await ingest(bus, {"role": "user", "id": "m1", "content": [image]})

    assert (last["changed"], len(await rows(database))) == (1, 2)


async def test_large_data_is_replaced_by_its_size_and_hash(
    bus: Connection, database: Database
) -> None:
    url = "data:image/png;base64," + "A" * 600_000
    await ingest(
        bus, {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    )

    (row,) = await rows(database)
    (part,) = row["metadata"]["parts"]
    hashed = hashlib.sha256(url.encode()).hexdigest()
    assert part["image_url"]["url"] == f"[not kept: 600022 characters, sha256 {hashed}]"


def test_data_stored_beside_a_text_is_bounded() -> None:
    many = bounded([{"text": "x" * 9_000}] * 100)
    deep = bounded([str(number) for number in range(100_000)])

    assert len(json.dumps(many)) <= MAX_EXTRA_BYTES
    assert many[0]["text"].startswith("[not kept: 9000 characters, sha256 ")
    assert deep.startswith("[not kept: ")


async def test_unknown_fields_and_roles_are_stored(bus: Connection, database: Database) -> None:
    await ingest(
        bus,
        {"role": "critic", "content": "Too dense.", "score": 0.2, "model": "gemma4"},
        {"role": "assistant", "content": "", "refusal": "I cannot do that."},
        {"role": "function", "name": "recall", "content": "Nobody knows."},
        {"role": "human", "text": "Hello.", "id": 7, "timestamp": 1777732981},
        {"role": "User", "content": "Good day."},
        {"role": "user", "content": "Good night."},
    )

    stored = {row["content"]: row for row in await rows(database)}
    assert {row["kind"] for row in stored.values()} == {"chat_message", "tool_output"}
    assert stored["Too dense."]["metadata"] == {"fields": {"score": 0.2, "model": "gemma4"}}
    assert stored["Too dense."]["role"] == "critic"
    assert stored["I cannot do that."]["metadata"] == {"fields": {"refusal": "I cannot do that."}}
    assert stored["Nobody knows."]["label"] == "recall"
    hello = stored["Hello."]
    assert (hello["role"], hello["source_ref"], hello["event_time"]) == (
        "user", "7", "2026-05-02T14:43:01.000+00:00",
    )  # fmt: skip
    day, night = stored["Good day."], stored["Good night."]
    assert (day["role"], day["source_class"], day["metadata"]) == (
        "user", "stated", {"fields": {"role": "User"}},
    )  # fmt: skip
    assert night["metadata"] == {}


async def test_results_of_a_foreign_tool_named_like_the_memorys_are_stored(
    bus: Connection, database: Database
) -> None:
    own = await call_tool(bus, "recall", {"query": "osmium"}, caller=RICHARD)
    ingested = await ingest(
        bus,
        {"role": "tool", "name": "recall", "content": own.content},
        {"role": "tool", "name": "recall", "content": "Recall of car 4711."},
    )

    assert [row["content"] for row in await rows(database)] == ["Recall of car 4711."]
    assert ingested["skipped"] == [{"index": 0, "reason": "answered by this memory itself"}]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(["One", "two"], "One\ntwo", id="texts"),
        pytest.param([{"type": "input_audio", "input_audio": {}}], "[audio]", id="sound"),
        pytest.param([{"type": "tool_result", "content": [{"type": "text", "text": "1 g"}]}], "1 g",
                     id="a result in parts"),
        pytest.param({"gold": 19.3}, '{"gold":19.3}', id="an object"),
        pytest.param([1, 2], "[1,2]", id="numbers"),
        pytest.param(42, "42", id="a number"),
        pytest.param(None, None, id="nothing"),
    ],
)  # fmt: skip
def test_contents_are_read_in_any_form(content: object, text: str | None) -> None:
    assert messages_of({"role": "user", "content": content})[0].content == text


@pytest.mark.parametrize(
    ("arguments", "args"),
    [('{"n": 1}', {"n": 1}), ({"n": 1}, {"n": 1}), ("n=1", {"arguments": "n=1"}), (None, {})],
)
def test_arguments_are_read_in_any_form(arguments: object, args: Json) -> None:
    function = {"name": "weigh", "arguments": arguments}
    (message,) = messages_of({"role": "assistant", "tool_calls": [{"id": 1, "function": function}]})

    assert (message.tool_calls[0].args, message.tool_calls[0].id) == (args, "1")


async def test_an_invocation_of_an_agent_is_loaded_as_a_call(bus: Connection) -> None:
    invocation = {"agent_name": "planner", "request": "Plan the launch."}
    await ingest(bus, {"role": "assistant", "agent_calls": [invocation]})

    (message,) = (await call(bus, "load_session", {}))["messages"]
    assert message["tool_calls"] == [
        {"id": "", "name": "planner", "args": {"request": "Plan the launch."}}
    ]


def test_a_message_that_is_resent_is_read_unchanged() -> None:
    """`local2 ingest` reads a file, and resends in parts what it read."""
    (first,) = messages_of(
        {"role": "developer", "content": [IMAGE], "tool_calls": [CALL], "x": [1]}
    )
    (again,) = messages_of(json.loads(msgspec.json.encode(first)))

    assert again == first


async def test_data_beside_calls_with_results_is_stored(
    bus: Connection, database: Database
) -> None:
    weighed = {"id": "c1", "name": "weigh", "content": "19.3 g"}
    await ingest(bus, {"role": "assistant", "tool_calls": [weighed], "reasoning": "It is heavy."})

    message, result = await rows(database)
    assert (message["kind"], message["metadata"]["fields"]) == (
        "transcript",
        {"reasoning": "It is heavy."},
    )
    assert result["content"] == "19.3 g"
    loaded = await call(bus, "load_session", {})
    assert [(one["role"], len(one.get("tool_calls", ()))) for one in loaded["messages"]] == [
        ("assistant", 1),
        ("tool", 0),
    ]
