"""What a prompt holds: the conversation or its end, and a background that leaves room for it."""

import pytest

from local.agents.prompt import Background, Known, Note, PromptWriter
from local.conversation.message import Message
from local.conversation.tokens import estimate

ROOM = 1_000
ANSWERED = [
    Message(role=role, content=f"{role} {number}")
    for number in range(6)
    for role in ("user", "assistant")
]
QUESTION = Message(role="user", content="And now?")
LONG = "word " * 20_000


def writer(background: Background, room: int = ROOM) -> PromptWriter:
    return PromptWriter(
        system_prompt="Be helpful.", background=background, count=estimate, room=room, tail=4
    )


@pytest.mark.parametrize(
    "background",
    [
        pytest.param(Background(memories=[Known(content=LONG)]), id="one long memory"),
        pytest.param(Background(notes=[Note(role="planner", content=LONG)] * 15), id="long notes"),
        pytest.param(
            Background(
                memories=[Known(content=LONG)] * 10, notes=[Note(role="planner", content=LONG)] * 15
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
    assert not prompt.compressed
    assert len(prompt.messages) == 1 + len(ANSWERED) + 1
    assert "characters left out" in prompt.messages[0].content


def test_only_what_is_long_of_a_background_is_cut() -> None:
    memories = [Known(content=LONG), Known(topic="user.name", content="Richard")]
    notes = [Note(role="planner", content="The cake is ordered.")]

    system = writer(Background(memories=memories, notes=notes)).write([QUESTION]).messages[0]

    _, facts, noted = system.content.split("\n\n")
    assert facts.startswith("<pre-seeded-memories>\n- word word")
    assert facts.endswith("\n- user.name: Richard\n</pre-seeded-memories>")
    assert noted.splitlines() == [
        "<notes-of-this-session>",
        "planner: The cake is ordered.",
        "</notes-of-this-session>",
    ]


def test_a_background_that_fits_is_shown_as_it_is() -> None:
    lines = [f"Fact {number} that somebody told." for number in range(10)]
    background = Background(memories=[Known(content=line) for line in lines])

    system = writer(background).write([QUESTION]).messages[0]

    assert [f"- {line}" for line in lines] == system.content.split("\n")[3:-1]
