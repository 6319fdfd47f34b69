"""Texts come back as they came, although those of PostgreSQL cannot hold NUL."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from ledgers import record
from local2.ledger.engines.postgres.connections import escaped, unescaped
from local2.ledger.engines.postgres.database import Database
from local2.ledger.ledger import Ledger

SPECIAL = '\x00\x1a\\u0z19{}"é'
TEXTS = st.text(st.sampled_from(SPECIAL), max_size=20) | st.text(max_size=20)


@given(TEXTS)
@example("\x1az\x00\\u0000\\u001az\\\\u0000")
def test_what_is_escaped_is_unescaped_to_the_same(text: str) -> None:
    kept = escaped(text)

    assert "\x00" not in kept
    assert unescaped(kept) == text


@given(TEXTS.filter(lambda text: text.isascii()))
def test_a_text_in_json_is_the_text_that_stands_alone(text: str) -> None:
    kept = escaped(json.dumps(text))

    assert json.loads(kept) == escaped(text)
    assert json.loads(unescaped(kept)) == text


async def test_a_record_keeps_every_character(here: Database) -> None:
    ledger = Ledger(here, "default")
    text = "Gold\x00 and \x1a and \\u0000."
    new = record(text, id="a\x00b", metadata={"note": "le\x00ad"}, queries=("wh\x00o",))

    await ledger.records.store([new])

    found = (await ledger.records.by_id([new.id]))[new.id]
    assert (found.content, found.metadata, found.queries) == (text, new.metadata, new.queries)
    (at,) = await ledger.records.at([found.row])
    assert at.id == new.id
