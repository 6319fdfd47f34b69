"""Texts come back as they came, although those of PostgreSQL cannot hold NUL."""

import json

from hypothesis import given
from hypothesis import strategies as st

from ledgers import record
from local2.ledger.engines.postgres.connections import escaped, unescaped
from local2.ledger.ledger import Ledger
from local2.ledger.operations.transactions import as_json

SPECIAL = ["\x00", "\x1a", "\\u0000", "\\u001a", "\\", "u0000", "u001a", "z", "s", '"', "é"]
"""What is escaped, the same written out as JSON does, and what may stand beside it."""
TEXTS = st.lists(st.sampled_from(SPECIAL), max_size=8).map("".join) | st.text(max_size=20)


@given(TEXTS)
def test_what_is_escaped_is_unescaped_to_the_same(text: str) -> None:
    kept = escaped(text)

    assert "\x00" not in kept
    assert unescaped(kept) == text


@given(TEXTS)
def test_a_text_in_json_is_the_text_that_stands_alone(text: str) -> None:
    """In the JSON that PostgreSQL is sent, and in that which it makes of a text it has."""
    sent = escaped(as_json(text))
    made = json.dumps(escaped(text))

    assert json.loads(sent) == escaped(text)
    assert json.loads(unescaped(sent)) == text
    assert json.loads(unescaped(made)) == text


async def test_a_record_keeps_every_character(ledger: Ledger) -> None:
    text = "Gold\x00 and \x1a and \\u0000 and \\u001a."
    new = record(text, id=text, metadata={"note": text}, queries=(text,))

    await ledger.records.store([new])

    found = (await ledger.records.by_id([text]))[text]
    assert (found.content, found.metadata, found.queries) == (text, new.metadata, new.queries)
    (at,) = await ledger.records.at([found.row])
    assert at.id == text
