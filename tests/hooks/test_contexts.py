"""A context shows what was said later about a memory, and never grows too long."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from local2.hooks.context import (
    LEFT_OUT,
    MAX_CONTEXT_CHARACTERS,
    Section,
    join_context,
    without_contexts,
)
from local2.prompt_context import recalled_lines
from local2.protocol.envelope import utc_now
from local2.protocol.memory_tools import ItemRelation, LaterStatement, RecalledItem

SIZES = st.lists(st.integers(0, MAX_CONTEXT_CHARACTERS // 4), max_size=20)
"""Characters of the lines of a section."""


BOUGHT, SOLD = utc_now().replace(2026, 5, 1), utc_now().replace(2026, 5, 11)
VOLVO = RecalledItem(
    id="1",
    source_kind="chat_message",
    source_ref=None,
    content="I drive a Volvo.",
    event_time=BOUGHT,
    score=0.8,
    topic=None,
    memory_type=None,
    label=None,
    session_id="earlier",
)


def test_a_later_statement_is_shown_with_its_date() -> None:
    later = LaterStatement(id="2", content="I sold the Volvo.", event_time=SOLD)

    (line,) = recalled_lines("Which car?", [replace(VOLVO, later=(later,))], "now").values()

    assert "I drive a Volvo." in line
    assert line.endswith("[2026-05-01] (later, 2026-05-11: I sold the Volvo.)")


def test_of_a_long_message_the_passage_with_the_words_of_the_question_is_shown() -> None:
    filler = "The rain has not let up since Sunday. " * 60
    long = replace(VOLVO, content=f"{filler}I drive a Volvo. {filler}", label="Ann")

    (line,) = recalled_lines("Who drives a Volvo?", [long], "now").values()

    assert "I drive a Volvo." in line
    assert line.startswith("- [… ")
    assert line.count(" characters left out …]") == 2


def test_what_another_memory_supersedes_is_left_out() -> None:
    newer = ItemRelation(type="supersedes", id="2", incoming=True)
    older = ItemRelation(type="supersedes", id="2", incoming=False)
    superseded = replace(VOLVO, content="Works at Northwind.", relations=(newer,))
    superseding = replace(VOLVO, content="Works at Bluebird.", relations=(older,))

    (line,) = recalled_lines("Which car?", [superseded, superseding], "now").values()

    assert "Bluebird" in line


def test_what_the_model_sees_anyway_is_left_out_and_counts_for_nothing() -> None:
    said = replace(VOLVO, session_id="now", content="Which car is mine?", score=1.0)
    faint = replace(VOLVO, content="A Volvo needs oil.", score=0.3)

    assert recalled_lines("Which car?", [said], "now") == {}
    assert len(recalled_lines("Which car?", [said], None)) == 1
    assert [
        ("drive" in line)
        for line in recalled_lines("Which car?", [said, VOLVO, faint], "now").values()
    ] == [True]


@given(of_facts=SIZES, of_notes=SIZES, of_recalled=SIZES)
def test_a_context_has_a_limit_and_shows_the_first_facts_and_the_last_notes(
    of_facts: list[int], of_notes: list[int], of_recalled: list[int]
) -> None:
    facts = [f"fact {number} {'x' * size}" for number, size in enumerate(of_facts)]
    notes = [f"note {number} {'x' * size}" for number, size in enumerate(of_notes)]
    recalled = [f"item {number} {'x' * size}" for number, size in enumerate(of_recalled)]
    lines = [*facts, *notes, *recalled]

    context = join_context(
        [
            Section("facts", facts),
            Section("notes", notes, newest_last=True),
            Section("recalled", recalled),
        ]
    )

    if not lines:
        assert context is None
        return
    assert context is not None
    assert len(context) <= MAX_CONTEXT_CHARACTERS
    assert without_contexts(context) == ""
    shown = context.splitlines()
    assert {*facts[:1], *notes[-1:], *recalled[:1]} <= set(shown)
    assert (LEFT_OUT in shown) == (not set(lines) <= set(shown))
