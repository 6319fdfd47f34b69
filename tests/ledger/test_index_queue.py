"""Which records wait for the vector index, and which it should and should not hold."""

from ledgers import DAY, EMBEDDER, angle, fact, index, message, record, to_index
from local2.ledger.ledger import Ledger
from local2.ledger.records import Counts


async def count(ledger: Ledger) -> Counts:
    return await ledger.counts()


async def test_a_short_message_is_indexed_with_the_message_before_it(ledger: Ledger) -> None:
    await ledger.conversations.store(
        [
            message("Which metal is the densest?", label="Ann"),
            message("Osmium.", label="Bob"),
        ]
    )

    newest, _ = await to_index(ledger, 9)

    assert newest.text == "Bob: Osmium.\nAnn: Which metal is the densest?"


async def test_a_record_with_a_vector_counts_as_indexed(ledger: Ledger, other: Ledger) -> None:
    for each in (ledger, other):
        await each.records.store([record("One."), record("Two.")])
    await index(ledger, {"One.": 0})

    assert await count(ledger) == Counts(records=2, indexed=1, waiting=1)
    assert await count(other) == Counts(records=2, indexed=0, waiting=2)
    assert await ledger.index.indexed() == 1


async def test_a_vector_is_stored_with_its_record(ledger: Ledger) -> None:
    (written,) = await ledger.records.store([record("One.")])
    await index(ledger, {"One.": 0})
    await ledger.index.queue([written.id])

    (waiting,) = await to_index(ledger, 9)
    (for_other_embedder,) = await to_index(ledger, 9, embedder="another")
    await ledger.index.store_vectors([waiting], [], EMBEDDER)
    (sampled,) = await ledger.index.sample_indexed(9, embedder=EMBEDDER)

    assert (waiting.vector, for_other_embedder.vector, sampled.vector) == (
        angle(0),
        None,
        angle(0),
    )


async def test_a_fact_replaced_while_it_is_embedded_leaves_the_index(ledger: Ledger) -> None:
    older = await ledger.facts.store(fact("Vim.", topic="user.editor"))
    waiting = await to_index(ledger)
    await ledger.facts.store(fact("Emacs.", topic="user.editor"))
    removing = await ledger.backlog.claim({"unindex": 9}, now=DAY)
    await ledger.backlog.finish(removing)

    await ledger.index.store_vectors(waiting, [angle(0)], EMBEDDER)

    assert [task.id for task in removing] == [older.id]
    assert await ledger.backlog.claim({"unindex": 9}, now=DAY) == removing
    assert await count(ledger) == Counts(records=2, indexed=0, waiting=1)


async def test_an_emptied_index_is_refilled(ledger: Ledger, other: Ledger) -> None:
    for each in (ledger, other):
        await each.records.store([record("One."), record("Two.")])
        await index(each, {"One.": 0, "Two.": 9})

    await ledger.index.queue_all()

    assert (await count(ledger)).waiting == 2
    assert (await count(other)).waiting == 0


async def test_comparing_ids_finds_missing_and_unknown_records(ledger: Ledger) -> None:
    first, second = await ledger.records.store([record("One."), record("Two.")])
    await index(ledger, {"One.": 0, "Two.": 9})

    missing, unknown = await ledger.index.compare_ids({second.id, "stranger"})

    assert (missing, unknown) == ([first.id], ["stranger"])
