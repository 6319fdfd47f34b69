"""Knowledge: triplets are readable facts, stored once, and linked by the entities they name."""

import pytest

from calling import caller_named
from indexed import indexed
from local2.errors import InvalidArgumentsError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.operations.relations import LINKED_PER_ROLE, MAX_LINKS
from local2.ledger.records import Fact, Written
from local2.memory.recall.recaller import RecallRequest
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.memories import OwnerScope
from local2.protocol.payloads import MemoryChange
from recalling import contents, recall, triplet
from stored import linked_contents

ADA = ("Ada", "works for", "Northwind")
BOSS = ("Zoltan Kiss", "runs", "Northwind")
ADA_TEXT, BOSS_TEXT = "Ada works for Northwind.", "Zoltan Kiss runs Northwind."
QUESTION = "Who is the boss of Ada's employer?"


async def store_triplets(
    service: MemoryService, *facts: tuple[str, str, str], scope: OwnerScope = "user"
) -> list[Written]:
    return await service.facts.store_triplets([triplet(*fact) for fact in facts], scope)


async def test_a_triplet_is_stored_as_a_readable_fact(
    richard: MemoryService, announced: list[tuple[str, MemoryChange]]
) -> None:
    (written,) = await store_triplets(richard, ADA)

    (record,) = await richard.facts.history(written.id)
    assert (record.kind, record.content, record.scope) == ("fact", ADA_TEXT, "user")
    assert (record.owner, record.agent, record.session_id) == ("richard", "shell", "s1")
    assert record.metadata["triplet"] == {
        "subject": "Ada",
        "predicate": "works for",
        "object": "Northwind",
    }
    assert announced == [
        ("memory.saved", MemoryChange(id=written.id, kind="fact", memory_type="fact"))
    ]
    assert await recall(richard, "Northwind") == [ADA_TEXT]


@pytest.mark.parametrize(
    ("triplets", "sentence"),
    [
        (("Ada", "works_for", "Northwind"), ADA_TEXT),
        (("Ada", "worksFor", "Northwind"), ADA_TEXT),
        (("Ada", "WORKS_FOR", "Northwind"), ADA_TEXT),
        (("  Ada ", "works\n for", "Northwind"), ADA_TEXT),
        (("Ada", "lives in", "Washington D.C."), "Ada lives in Washington D.C."),
        (("Ada", "speaks", "日本語"), "Ada speaks 日本語."),
    ],
)
async def test_identifiers_and_stray_spaces_become_a_sentence(
    richard: MemoryService, triplets: tuple[str, str, str], sentence: str
) -> None:
    await store_triplets(richard, triplets)

    assert await recall(richard, "Ada") == [sentence]


async def test_a_known_triplet_is_not_stored_again_in_any_case(
    memory: Memory, richard: MemoryService, database: Database
) -> None:
    first, boss = await store_triplets(richard, ADA, BOSS)
    linked = await linked_contents(database)
    again = await store_triplets(richard, ADA, BOSS, ("ada", "Works for", "NORTHWIND"))

    assert [one.was_new for one in (first, boss)] == [True, True]
    assert again == [Written(id=one.id, was_new=False) for one in (first, boss, first)]
    assert (await memory.ledger.counts()).records == 2
    assert await linked_contents(database) == linked


async def test_a_sentence_stored_earlier_becomes_knowledge(
    richard: MemoryService, database: Database
) -> None:
    plain = await richard.facts.store(Fact(content=ADA_TEXT, scope="user"))

    assert await store_triplets(richard, ADA) == [Written(id=plain.id, was_new=False)]
    await store_triplets(richard, BOSS)
    assert await linked_contents(database) == [(BOSS_TEXT, ADA_TEXT)]


async def test_a_retired_fact_can_be_stored_again(memory: Memory, richard: MemoryService) -> None:
    (first,) = await store_triplets(richard, ADA)
    (record,) = await richard.facts.history(first.id)
    newer = await richard.facts.store(Fact(content="Ada left Northwind.", scope="user"))
    (by,) = await richard.facts.history(newer.id)
    await memory.ledger.facts.judge(by, replaces=[record], agent="test")

    (again,) = await store_triplets(richard, ADA)

    assert again.was_new
    assert again.id != first.id


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(BOSS, id="same object"),
        pytest.param(("Ada", "plays", "chess"), id="same subject"),
        pytest.param(("Northwind", "sells", "tea"), id="object is subject"),
        pytest.param(("Bob", "married", "Ada"), id="subject is object"),
        pytest.param(("NORTHWIND", "sells", "tea"), id="other capitals"),
    ],
)
async def test_facts_that_name_the_same_entity_are_linked_once(
    richard: MemoryService, database: Database, other: tuple[str, str, str]
) -> None:
    await store_triplets(richard, ADA, ("Cleo", "lives in", "Oslo"), other)

    spelled = triplet(*other).sentence().replace("NORTHWIND", "Northwind")
    assert await linked_contents(database) == [(spelled, ADA_TEXT)]


