"""The tools `note` and `load_session`, as clients of the bus see them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from calling import ask, caller_named
from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.ledger.records import Fact
from local2.memory.intake.conversations import Turn
from local2.memory.service import MemoryService
from local2.memory.tenant import Memories, Memory
from local2.protocol.memory_tools import (
    LOAD_SESSION,
    MAX_LIMIT,
    MAX_NOTE,
    MAX_ROLE,
    NOTE,
    LoadSession,
    MakeNote,
)
from local2.protocol.payloads import Json, ToolCallRecord
from local2.protocol.tool import parameters_of
from local2.tools.catalog import bind
from recalling import DAY, chat_message

WIDE = "\x01"
"""A character that takes six bytes in JSON."""


@pytest.fixture(autouse=True)
async def tools(bus: Connection, memory: Memory) -> AsyncIterator[None]:
    async with AsyncExitStack() as hosts:
        memories = Memories(memory)
        for tool in (bind(NOTE, memories), bind(LOAD_SESSION, memories)):
            await hosts.enter_async_context(ToolHost(bus, tool))
        yield


async def test_a_note_is_answered_with_all_notes_of_its_session(bus: Connection) -> None:
    await ask(bus, "note", {"content": "Invoices are checked.", "role": "chief"})
    result = await ask(bus, "note", {"content": "Shipping is open."})

    assert result.content == (
        "Noted. The notes of this session:\nchief: Invoices are checked.\nshell: Shipping is open."
    )
    assert [one["role"] for one in result.data["notes"]] == ["chief", "shell"]
    assert (result.data["was_new"], result.data["merged"]) == (True, 0)


async def test_the_sixteenth_note_says_that_the_oldest_were_merged(bus: Connection) -> None:
    for number in range(1, 17):
        result = await ask(bus, "note", {"content": f"Step {number}."})

    assert result.data["merged"] == result.data["notes"][0]["merges"] == 8
    assert "earlier notes: 8 notes, shortened:\nshell: Step 1.\n" in result.content


async def test_the_largest_notes_fit_the_bus(bus: Connection) -> None:
    role = WIDE * (MAX_ROLE - 2)
    for number in range(15):
        content = f"{number:02}".ljust(MAX_NOTE, WIDE)
        result = await ask(bus, "note", {"content": content, "role": f"{role}{number:02}"})
        assert result.ok, result.content[:300]

    loaded = await ask(bus, "load_session", {})
    assert [len(one["content"]) for one in loaded.data["notes"]] == [MAX_NOTE] * 15


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("note", {}),
        ("note", {"content": ""}),
        ("note", {"content": " "}),
        ("note", {"content": "x" * (MAX_NOTE + 1)}),
        ("note", {"content": "x", "role": ""}),
        ("note", {"content": "x", "role": "x" * (MAX_ROLE + 1)}),
        ("note", {"content": "x", "session_id": "s2"}),
        ("note", {"content": "x", "user": "eve"}),
        ("load_session", {"session_id": ""}),
        ("load_session", {"limit": -1}),
        ("load_session", {"limit": MAX_LIMIT + 1}),
        ("load_session", {"user": "eve"}),
    ],
)
async def test_arguments_out_of_bounds_are_refused(bus: Connection, tool: str, args: Json) -> None:
    result = await ask(bus, tool, args)

    assert result.error is not None
    assert result.error.code == "invalid_arguments"


@pytest.mark.parametrize(("tool", "args"), [("note", {"content": "x"}), ("load_session", {})])
async def test_without_a_session_the_error_says_which_field_to_send(
    bus: Connection, tool: str, args: Json
) -> None:
    result = await ask(bus, tool, args, caller_named("richard"))

    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    assert "session_id" in result.error.message


async def test_a_session_of_which_nothing_is_known_says_so(bus: Connection) -> None:
    result = await ask(bus, "load_session", {"session_id": "new"})

    assert result.content == "[Session new, no messages]"


def test_a_model_must_provide_only_the_note() -> None:
    assert parameters_of(MakeNote)["required"] == ["content"]
    assert parameters_of(LoadSession)["required"] == []


async def test_a_session_is_loaded_with_its_notes_and_memories(
    bus: Connection, richard: MemoryService
) -> None:
    weather = ToolCallRecord(id="c1", name="weather", args={"city": "Rome"}, content="Rain.")
    await richard.intake.store_turn(
        Turn(query="Rain?", answer="Yes.", at=DAY, tool_calls=[weather], query_id="q1")
    )
    await richard.sessions.note("Take an umbrella.")
    await richard.facts.store(Fact(content="Lives in Rome.", scope="user", importance=0.9))

    result = await ask(bus, "load_session", {})

    assert result.content == (
        "[Session s1, its last 3 messages]\n"
        "user: Rain?\n"
        "weather: Rain.\n"
        "assistant: Yes.\n"
        "[Notes]\n"
        "shell: Take an umbrella.\n"
        "[Memories]\n"
        "- Lives in Rome. [stated by the user]"
    )
    data = result.data
    assert [message["role"] for message in data["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert data["messages"][1]["tool_calls"] == [
        {"id": "c1", "name": "weather", "args": {"city": "Rome"}}
    ]
    assert data["messages"][2]["tool_call_id"] == "c1"
    assert [one["content"] for one in data["notes"]] == ["Take an umbrella."]
    assert [one["content"] for one in data["memories"]] == ["Lives in Rome."]
    assert (data["session_id"], data["earlier"]) == ("s1", False)


@pytest.mark.parametrize(("filling", "count"), [("x", 60), ("\u8a18", 20), (WIDE, 20)])
async def test_the_largest_session_fits_the_bus_with_its_newest_messages(
    bus: Connection, richard: MemoryService, filling: str, count: int
) -> None:
    for number in range(count):
        content = f"{number} ".ljust(40_000, filling)
        await richard.intake.store_conversation([chat_message(content, id=f"m{number}")])
    for number in range(10):
        content = f"{number} ".ljust(60_000, filling)
        await richard.facts.store(Fact(content=content, scope="user", importance=1))
    for number in range(15):
        await richard.sessions.note(f"{number} ".ljust(MAX_NOTE, filling))

    result = await ask(bus, "load_session", {"limit": MAX_LIMIT})

    assert result.ok, result.content[:300]
    messages = result.data["messages"]
    assert len(messages) >= 4
    assert [m["source_ref"] for m in messages] == [
        f"m{n}" for n in range(count - len(messages), count)
    ]
    assert result.data["earlier"] is True
    assert len(result.data["memories"]) == 10
    assert len(result.data["notes"]) == 15
    assert len(result.content) < 12_000, "a model gets a little of each"


async def test_a_message_longer_than_the_rest_is_cut_and_marked(
    bus: Connection, richard: MemoryService
) -> None:
    await richard.intake.store_conversation(
        [chat_message("Small.", id="m1"), chat_message("x" * 600_000, id="m2")]
    )

    small, large = (await ask(bus, "load_session", {})).data["messages"]

    assert small["content"] == "Small."
    assert large["content"] == "x" * 100_000 + " …"
