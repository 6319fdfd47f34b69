"""Facts: one is active under a topic, the earlier ones are history, and triplets are linked."""

import asyncio
from typing import Any

import pytest

from ledgers import OWNER, fact, no_vector_result, searching, unjudged
from local2.ledger.ledger import Ledger
from local2.ledger.operations.relations import TripletFact
from local2.ledger.records import NewRecord, Written
from local2.ledger.search import Choice, DetailRequest, Matches, VectorResult, WordMatches
from local2.protocol.memories import Triplet

TOPIC = "user.language"


async def active_content(ledger: Ledger, topic: str = TOPIC) -> str | None:
    found = await ledger.facts.topic("user", OWNER, topic)
    return found.content if found else None


def language(content: str, topic: str = TOPIC) -> NewRecord:
    return fact(content, topic=topic)


async def test_a_topic_ignores_case_and_is_shown_as_first_written(ledger: Ledger) -> None:
    await ledger.facts.store(language("Elixir", "user.Sprache"))

    written = await ledger.facts.store(language("Python", "USER.sprache"))

    assert written.topic == "user.Sprache"
    assert await active_content(ledger, "user.SPRACHE") == "Python"


async def test_of_facts_stored_concurrently_one_is_active(ledger: Ledger) -> None:
    facts = [language(f"Language {n}") for n in range(20)]

    written = await asyncio.gather(*map(ledger.facts.store, facts))

    history = await ledger.facts.history("user", OWNER, TOPIC)
    assert all(one.was_new for one in written)
    assert [one.superseded_by is None for one in history] == [True] + 19 * [False]


async def test_a_fact_judged_outdated_is_replaced_once_and_by_an_active_fact(
    ledger: Ledger,
) -> None:
    cities = [fact(city, tasks=("judge",)) for city in ("Berlin.", "Rome.", "Oslo.")]
    written = [await ledger.facts.store(city) for city in cities]
    berlin, rome, oslo = [(await ledger.records.chain(one.id))[0] for one in written]

    assert await ledger.facts.judge(rome, replaces=[berlin], agent="judge") == [berlin]
    assert await ledger.facts.judge(oslo, replaces=[berlin], agent="judge") == []
    assert await ledger.facts.judge(berlin, replaces=[oslo], agent="judge") == [], "it stands not"

    chain = await ledger.records.chain(berlin.id)
    assert [(one.id, one.superseded_by) for one in chain] == [(rome.id, None), (berlin.id, rome.id)]


async def test_a_fact_is_judged_once_with_its_verdicts(ledger: Ledger) -> None:
    facts = [fact(f"Fact {n}.", tasks=("judge",)) for n in range(3)]
    for one in (*facts, fact("Known to be true.")):
        await ledger.facts.store(one)
    assert await unjudged(ledger) == ["Fact 0.", "Fact 1.", "Fact 2."]

    (third,) = await ledger.records.chain(facts[2].id)
    (first,) = await ledger.records.chain(facts[0].id)
    await ledger.facts.judge(third, replaces=[first], agent="judge")

    assert await unjudged(ledger) == ["Fact 1."], "what is replaced is judged no more"


def triplet_facts(*triplets: tuple[str, str, str], **columns: Any) -> list[TripletFact]:
    made = [Triplet(subject=s, predicate=p, object=o) for s, p, o in triplets]
    return [TripletFact(triplet=one, record=fact(one.sentence(), **columns)) for one in made]


async def store_triplets(ledger: Ledger, *triplets: tuple[str, str, str]) -> list[Written]:
    return await ledger.knowledge.store(triplet_facts(*triplets))


async def test_triplets_are_facts_and_stored_once(ledger: Ledger) -> None:
    ada, same = await store_triplets(
        ledger, ("Ada", "works for", "Northwind"), ("ADA", "works for", "northwind")
    )

    assert (ada.was_new, same.was_new, same.id) == (True, False, ada.id)
    assert (await ledger.counts()).records == 1


async def test_triplets_stored_together_are_all_stored_or_none(ledger: Ledger) -> None:
    whole = triplet_facts(("Ada", "works for", "Northwind"))
    broken = triplet_facts(("Ada", "lives in", "Bonn"), metadata={"of no form": object()})

    with pytest.raises(TypeError):
        await ledger.knowledge.store([*whole, *broken])

    assert (await ledger.counts()).records == 0


async def test_triplets_that_name_the_same_entity_lead_to_each_other(ledger: Ledger) -> None:
    await store_triplets(
        ledger,
        ("Ada", "works for", "Northwind"),
        ("Zoltan", "is the boss of", "Northwind"),
        ("Eve", "sells", "osmium"),
    )

    def related(found: Matches, _: WordMatches) -> Choice[set[frozenset[str]]]:
        rows = found.view.rows
        links = (yield DetailRequest(related=rows)).related
        records = (yield DetailRequest(records=rows)).records
        return {
            frozenset({records[row].content, records[to.row].content})
            for row, others in links.items()
            for to in others
        }

    async def choose(_: int) -> VectorResult:
        return no_vector_result()

    search = searching("northwind", "osmium")
    linked = await ledger.searches.find(search, choose, lambda worded: worded, related)

    assert linked == {frozenset({"Ada works for Northwind.", "Zoltan is the boss of Northwind."})}
