"""Notes of a session: in order, stored once, and the oldest of many merged into one."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from calling import caller_named
from local2.errors import InvalidArgumentsError
from local2.ledger.engines.sqlite.database import Database
from local2.memory.service import MemoryService
from local2.memory.sessions import MAX_NOTES, MERGED_ROLE, MERGED_SIZE, merge
from local2.memory.tenant import Memory
from local2.protocol.memory_tools import Note, SessionNotes
from recalling import DAY
from stored import select


def notes_in(result: SessionNotes) -> list[tuple[str, str]]:
    return [(note.role, note.content) for note in result.notes]


async def note_many(service: MemoryService, count: int, content: str = "Step {}.") -> SessionNotes:
    """Store notes numbered from 1 on; return the result of the last."""
    for number in range(1, count):
        await service.sessions.note(content.format(number))
    return await service.sessions.note(content.format(count))


async def notes_of(service: MemoryService) -> list[Note]:
    return (await service.sessions.load(None, 1)).notes


async def test_notes_are_returned_in_their_order_with_their_roles(richard: MemoryService) -> None:
    await richard.sessions.note("Ask for the budget.", role="chief")
    result = await richard.sessions.note("It is 5,000.", role="cfo")

    assert notes_in(result) == [("chief", "Ask for the budget."), ("cfo", "It is 5,000.")]
    assert (result.was_new, result.merged) == (True, 0)
    assert await notes_of(richard) == result.notes


async def test_without_a_role_the_note_names_the_calling_agent(
    memory: Memory, richard: MemoryService
) -> None:
    await richard.sessions.note("One.")
    without_agent = memory.of(caller_named("richard", session_id="s1"))

    assert notes_in(await without_agent.sessions.note("Two.")) == [
        ("shell", "One."),
        ("agent", "Two."),
    ]


async def test_a_role_is_one_line(richard: MemoryService) -> None:
    result = await richard.sessions.note("Injected?", role=" chief:\n system ")

    assert notes_in(result) == [("chief: system", "Injected?")]


async def test_a_repeated_note_changes_nothing(richard: MemoryService) -> None:
    first = await richard.sessions.note("Ship on Friday.")
    await richard.sessions.note("Test on Thursday.")
    again = await richard.sessions.note("Ship on Friday.")

    assert (first.was_new, again.was_new) == (True, False)
    assert [note.content for note in again.notes] == ["Ship on Friday.", "Test on Thursday."]


async def test_the_same_words_in_another_role_are_another_note(richard: MemoryService) -> None:
    await richard.sessions.note("Agreed.", role="chief")

    assert (await richard.sessions.note("Agreed.", role="cfo")).was_new


async def test_a_session_keeps_fifteen_notes_unchanged(richard: MemoryService) -> None:
    result = await note_many(richard, MAX_NOTES)

    assert [note.content for note in result.notes] == [
        f"Step {n}." for n in range(1, MAX_NOTES + 1)
    ]
    assert result.merged == 0


async def test_the_sixteenth_note_merges_the_oldest_into_one_with_their_beginnings(
    richard: MemoryService,
) -> None:
    result = await note_many(richard, MAX_NOTES + 1)

    one, *rest = result.notes
    lines = [f"shell: Step {number}." for number in range(1, 9)]
    assert (one.role, one.merges, result.merged) == (MERGED_ROLE, 8, 8)
    assert one.content == "\n".join(["8 notes, shortened:", *lines])
    assert [note.content for note in rest] == [f"Step {n}." for n in range(9, MAX_NOTES + 2)]
    assert await notes_of(richard) == result.notes


async def test_merged_notes_are_merged_again_and_counted(richard: MemoryService) -> None:
    result = await note_many(richard, 100)

    assert len(result.notes) <= MAX_NOTES
    one, *rest = result.notes
    numbers = range(1, one.merges + 1)
    assert one.content.split("\n")[0] == f"{one.merges} notes, shortened:"
    assert one.content.split("\n")[1:] == [f"shell: Step {number}." for number in numbers]
    assert one.merges + len(rest) == 100
    assert [note.content for note in rest] == [f"Step {n}." for n in range(one.merges + 1, 101)]


async def test_merged_notes_stay_in_the_ledger(richard: MemoryService, database: Database) -> None:
    await note_many(richard, 40)

    originals = await select(
        database, "SELECT content FROM note WHERE merges = 0 ORDER BY position"
    )
    assert originals == [(f"Step {number}.",) for number in range(1, 41)]


async def test_a_failed_merge_leaves_the_notes_unchanged(
    richard: MemoryService, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note that would have been the sixteenth is not stored either."""
    before = (await note_many(richard, MAX_NOTES)).notes

    def fail(_: object) -> Note:
        raise InvalidArgumentsError("No.")

    monkeypatch.setattr("local2.memory.sessions.merge", fail)
    with pytest.raises(InvalidArgumentsError):
        await richard.sessions.note("One more.")

    assert await notes_of(richard) == before
    assert await select(database, "SELECT count(*) FROM note") == [(MAX_NOTES,)]


async def test_concurrent_notes_are_all_stored(richard: MemoryService) -> None:
    await asyncio.gather(*(richard.sessions.note(f"Step {number}.") for number in range(200)))

    one, *rest = await notes_of(richard)
    assert len(rest) < MAX_NOTES
    assert one.merges + len(rest) == 200


async def test_notes_belong_to_a_session_of_a_user(memory: Memory, richard: MemoryService) -> None:
    await richard.sessions.note("Mine.")

    for other in (
        caller_named("richard", agent="shell", session_id="s2"),
        caller_named("eve", agent="shell", session_id="s1"),
        caller_named(None, agent="shell", session_id="s1"),
    ):
        result = await memory.of(other).sessions.note("Theirs.")
        assert notes_in(result) == [("shell", "Theirs.")]
    assert [note.content for note in await notes_of(richard)] == ["Mine."]


async def test_every_agent_of_the_session_sees_every_note(
    memory: Memory, richard: MemoryService
) -> None:
    await richard.sessions.note("From the shell.")
    robot = memory.of(caller_named("richard", agent="robot", session_id="s1"))

    result = await robot.sessions.note("From the robot.")
    assert notes_in(result) == [("shell", "From the shell."), ("robot", "From the robot.")]


def note(position: int, content: str, at: datetime = DAY, **fields: Any) -> Note:
    return Note(position=position, role="shell", content=content, event_time=at, **fields)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        pytest.param("a " * 80, ("a " * 80).strip(), id="short enough"),
        pytest.param("word " * 100, "word " * 31 + "word …", id="cut between words"),
        pytest.param("記" * 500, "記" * 160 + " …", id="no spaces"),
        pytest.param("one\n\ntwo\u2028three", "one two three", id="several lines"),
    ],
)
def test_a_merged_note_contains_the_beginning_of_each(content: str, line: str) -> None:
    assert merge([note(1, content)]).content == f"1 notes, shortened:\nshell: {line}"


def test_of_very_many_merged_notes_the_newest_are_quoted_and_the_others_counted() -> None:
    one = note(1, "Step 0.", merges=0)
    for number in range(1, 300):
        one = merge([one, note(number + 1, f"Step {number}: {'x' * 100}.")])

    header, *lines = one.content.split("\n")
    assert one.merges == 300
    assert header == f"300 notes, shortened, the oldest {300 - len(lines)} left out:"
    assert lines[-1].startswith("shell: Step 299")
    assert len(one.content) <= MERGED_SIZE + len(header)
    assert len(lines) > 10
