"""Records: each id is stored once, complete and durable, for one tenant."""

import msgspec
import pytest

from ledgers import DAY, fact, message, record
from local2.errors import StorageError
from local2.ledger.ledger import Ledger
from local2.ledger.records import DERIVED_FROM, NewRecord, Record

WHOLE = NewRecord(
    id="r1",
    kind="document_chunk",
    content="Osmium is heavy. Ősz. 鋨",
    event_time=DAY,
    scope="tenant",
    owner="",
    topic=None,
    label="Metals › Osmium",  # noqa: RUF001 - as between breadcrumbs
    role="user",
    source_ref="metals.md#1",
    memory_type="fact",
    durability="ephemeral",
    importance=0.75,
    metadata={"nested": {"list": [1, None, "x"]}},
    agent="shell",
    session_id="s1",
    query_id="q1",
    turn="t1",
    stands_at=0.5,
    alias="also r1",
    pending=True,
    source_class="stated",
    stated_by="ada",
    summary="Heavy.",
    keywords=("metal", "density"),
    queries=("How heavy is osmium?",),
    confidence=0.9,
)


def written_fields(stored: Record) -> NewRecord:
    fields = {name: getattr(stored, name) for name in NewRecord.__struct_fields__}
    return NewRecord(**fields)


async def test_every_field_of_a_record_is_stored(ledger: Ledger) -> None:
    (written,) = await ledger.records.store([WHOLE])

    (stored,) = await ledger.records.chain(WHOLE.id)
    assert (written.id, written.was_new) == (WHOLE.id, True)
    assert written_fields(stored) == WHOLE
    assert (stored.superseded_by, stored.score) == (None, None)


async def test_a_shown_record_is_returned_with_its_turn_and_its_sources(ledger: Ledger) -> None:
    source, shown, in_same_turn, asking = (
        record("Source."),
        record("Shown, and long."),
        message("Beside."),
        message("Asking."),
    )
    shown, in_same_turn = (msgspec.structs.replace(one, turn="t1") for one in (shown, in_same_turn))
    asking = msgspec.structs.replace(asking, turn="t2")
    await ledger.records.store([source, shown, in_same_turn, asking, record("Nothing of it.")])
    await ledger.facts.relate(shown.id, DERIVED_FROM, source.id)

    found = await ledger.records.shown([shown.id, asking.id], excluded_turn="t2", characters=5)

    assert {(one.id, one.content) for one in found} == {
        (source.id, "Sourc"),
        (shown.id, "Shown"),
        (in_same_turn.id, "Besid"),
    }
    of_any_turn = await ledger.records.shown(
        [shown.id, asking.id], excluded_turn=None, characters=5
    )
    assert {one.id for one in of_any_turn} == {source.id, shown.id, in_same_turn.id, asking.id}


@pytest.mark.parametrize("count", [0, 1, 1_001])
async def test_many_records_are_stored_in_their_order(ledger: Ledger, count: int) -> None:
    records = [record(f"Note {n}.") for n in range(count)]

    written = await ledger.records.store(records)

    assert [one.id for one in written] == [one.id for one in records]
    assert (await ledger.counts()).records == count


async def test_a_duplicate_id_in_one_batch_is_stored_once(ledger: Ledger) -> None:
    first, second = record("The first."), record("The second.")
    again = msgspec.structs.replace(first, content="Another one.")

    written = await ledger.records.store([first, again, second])

    assert [one.was_new for one in written] == [True, False, True]
    assert [stored.content for stored in await ledger.records.chain(first.id)] == ["The first."]


async def test_each_record_of_a_batch_gets_its_tasks(ledger: Ledger) -> None:
    stated = message("I like tea.", tasks=("extract",))
    blank = record("", kind="transcript")

    await ledger.records.store([stated, message("So do I."), blank, stated])

    counts = {one.kind: one.waiting for one in await ledger.backlog.counts()}
    assert counts == {"extract": 1, "index": 2}


async def test_a_refused_batch_is_not_stored_with_the_next_one(ledger: Ledger) -> None:
    refused = [fact(f"It is osmium {n}.", topic="user.metal") for n in range(2)]
    with pytest.raises(StorageError):
        await ledger.records.store(refused)

    stored_later = fact("It is iridium.")
    await ledger.records.store([stored_later])

    assert (await ledger.counts()).records == 1
    assert [one.id for one in await ledger.records.chain(stored_later.id)] == [stored_later.id]