async def test_a_frequently_named_entity_has_a_bounded_number_of_links(
    richard: MemoryService, database: Database
) -> None:
    await store_triplets(
        richard, BOSS, *((f"Clerk {n}", "works for", "Northwind") for n in range(50))
    )
    await store_triplets(richard, ("Northwind", "sells", "tea"), ADA)

    newest = [older for newer, older in await linked_contents(database) if newer == ADA_TEXT]
    assert newest == [
        *(f"Clerk {n} works for Northwind." for n in range(50 - LINKED_PER_ROLE, 50)),
        "Northwind sells tea.",
    ], "the crowd in one role does not hide those in the other"


async def test_a_fact_is_linked_with_a_bounded_number_of_newer_ones(
    richard: MemoryService, database: Database
) -> None:
    await store_triplets(richard, ("Northwind", "sells", "osmium"))
    await store_triplets(richard, *((f"Clerk {n}", "works for", "Northwind") for n in range(60)))

    linked = [older for _, older in await linked_contents(database)]
    assert linked.count("Northwind sells osmium.") == MAX_LINKS


async def test_other_users_private_facts_do_not_use_up_the_links_of_a_shared_fact(
    richard: MemoryService, eve: MemoryService, database: Database
) -> None:
    await store_triplets(richard, BOSS, scope="tenant")
    await store_triplets(
        eve, *((f"Clerk {n}", "works for", "Northwind") for n in range(MAX_LINKS + 10))
    )
    await store_triplets(richard, ADA)

    assert (ADA_TEXT, BOSS_TEXT) in await linked_contents(database)


@pytest.mark.parametrize("triplets", [(ADA, BOSS), (BOSS, ADA)], ids=["forth", "back"])
async def test_a_question_of_two_steps_finds_the_second_by_its_link(
    richard: MemoryService, triplets: tuple[tuple[str, str, str], ...]
) -> None:
    """The answer shares no word with the question, and there are no vectors."""
    await richard.facts.store(Fact(content="The piano is tuned every October.", scope="user"))
    await store_triplets(richard, *triplets)

    recalled = await richard.recall(RecallRequest(query=QUESTION, top_k=20))

    assert contents(recalled) == [ADA_TEXT, BOSS_TEXT]
    assert recalled.items[1].shares.related > 0
    assert recalled.items[1].shares.words == 0


async def test_a_question_of_two_steps_finds_its_answer_among_hundreds_of_facts(
    searchable: Memory, richard: MemoryService
) -> None:
    clerks = [(f"Clerk {n}", "works for", f"Company {n % 40}") for n in range(200)]
    bosses = [(f"Person {n}", "is the boss of", f"Company {n}") for n in range(40)]
    answer = ("Zoltan Kiss", "is the boss of", "Northwind")
    await store_triplets(richard, *clerks, ADA, *bosses[:20], answer, *bosses[20:])
    await indexed(searchable)

    recalled = await richard.recall(RecallRequest(query=QUESTION, top_k=20))

    found = {item.record.content: item.shares.related for item in recalled.items}
    assert ADA_TEXT in found
    assert found[triplet(*answer).sentence()] > 0


async def test_knowledge_is_linked_with_shared_facts_but_not_with_those_of_others(
    richard: MemoryService, eve: MemoryService, database: Database
) -> None:
    await store_triplets(eve, ("Eve", "owns", "Northwind"))
    await store_triplets(eve, BOSS, scope="tenant")
    await store_triplets(richard, ADA)

    assert await linked_contents(database) == [(ADA_TEXT, BOSS_TEXT)]
    assert await recall(richard, QUESTION) == [ADA_TEXT, BOSS_TEXT]
    assert await recall(eve, "Ada") == []


async def test_the_same_triplet_of_two_users_is_two_facts(
    memory: Memory, richard: MemoryService, eve: MemoryService
) -> None:
    (one,), (other,) = await store_triplets(richard, ADA), await store_triplets(eve, ADA)

    assert (one.was_new, other.was_new) == (True, True)
    assert (await memory.ledger.counts()).records == 2


async def test_private_knowledge_without_a_user_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidArgumentsError, match="has no user"):
        await store_triplets(memory.of(caller_named(None, agent="shell")), ADA)
