"""Loaded sessions: messages in order, calls with their results, and the most important facts."""

from datetime import timedelta
from typing import Any

import msgspec

from calling import RICHARD, caller_named
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.operations.sessions import SESSION_CHARACTERS
from local2.ledger.records import Fact
from local2.memory.intake.conversations import Turn
from local2.memory.intake.waiting_turns import WaitingTurns
from local2.memory.service import MemoryService
from local2.memory.sessions import Sessions
from local2.memory.tenant import Memory
from local2.protocol.memory_tools import SessionContent, SessionMessage
from local2.protocol.payloads import ToolCallRecord
from local2.settings import MemorySettings
from recalling import DAY, chat_message

WEATHER = ToolCallRecord(
    id="call-1", name="weather", args={"city": "Rome"}, content="Rain in Rome."
)


async def load(
    service: MemoryService, limit: int = 100, session_id: str | None = None
) -> SessionContent:
    return await service.sessions.load(session_id, limit)


def roles_and_contents(session: SessionContent) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in session.messages]


def turn(number: int, *calls: ToolCallRecord) -> Turn:
    return Turn(
        query=f"Question {number}?",
        answer=f"Answer {number}.",
        at=DAY + timedelta(minutes=number),
        tool_calls=list(calls),
        session_id="s1",
        query_id=f"q{number}",
    )


async def test_turns_are_loaded_as_messages_in_their_order(richard: MemoryService) -> None:
    for number in (1, 2):
        await richard.intake.store_turn(turn(number))

    session = await load(richard)

    assert roles_and_contents(session) == [
        ("user", "Question 1?"),
        ("assistant", "Answer 1."),
        ("user", "Question 2?"),
        ("assistant", "Answer 2."),
    ]
    first = session.messages[0]
    assert (first.query_id, first.source_ref, first.event_time) == (
        "q1",
        "q1:user",
        DAY + timedelta(minutes=1),
    )
    assert len({message.id for message in session.messages}) == 4
    assert (session.session_id, session.earlier) == ("s1", False)


async def test_a_result_that_is_told_late_stands_at_its_call(richard: MemoryService) -> None:
    call = ToolCallRecord(id="call-1", name="clock")
    messages = [
        chat_message("What time is it?"),
        chat_message(None, "assistant", tool_calls=[call]),
        chat_message("The clock is slow.", "assistant"),
    ]
    await richard.intake.store_conversation(messages, "s1")
    late = chat_message("Noon.", "tool", tool_call_id="call-1", name="clock")
    await richard.intake.store_conversation([*messages, late], "s1")

    session = await load(richard)

    assert roles_and_contents(session) == [
        ("user", "What time is it?"),
        ("assistant", ""),
        ("tool", "Noon."),
        ("assistant", "The clock is slow."),
    ]
    assert [len(message.tool_calls) for message in session.messages] == [0, 1, 0, 0]


async def test_a_turns_tool_results_follow_their_calls(
    richard: MemoryService,
) -> None:
    clock = ToolCallRecord(id="call-2", name="clock", content="Noon.")
    await richard.intake.store_turn(turn(1))
    await richard.intake.store_turn(turn(2, WEATHER, clock))

    *_, question, asking, rain, noon, answer = (await load(richard)).messages

    assert (question.role, answer.content) == ("user", "Answer 2.")
    assert (asking.role, asking.content) == ("assistant", "")
    assert msgspec.to_builtins(asking.tool_calls) == [
        {"id": "call-1", "name": "weather", "args": {"city": "Rome"}},
        {"id": "call-2", "name": "clock", "args": {}},
    ]
    assert [(m.role, m.name, m.tool_call_id, m.content) for m in (rain, noon)] == [
        ("tool", "weather", "call-1", "Rain in Rome."),
        ("tool", "clock", "call-2", "Noon."),
    ]


