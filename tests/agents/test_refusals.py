"""What is refused is repeated in part, to whoever sent it, and in no log."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calling import RICHARD
from local.bus.connection import Connection
from local.bus.streams import publish_durably
from local.client.tools import Toolbox, call_tool
from local.errors import MAX_ABRIDGED, abridged, quoted
from local.ledger.sqlite.database import Database
from local.memory.tenant import Memories, Memory
from local.tools.catalog import memory_tools
from turns import GENERATION, all_done, episodes, letters, turn
from waiting import eventually

WRONG = "Xyzzy" * 100_000


async def test_no_error_of_a_tool_repeats_more_than_a_little(
    bus: Connection, tools: Memory
) -> None:
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
    "wrong",
    [
        {"messages": [{"role": "user", "content": "Hi", "timestamp": WRONG}]},
        {"messages": [{"role": "user", "content": "Hi", "tool_calls": {WRONG: {"id": 1}}}]},
        {"messages": [{"role": WRONG, "content": "Hi"}]},
        {"messages": [{"role": ["user"], "content": WRONG}]},
        {"messages": [{"role": "user", WRONG: WRONG}]},
        {"messages": [WRONG]},
    ],
)
async def test_no_error_of_a_message_repeats_more_than_a_little(
    bus: Connection, tools: Memory, wrong: dict[str, Any]
) -> None:
    assert tools is not None
    result = await call_tool(bus, "ingest", wrong, caller=RICHARD)

    assert result.ok or len(result.content) < 1_000


async def test_brackets_all_the_way_down_are_refused(bus: Connection, tools: Memory) -> None:
    assert tools is not None
    nested: list[Any] = []
    for _ in range(600):
        nested = [nested]
    result = await call_tool(
        bus, "ingest", {"messages": [{"role": "user", "content": [{"x": nested}]}]}, caller=RICHARD
    )

    assert result.error is not None
    assert result.error.message.startswith("The request is nested more than 64 deep.")


async def test_a_part_of_a_type_that_is_no_text_is_kept(bus: Connection, tools: Memory) -> None:
    assert tools is not None
    parts = [{"type": ["text"], "text": "Hi"}]
    result = await call_tool(
        bus, "ingest", {"messages": [{"role": "user", "content": parts}]}, caller=RICHARD
    )

    assert result.ok, result.content


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
    ids=["no text", "control characters", "no query", "no answer", "a code that is a list"],
)
async def test_a_large_message_that_cannot_be_read_is_a_dead_letter_once(
    bus: Connection, database: Database, log_since: Callable[[], str], garbage: bytes, cut: bool
) -> None:
    await publish_durably(bus, GENERATION, garbage)
    await publish_durably(bus, GENERATION, turn())
    await all_done(bus)

    (kept,) = [stored.letter for stored in await letters(bus)]
    assert kept.cut == cut
    assert len(kept.reason) <= MAX_ABRIDGED
    assert len(await episodes(database)) == 1
    await eventually(lambda: "turn_remembered" in log_since())
    assert len(log_since()) < 5_000
    assert "Xyzzy" not in log_since()
    assert "message_refused" in log_since()


async def test_an_announcement_that_is_refused_is_logged_without_its_name(
    bus: Connection, log_since: Callable[[], str]
) -> None:
    async with Toolbox(bus, source="test"):
        announced = json.dumps({"payload": {"name": WRONG, "parameters": {}}}).encode()
        await bus.publish("tool.schema", announced)
        await eventually(lambda: "announcement_refused" in log_since())

    assert "Xyzzy" not in log_since()


async def test_what_a_turn_holds_besides_is_logged_in_a_few_lines(
    bus: Connection, memory_agent: object, log_since: Callable[[], str]
) -> None:
    assert memory_agent is not None
    calls = [[number] for number in range(10_000)]
    await publish_durably(bus, GENERATION, turn(tool_calls=calls))
    await all_done(bus)

    await eventually(lambda: "turn_remembered" in log_since())
    assert "read_in_part" in log_since()
    assert len(log_since()) < 5_000


def test_of_a_long_text_the_beginning_and_the_end_are_repeated() -> None:
    said = abridged(f"Invalid value {WRONG} at args.topic")

    assert len(said) == MAX_ABRIDGED
    assert said.startswith("Invalid value Xyzzy")
    assert said.endswith("Xyzzy at args.topic")
    assert len(quoted("'\n" * 1_000)) <= MAX_ABRIDGED
    assert quoted("Ada") == "'Ada'"


@pytest.fixture
def log_since(logs: Path) -> Callable[[], str]:
    """What was logged since the test began."""
    before = logs.stat().st_size

    def read() -> str:
        with logs.open("rb") as log:
            log.seek(before)
            return log.read().decode()

    return read
