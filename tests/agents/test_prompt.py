"""A prompt holds the end of the conversation, and a background that leaves room for it."""

from datetime import UTC, datetime

import msgspec
import pytest

from local2.conversation.context import estimate
from local2.conversation.message import Message, ToolCallMsg
from local2.generator.prompt import (
    ONLY_END_SHOWN,
    Background,
    Prompt,
    PromptWriter,
)
from local2.protocol.memories import StatedBy
from local2.protocol.memory_tools import Note, TopMemory

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ROOM = 1_000
ANSWERED = [
    Message(role=role, content=f"{role} {number}")
    for number in range(6)
    for role in ("user", "assistant")
]
QUESTION = Message(role="user", content="And now?")
LONG = "word " * 20_000


def memory(content: str, *, topic: str | None = None, by: StatedBy = "other") -> TopMemory:
    return TopMemory(
        id="m1",
        content=content,
        importance=1.0,
        event_time=NOW,
        scope="user",
        by=by,
        source_class="stated",
        topic=topic,
    )


def note(content: str) -> Note:
    return Note(position=0, role="planner", content=content, event_time=NOW)


def writer(background: Background, room: int = ROOM) -> PromptWriter:
    return PromptWriter(
        system_prompt="Be helpful.", background=background, count=estimate, room=room, tail=4
    )


@pytest.mark.parametrize(
    "background",
    [
        pytest.param(Background(memories=[memory(LONG)]), id="one long memory"),
        pytest.param(Background(notes=[note(LONG)] * 15), id="long notes"),
        pytest.param(
            Background(
                memories=[memory(LONG)] * 10,
                notes=[note(LONG)] * 15,
            ),
            id="both",
        ),
    ],
)
def test_a_long_background_is_cut_and_leaves_room_for_the_conversation(
    background: Background,
) -> None:
    prompt = writer(background).write([*ANSWERED, QUESTION])

    assert prompt.tokens <= ROOM
    assert ONLY_END_SHOWN not in prompt.messages[0].content
    assert len(prompt.messages) == 1 + len(ANSWERED) + 1
    assert "characters left out" in prompt.messages[0].content


def test_of_a_background_without_room_the_oldest_notes_are_left_out_first_and_then_memories() -> (
    None
):
    entries = Background(
        memories=[memory(f"Fact {n}, with words.", topic=f"user.key{n}") for n in range(12)],
        notes=[note(f"Note {n}, with words.") for n in range(15)],
    )

    def shown(room: int) -> tuple[list[int], list[int]]:
        prompt = writer(entries, room).write([QUESTION])
        system = prompt.messages[0].content
        assert prompt.messages[-1].content == QUESTION.content
        facts, notes = (
            [n for n in range(15) if f"{kind} {n}," in system] for kind in ("Fact", "Note")
        )
        return facts, notes

    assert shown(ROOM) == ([*range(12)], [*range(15)])
    facts, notes = shown(500)
    assert (facts, notes) == ([*range(12)], [*range(15 - len(notes), 15)])
    assert 0 < len(notes) < 15
    facts, notes = shown(250)
    assert (facts, notes) == ([*range(len(facts))], [])
    assert 0 < len(facts) < 12
    assert shown(10) == ([], [])


def test_only_the_long_entries_of_a_background_are_cut() -> None:
    memories = [
        memory(LONG),
        memory("Richard", topic="user.name", by="self"),
    ]
    notes = [note("The cake is ordered.")]

    system = writer(Background(memories=memories, notes=notes)).write([QUESTION]).messages[0]

    _, facts, note_block = system.content.split("\n\n")
    assert facts.startswith("<pre-seeded-memories>\n- word word")
    assert facts.endswith("\n- user.name: Richard [stated by the user]\n</pre-seeded-memories>")
    assert note_block.splitlines() == [
        "<notes-of-this-session>",
        "planner: The cake is ordered.",
        "</notes-of-this-session>",
    ]


def test_a_background_that_fits_is_shown_unchanged() -> None:
    lines = [f"Fact {number} that somebody told." for number in range(10)]
    background = Background(memories=[memory(line) for line in lines])

    system = writer(background).write([QUESTION]).messages[0]

    shown = system.content.split("\n")[4:-1]
    assert [f"- {line} [stated by somebody else]" for line in lines] == shown


def exchange(number: int, *, results: int = 3, words: int = 200) -> list[Message]:
    """Return a question, a round of tool calls, and the answer."""
    calls = [ToolCallMsg.calling("look", {}, id_=f"{number}-{n}") for n in range(results)]
    return [
        Message(role="user", content=f"question {number}"),
        Message(role="assistant", tool_calls=calls),
        *(
            Message(role="tool", content="word " * words, tool_call_id=call.id, name="look")
            for call in calls
        ),
        Message(role="assistant", content=f"answer {number}"),
    ]


def spoken_texts(prompt: Prompt) -> list[str]:
    """Return the texts of the user and the assistant."""
    return [m.content for m in prompt.messages[1:] if m.content and m.role != "tool"]


def test_a_compressed_prompt_shows_each_answer_with_its_question_and_its_results() -> None:
    talk = [message for number in range(9) for message in exchange(number)]

    prompt = writer(Background(), room=2_000).write([*talk, QUESTION])

    assert ONLY_END_SHOWN in prompt.messages[0].content
    assert spoken_texts(prompt) == ["question 8", "answer 8", "And now?"]
    assert [m.role for m in prompt.messages[2:6]] == ["assistant", "tool", "tool", "tool"]
    assert all(m.content == "word " * 200 for m in prompt.messages[3:6])


def test_a_compressed_prompt_keeps_at_least_the_configured_tail() -> None:
    talk = [
        Message(role=role, content=f"{role} {number}")
        for number in range(60)
        for role in ("user", "assistant")
    ]
    enough = writer(Background(), room=300)

    four = enough.write([*talk, QUESTION])
    five = msgspec.structs.replace(enough, tail=5).write([*talk, QUESTION])

    assert spoken_texts(four) == ["user 58", "assistant 58", "user 59", "assistant 59", "And now?"]
    assert spoken_texts(five) == ["user 57", "assistant 57", *spoken_texts(four)]


def test_a_compressed_prompt_cuts_earlier_results_before_dropping_an_exchange() -> None:
    talk = [message for number in range(9) for message in exchange(number, words=2_000)]

    prompt = writer(Background(), room=1_000).write([*talk, *exchange(9, results=1)[:-1]])

    assert prompt.tokens <= 1_000
    assert spoken_texts(prompt) == ["question 8", "answer 8", "question 9"]
    *earlier, own = [m.content for m in prompt.messages if m.role == "tool"]
    assert all("characters left out" in result for result in earlier)
    assert own == "word " * 200


@pytest.mark.parametrize("room", range(600, 900, 50))
def test_the_results_of_the_turn_itself_are_cut_to_its_room(room: int) -> None:
    own = exchange(9, words=2_000)[:-1]

    prompt = writer(Background(), room=room).write([*ANSWERED, *own])

    assert room - 50 <= prompt.tokens <= room
    assert spoken_texts(prompt) == ["question 9"]


def test_an_exchange_that_does_not_fit_is_left_out_whole() -> None:
    long = [Message(role="user", content=LONG), Message(role="assistant", content="I see.")]

    prompt = writer(Background()).write([*ANSWERED, *long, QUESTION])

    assert spoken_texts(prompt) == ["And now?"]