async def test_a_message_with_text_keeps_its_calls(richard: MemoryService) -> None:
    await richard.intake.store_conversation([
        chat_message("Rain?", id="m1"),
        chat_message("Let me look.", "assistant", id="m2", tool_calls=[WEATHER]),
        chat_message("Yes.", "assistant", id="m3"),
    ])  # fmt: skip

    session = await load(richard)

    assert [message.role for message in session.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert session.messages[1].content == "Let me look."
    assert [call.id for call in session.messages[1].tool_calls] == ["call-1"]


async def test_calls_and_results_in_separate_messages_are_matched(
    richard: MemoryService,
) -> None:
    await richard.intake.store_conversation([
        chat_message("Rain?"),
        chat_message(None, "assistant", tool_calls=[msgspec.structs.replace(WEATHER, content="")]),
        chat_message("Rain in Rome.", "tool", tool_call_id="call-1"),
        chat_message("Yes.", "assistant"),
    ])  # fmt: skip

    session = await load(richard)

    assert roles_and_contents(session) == [
        ("user", "Rain?"),
        ("assistant", ""),
        ("tool", "Rain in Rome."),
        ("assistant", "Yes."),
    ]
    (call,) = session.messages[1].tool_calls
    assert (call.id, call.name, call.args) == ("call-1", "weather", {"city": "Rome"})


async def test_oversized_arguments_are_left_out(richard: MemoryService) -> None:
    long = msgspec.structs.replace(WEATHER, args={"text": "x" * 5_000})
    await richard.intake.store_turn(turn(1, long))

    (call,) = (await load(richard)).messages[1].tool_calls
    assert (call.name, call.args) == ("weather", {})


async def test_a_session_without_messages_has_its_notes_and_memories(
    richard: MemoryService,
) -> None:
    await richard.intake.store_turn(turn(1))
    await richard.sessions.note("Take an umbrella.")
    await remember(richard, "Diabetic.", 1)

    session = await load(richard, 0)
    assert (session.messages, session.earlier) == ([], True)
    assert (len(session.notes), len(session.memories)) == (1, 1)


async def test_a_limit_never_separates_a_result_from_its_call(richard: MemoryService) -> None:
    for number in (1, 2):
        await richard.intake.store_turn(turn(number, WEATHER))

    for limit in range(12):
        session = await load(richard, limit)

        assert len(session.messages) <= limit
        assert session.earlier == (len(session.messages) < 8)
        call_ids: set[str] = set()
        for message in session.messages:
            call_ids |= {call.id for call in message.tool_calls}
            assert message.tool_call_id is None or message.tool_call_id in call_ids


async def test_reading_stops_when_the_answer_is_full(
    richard: MemoryService,
) -> None:
    size = 50_000
    await richard.intake.store_conversation(
        [chat_message(f"{number} ".ljust(size, "x"), id=f"m{number}") for number in range(20)]
    )

    session = await load(richard, 1_000)

    assert [message.source_ref for message in session.messages] == [f"m{n}" for n in range(10, 20)]
    assert len(session.messages) * size == SESSION_CHARACTERS
    assert session.earlier


async def test_a_session_belongs_to_its_user(memory: Memory, richard: MemoryService) -> None:
    await richard.intake.store_turn(turn(1))
    await richard.sessions.note("Mine.")

    for stranger in (
        caller_named("eve", session_id="s1"),
        caller_named(None, session_id="s1"),
    ):
        for session_id in (None, "s1"):
            session = await load(memory.of(stranger), session_id=session_id)
            assert (session.messages, session.notes, session.earlier) == ([], [], False)


async def test_another_session_of_the_user_is_loaded_by_its_id(
    memory: Memory, richard: MemoryService
) -> None:
    await richard.intake.store_turn(turn(1))
    in_other_session = memory.of(caller_named("richard", session_id="s2"))

    assert (await load(in_other_session)).messages == []
    assert len((await load(in_other_session, session_id="s1")).messages) == 2


async def remember(service: MemoryService, content: str, importance: float, **fields: Any) -> None:
    fact = {"content": content, "scope": "user", "importance": importance, **fields}
    await service.facts.store(Fact(**fact))


async def memories(service: MemoryService) -> list[str]:
    return [memory.content for memory in (await load(service)).memories]


async def test_ten_facts_are_included_the_users_own_first(richard: MemoryService) -> None:
    for number in range(8):
        for scope in ("agent", "tenant"):
            await remember(richard, f"{scope} {number}", 0.9 + number / 100, scope=scope)
    assert await memories(richard) == ["tenant 7", "agent 7", "tenant 6", "agent 6", "tenant 5"]

    for number in range(8):
        await remember(richard, f"own {number}", 0.8 + number / 100)
    found = await memories(richard)
    assert len(found) == MemorySettings().preseed_count == 10
    assert found[:8] == [f"own {number}" for number in reversed(range(8))]
    assert found[8:] == ["tenant 7", "agent 7"]

    for number in range(8, 12):
        await remember(richard, f"own {number}", 0.8 + number / 100)
    assert all(content.startswith("own") for content in await memories(richard))


async def test_standing_facts_are_included_after_important_ones(richard: MemoryService) -> None:
    await remember(richard, "Tea.", 0.5)
    await remember(richard, "Deadline in May.", 0.7, topic="project.deadline", scope="tenant")
    await richard.facts.store(Fact(content="Richard.", topic="user.name", scope="user"))
    await richard.facts.store(Fact(content="Berlin.", topic="user.city", scope="user"))
    assert await memories(richard) == ["Berlin.", "Richard.", "Deadline in May."]

    await remember(richard, "Diabetic.", 0.8)
    await remember(richard, "No meetings.", 0.8, scope="tenant")
    own = ["Diabetic.", "Berlin.", "Richard."]
    assert await memories(richard) == [*own, "No meetings.", "Deadline in May."]


async def test_a_text_with_a_key_is_not_repeated_without_it(richard: MemoryService) -> None:
    await remember(richard, "It is MySQL.", 0.9, scope="tenant")
    await remember(richard, "It is MySQL.", 0.9, scope="agent", topic="project.database")
    await remember(richard, "It is MySQL.", 0.9, scope="agent", topic="project.store")

    found = (await load(richard)).memories

    assert sorted(memory.topic or "" for memory in found) == ["project.database", "project.store"]


async def test_at_most_half_of_the_standing_facts_are_shared_ones(richard: MemoryService) -> None:
    for number in range(4):
        await remember(richard, f"Rule {number}.", 0.9, scope="tenant")
        await remember(richard, f"Key {number}.", 0.5, scope="tenant", topic=f"project.n{number}")

    assert await memories(richard) == ["Rule 3.", "Rule 2.", "Rule 1.", "Rule 0.", "Key 3."]


async def test_settings_determine_which_facts_are_included_and_how_many(
    memory: Memory, database: Database
) -> None:
    for content, importance in (("Tea.", 0.3), ("Vim.", 0.5), ("Rome.", 0.7)):
        await remember(memory.of(RICHARD), content, importance)

    async def found(**settings: Any) -> list[str]:
        ledger = Ledger(database, "default")
        sessions = Sessions(
            ledger, RICHARD, MemorySettings(**settings), memory.clock, WaitingTurns()
        )
        return [fact.content for fact in (await sessions.load(None, 1)).memories]

    assert await found() == []
    assert await found(preseed_importance=0.5) == ["Rome.", "Vim."]
    assert await found(preseed_importance=0, preseed_count=1) == ["Rome."]
    assert await found(preseed_importance=0, preseed_count=0) == []


async def test_other_users_facts_are_not_included(memory: Memory, richard: MemoryService) -> None:
    await remember(richard, "Diabetic.", 1)
    await remember(richard, "Only for the shell.", 1, scope="agent")
    await remember(richard, "For everybody.", 1, scope="tenant")

    eve = memory.of(caller_named("eve", agent="robot", session_id="s1"))
    assert await memories(eve) == ["For everybody."]
    without_user = memory.of(caller_named(None, session_id="s1"))
    assert await memories(without_user) == ["For everybody."]


async def test_a_message_contains_only_known_fields(richard: MemoryService) -> None:
    await richard.intake.store_conversation(
        [chat_message("Hello.", id="m1", name="Vera", timestamp=DAY)]
    )

    (message,) = (await load(richard)).messages
    assert isinstance(message, SessionMessage)
    assert msgspec.to_builtins(message) == {
        "role": "user",
        "content": "Hello.",
        "id": message.id,
        "event_time": DAY.isoformat().replace("+00:00", "Z"),
        "name": "Vera",
        "source_ref": "m1",
    }
