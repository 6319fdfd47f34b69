"""Refusals repeat only a part of the input, only to its sender, and never in a log."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calling import RICHARD, ask, call
from local2.bus.connection import Connection
from local2.bus.streams import publish_durably
from local2.client.tools import Toolbox, call_tool
from local2.errors import MAX_ABRIDGED, abridged, quoted
from local2.ledger.engines.sqlite.database import Database
from local2.memory.tenant import Memories, Memory
from local2.tools.catalog import memory_tools
from stored import records
from turns import GENERATION, all_done, episodes, letters, turn
from waiting import eventually

WRONG = "Xyzzy" * 10_000


async def test_no_error_of_a_tool_repeats_much_of_the_input(bus: Connection, tools: Memory) -> None:
    sizes = {}
    for tool in memory_tools(Memories(tools)):
        for name in [*tool.schema().tool_schema.function.parameters["properties"], WRONG]:
            for value in (
                WRONG,
                [WRONG],
                {WRONG: WRONG},
                {"role": WRONG, "content": [], "id": WRONG},
            ):
                result = await call_tool(bus, tool.name, {name: value}, caller=RICHARD)
                if not result.ok:
                    sizes[tool.name, name[:20]] = len(result.content)
    assert len({tool for tool, _ in sizes}) == len(memory_tools(Memories(tools)))
    assert {key: size for key, size in sizes.items() if size >= 1_000} == {}


@pytest.mark.parametrize(
    "message_",
    [
        {"messages": [{"role": "user", "content": "Hi", "timestamp": WRONG}]},
        {"messages": [{"role": "user", "content": "Hi", "tool_calls": {WRONG: {"id": 1}}}]},
        {"messages": [{"role": WRONG, "content": "Hi"}]},
        {"messages": [{"role": ["user"], "content": WRONG}]},
        {"messages": [{"role": "user", WRONG: WRONG}]},
        {"messages": [WRONG]},
    ],
)
async def test_no_error_about_a_message_repeats_much_of_it(
    bus: Connection, tools: Memory, message_: dict[str, Any]
) -> None:
    assert tools is not None
    result = await call_tool(bus, "ingest", message_, caller=RICHARD)

    assert result.ok or len(result.content) < 1_000


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("note", {"content": "Invoices are checked.", "role": "chi\0ef"}),
        ("save_memory", {"content": "Gold is dense.", "metadata": {"query_id": "q\0"}}),
        ("ingest", {"messages": [{"role": "us\0er", "content": "Hi"}]}),
        ("ingest", {"messages": [{"role": "user", "content": "Hi", "id": "m\0"}]}),
        ("ingest", {"messages": [{"role": "user", "content": "Hi"}], "session_id": "s\0"}),
    ],
)
async def test_a_name_with_nul_is_refused_and_the_error_says_so(
    bus: Connection, tools: Memory, database: Database, tool: str, args: dict[str, Any]
) -> None:
    assert tools is not None
    result = await ask(bus, tool, args)

    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    assert "NUL" in result.error.message
    assert await records(database) == []


@pytest.mark.usefixtures("memory_agent")
@pytest.mark.parametrize(
    ("subject", "message"),
    [
        (GENERATION, {"user": "a\0b", "payload": {"query": "Who?", "answer": "I."}}),
        ("response.feedback", {"user": "ada", "payload": {"query_id": "q\0", "score": 1}}),
    ],
)
async def test_a_turn_or_rating_whose_name_has_nul_is_a_dead_letter(
    bus: Connection, subject: str, message: dict[str, Any]
) -> None:
    await publish_durably(bus, subject, json.dumps(message).encode())
    await all_done(bus)

    (letter,) = [stored.letter for stored in await letters(bus)]
    assert "without NUL" in letter.reason


@pytest.mark.usefixtures("tools")
async def test_nul_in_content_is_stored_and_returned_as_it_came(bus: Connection) -> None:
    await call(bus, "save_topic", {"topic": "user.metal", "content": "Os\0mium"})

    found = await call(bus, "recall_topic", {"topic": "user.metal"})
    assert found["content"] == "Os\0mium"


@pytest.mark.usefixtures("memory_agent")
@pytest.mark.parametrize(
    ("garbage", "cut"),
    [
        (b"\xff" * 900_000, True),
        (b"\0" * 900_000, True),
        (json.dumps({"query": None, "answer": WRONG}).encode(), False),
        (json.dumps({"query": [WRONG], "answer": None, "user": [WRONG]}).encode(), False),
        (b'{"query": "a", "answer": "b", "error": {"code": []}, "user": []}', False),
    ],
    ids=["not text", "control characters", "no query", "no answer", "a code that is a list"],
)
async def test_a_large_unreadable_message_is_one_dead_letter(
    bus: Connection, database: Database, log_since: Callable[[], str], garbage: bytes, cut: bool
) -> None:
    await publish_durably(bus, GENERATION, garbage)
    await publish_durably(bus, GENERATION, turn())
    await all_done(bus)

    (letter,) = [stored.letter for stored in await letters(bus)]
    assert letter.cut == cut
    assert len(letter.reason) <= MAX_ABRIDGED
    assert len(await episodes(database)) == 1
    await eventually(lambda: "turn_remembered" in log_since())
    assert len(log_since()) < 5_000
    assert "Xyzzy" not in log_since()
    assert "message_refused" in log_since()


async def test_a_refused_announcement_is_logged_without_its_name(
    bus: Connection, log_since: Callable[[], str]
) -> None:
    async with Toolbox(bus, source="test"):
        announced = json.dumps({"payload": {"name": WRONG, "parameters": {}}}).encode()
        await bus.publish("tool.schema", announced)
        await eventually(lambda: "announcement_refused" in log_since())

    assert "Xyzzy" not in log_since()


async def test_many_unreadable_parts_of_a_turn_are_logged_briefly(
    bus: Connection, memory_agent: object, log_since: Callable[[], str]
) -> None:
    assert memory_agent is not None
    calls = [[number] for number in range(10_000)]
    await publish_durably(bus, GENERATION, turn(tool_calls=calls))
    await all_done(bus)

    await eventually(lambda: "turn_remembered" in log_since())
    assert "read_in_part" in log_since()
    assert len(log_since()) < 5_000


def test_only_the_beginning_and_the_end_of_a_long_text_are_repeated() -> None:
    shortened = abridged(f"Invalid value {WRONG} at args.topic")

    assert len(shortened) == MAX_ABRIDGED
    assert shortened.startswith("Invalid value Xyzzy")
    assert shortened.endswith("Xyzzy at args.topic")
    assert len(quoted("'\n" * 1_000)) <= MAX_ABRIDGED
    assert quoted("Ada") == "'Ada'"


@pytest.fixture
def log_since(logs: Path) -> Callable[[], str]:
    """Return a function that reads what was logged since the test began."""
    before = logs.stat().st_size

    def read() -> str:
        with logs.open("rb") as log:
            log.seek(before)
            return log.read().decode()

    return read
