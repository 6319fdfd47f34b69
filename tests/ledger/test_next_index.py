"""While an index of another embedder is filled, records have vectors of both embedders."""

from ledgers import EMBEDDER, angle, find, index, record, searching, to_index, vector_result
from local2.ledger.ledger import Ledger
from local2.ledger.operations.index import Waiting
from local2.ledger.records import Task
from local2.protocol.envelope import utc_now

OTHER = "sphere"


async def tasks(ledger: Ledger) -> list[Task]:
    return await ledger.backlog.claim({"embed": 99}, now=utc_now())


async def waiting(ledger: Ledger) -> list[Waiting]:
    return await ledger.index.waiting(await tasks(ledger), embedder=OTHER, kind="embed")


async def embed(ledger: Ledger, degrees: float) -> None:
    """Store this vector for every record that waits for the other index."""
    found = await waiting(ledger)
    made = [angle(degrees) for one in found if one.vector is None]
    await ledger.index.store_vectors(found, made, OTHER, kind="embed")


async def test_a_record_indexed_meanwhile_also_waits_for_the_other_index(ledger: Ledger) -> None:
    await ledger.records.store([record("One.", id="m1")])
    await index(ledger, {"One.": 0.0})
    assert await ledger.index.count_to_embed() == 0

    ledger.index.next = OTHER
    await ledger.records.store([record("Two.", id="m2")])
    await ledger.index.queue(["m1"], kind="embed")
    await index(ledger, {"Two.": 0.0})

    # Stacks that share a ledger compare the other index with it again instead.
    late = set() if ledger.index.is_shared else {"m2"}
    assert {one.id for one in await tasks(ledger)} == {"m1"} | late
    await embed(ledger, 90.0)
    assert await ledger.index.count_to_embed() == 0


async def test_each_embedder_is_compared_with_its_own_vectors(ledger: Ledger) -> None:
    ledger.index.next = OTHER
    await ledger.records.store([record("One.", id="m1")])
    await index(ledger, {"One.": 0.0})
    await ledger.index.queue(["m1"], kind="embed")
    await embed(ledger, 90.0)

    first = await find(ledger, searching("one"), vector_result(0.0, ["m1"]))
    other = vector_result(0.0, ["m1"])
    assert other.hits is not None
    other.hits.embedder = OTHER
    second = await find(ledger, searching("one"), other)

    assert (first.cosines(), second.cosines()) == ({"One.": 1.0}, {"One.": 0.0})


async def test_the_former_embedders_vectors_can_be_deleted(ledger: Ledger, other: Ledger) -> None:
    ledger.index.next = OTHER
    for one in (ledger, other):
        await one.records.store([record("One.", id="m1")])
        await index(one, {"One.": 0.0})
    await ledger.index.queue(["m1"], kind="embed")
    await embed(ledger, 90.0)

    await ledger.index.keep_vectors_of(OTHER)

    sampled = [await ledger.index.sample_indexed(9, embedder=name) for name in (EMBEDDER, OTHER)]
    assert [len(sample) for sample in sampled] == [0, 1]
    assert await other.index.sample_indexed(9, embedder=EMBEDDER), "another tenant's stays"


async def test_dropping_the_embed_tasks_withdraws_waiting_records(ledger: Ledger) -> None:
    await ledger.records.store([record("One.", id="m1")])
    await index(ledger, {"One.": 0.0})
    await ledger.index.queue(["m1"], kind="embed")

    await ledger.index.drop_embed_tasks()

    assert await tasks(ledger) == []
    assert await to_index(ledger) == []


async def test_a_record_the_other_index_refused_waits_for_the_current_one(
    ledger: Ledger,
) -> None:
    await ledger.records.store([record("One.", id="m1"), record("Two.", id="m2")])
    await index(ledger, {"One.": 0.0, "Two.": 0.0})
    await ledger.index.queue(["m1", "m2"], kind="embed")
    (refused,) = [task for task in await tasks(ledger) if task.id == "m1"]
    await ledger.backlog.set_aside(refused, "too odd")

    await ledger.index.drop_embed_tasks()

    assert [one.id for one in await to_index(ledger, embedder=OTHER)] == ["m1"]
    assert [one.kind for one in await ledger.backlog.counts()] == ["index"]


async def test_a_new_vector_replaces_that_of_an_embedder_without_an_index(ledger: Ledger) -> None:
    await ledger.records.store([record("One.", id="m1")])
    await index(ledger, {"One.": 0.0})
    await ledger.index.queue_all()
    found = await to_index(ledger, embedder=OTHER)

    await ledger.index.store_vectors(found, [angle(90.0)], OTHER)

    assert await ledger.index.sample_indexed(9, embedder=EMBEDDER) == []
