"""A context shows what was said later about a memory, and never grows too long."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from local2.hooks.context import (
    LEFT_OUT,
    MAX_CONTEXT_CHARACTERS,
    Section,
    join_context,
    recalled_section,
    without_contexts,
)
from local2.hooks.state import Session
from local2.protocol.envelope import utc_now
from local2.protocol.memory_tools import ItemRelation, LaterStatement, RecalledItem

LINES = st.lists(st.text("abc ", min_size=1, max_size=MAX_CONTEXT_CHARACTERS // 4), max_size=20)


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

    (line,) = recalled_section([replace(VOLVO, later=(later,))], "now", Session()).lines

    assert "I drive a Volvo." in line
    assert line.endswith("[2026-05-01] (later, 2026-05-11: I sold the Volvo.)")


def test_what_another_memory_supersedes_is_left_out() -> None:
    newer = ItemRelation(type="supersedes", id="2", incoming=True)
    older = ItemRelation(type="supersedes", id="2", incoming=False)
    superseded = replace(VOLVO, content="Works at Northwind.", relations=(newer,))
    superseding = replace(VOLVO, content="Works at Bluebird.", relations=(older,))

    (line,) = recalled_section([superseded, superseding], "now", Session()).lines

    assert "Bluebird" in line


@given(facts=LINES, notes=LINES, recalled=LINES)
def test_a_context_has_a_limit_and_shows_the_first_facts_and_the_last_notes(
    facts: list[str], notes: list[str], recalled: list[str]
) -> None:
    sections = [
        Section("facts", facts),
        Section("notes", notes, newest_last=True),
        Section("recalled", recalled),
    ]

    context = join_context(sections)

    if not (facts or notes or recalled):
        assert context is None
        return
    assert context is not None
    assert len(context) <= MAX_CONTEXT_CHARACTERS
    assert without_contexts(context) == ""
    whole = sum(len(line) + 1 for line in (*facts, *notes, *recalled)) < MAX_CONTEXT_CHARACTERS / 2
    assert not (whole and LEFT_OUT in context)
    for lines in (facts[:1], notes[-1:], recalled[:1]):
        assert all(line in context for line in lines)
