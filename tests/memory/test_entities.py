"""Entities have one spelling each, and are found by every alias that is stated for them."""

import pytest

from local2.ledger.engines.sqlite.database import Database
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.memories import OwnerScope
from recalling import recall, triplet
from stored import linked_contents

WORKS = ("Robert Smith", "works for", "Northwind")
ALSO = ("Bob", "is also known as", "Robert Smith")
WORKS_TEXT, ALSO_TEXT = "Robert Smith works for Northwind.", "Bob is also known as Robert Smith."


async def store_triplets(
    service: MemoryService, *facts: tuple[str, str, str], scope: OwnerScope = "user"
) -> list[str]:
    """Store triplets, and return the texts of the facts."""
    triplets = [triplet(*fact) for fact in facts]
    ids = [one.id for one in await service.facts.store_triplets(triplets, scope)]
    return [(await service.facts.history(id_))[0].content for id_ in ids]


async def test_a_name_keeps_its_first_spelling(richard: MemoryService) -> None:
    await store_triplets(richard, ("J. R. Smith", "works for", "Northwind"))

    stored = await store_triplets(
        richard,
        ("NORTHWIND", "sells", "tea"),
        ("JR Smith", "likes", "Tea"),
        ("Ada", "knows", "ada"),
    )

    assert stored == ["Northwind sells tea.", "J. R. Smith likes tea.", "Ada knows ada."]
    (record,) = await richard.facts.history(
        (await richard.facts.store_triplets([triplet("Jr. Smith", "likes", "TEA")], "user"))[0].id
    )
    assert record.content == "J. R. Smith likes tea."
    assert record.metadata["triplet"]["subject"] == "J. R. Smith"


async def test_spellings_of_one_user_do_not_affect_another(
    richard: MemoryService, eve: MemoryService
) -> None:
    await store_triplets(eve, ("Northwind", "sells", "tea"))
    assert await store_triplets(richard, ("northWind", "sells", "Tea")) == ["northWind sells Tea."]

    await store_triplets(eve, ("Bluepeak", "sells", "lenses"), scope="tenant")
    assert await store_triplets(richard, ("BLUEPEAK", "is in", "Oslo")) == ["Bluepeak is in Oslo."]
    await store_triplets(richard, ("Riga", "is in", "Latvia"))
    assert await store_triplets(richard, ("RIGA", "is on", "the sea"), scope="tenant") == [
        "RIGA is on the sea."
    ], "what is for everybody shows no spelling of a user's own"


async def test_a_retired_fact_does_not_determine_a_spelling(
    memory: Memory, richard: MemoryService
) -> None:
    (wrong,) = await richard.facts.store_triplets([triplet("NorthWIND", "sells", "tea")], "user")
    (newer,) = await richard.facts.store_triplets([triplet("Ada", "likes", "tea")], "user")
    (by,) = await richard.facts.history(newer.id)
    (old,) = await richard.facts.history(wrong.id)
    await memory.ledger.facts.judge(by, replaces=[old], agent="test")

    assert await store_triplets(richard, ("Northwind", "is in", "Oslo")) == [
        "Northwind is in Oslo."
    ]


@pytest.mark.parametrize("alias_first", [True, False])
async def test_facts_are_linked_through_stated_aliases(
    richard: MemoryService, database: Database, *, alias_first: bool
) -> None:
    await store_triplets(richard, *((ALSO, WORKS) if alias_first else (WORKS, ALSO)))
    await store_triplets(richard, ("Bob", "plays", "chess"))

    assert ("Bob plays chess.", WORKS_TEXT) in set(await linked_contents(database))
    assert await store_triplets(richard, ("BOB", "sings", "bass")) == ["Bob sings bass."], (
        "as it was told"
    )


async def test_without_a_stated_alias_two_names_are_different(
    richard: MemoryService, database: Database
) -> None:
    await store_triplets(
        richard, WORKS, ("Bob", "is", "Catholic"), ("Bob", "knows", "Robert Miller")
    )
    await store_triplets(richard, ("Bob", "plays", "chess"))

    assert ("Bob plays chess.", WORKS_TEXT) not in set(await linked_contents(database))
    assert WORKS_TEXT not in await recall(richard, "Where does Bob earn money?")


@pytest.mark.usefixtures("either_size")
async def test_a_question_with_an_alias_finds_facts_about_the_other_name(
    richard: MemoryService,
) -> None:
    await store_triplets(
        richard, WORKS, ("Zoltan Kiss", "runs", "Northwind"), ("Ada", "likes", "tea")
    )
    assert await recall(richard, "Who pays Bob's wages?") == []

    await store_triplets(richard, ALSO, ("Robert Smith", "goes by", "Robbie"))

    found = await recall(richard, "Who pays Bob's wages?")
    assert {WORKS_TEXT, ALSO_TEXT} <= set(found)
    assert "Zoltan Kiss runs Northwind." in found, "one step further"
    assert "Ada likes tea." not in found
    assert WORKS_TEXT in await recall(richard, "Who pays Robbie's wages?"), "step by step"


async def test_an_alias_applies_only_to_users_who_may_see_its_statement(
    richard: MemoryService, eve: MemoryService
) -> None:
    await store_triplets(richard, WORKS, scope="tenant")
    await store_triplets(richard, ALSO)
    assert await recall(eve, "Who pays Bob?") == []

    await store_triplets(richard, ALSO, scope="tenant")
    assert WORKS_TEXT in await recall(eve, "Who pays Bob?")


async def test_an_alias_ends_with_its_statement(
    memory: Memory, richard: MemoryService, database: Database
) -> None:
    written = await richard.facts.store_triplets([triplet(*WORKS), triplet(*ALSO)], "user")
    chain = [(await richard.facts.history(one.id))[0] for one in written]
    await memory.ledger.facts.judge(chain[0], replaces=[chain[1]], agent="test")

    assert await recall(richard, "Who pays Bob?") == []
    await store_triplets(richard, ("Bob", "plays", "chess"))
    assert ("Bob plays chess.", WORKS_TEXT) not in set(await linked_contents(database))


async def test_aliases_survive_a_restart(memory: Memory, richard: MemoryService) -> None:
    await store_triplets(richard, WORKS, ALSO)
    memory.ledger.knowledge._has_aliases = None  # like a process that has just started

    assert WORKS_TEXT in await recall(richard, "Who pays Bob?")
