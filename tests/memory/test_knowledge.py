"""Knowledge: triplets are facts that a person can read, known once, linked by what they name."""

import pytest

from indexed import indexed
from local.errors import InvalidArgumentsError
from local.ledger.records import SHARES_ENTITY, Fact, Written
from local.ledger.sqlite.database import Database, SqlConnection
from local.ledger.sqlite.relations import LINKED_PER_ROLE, MAX_LINKS
from local.memory.recall.recaller import RecallRequest
from local.memory.service import MemoryService
from local.memory.tenant import Memory
from local.protocol.envelope import Caller
from local.protocol.memories import OwnerScope, Triplet
from local.protocol.payloads import MemoryChange
from recalling import contents, recall

ADA = ("Ada", "works for", "Northwind")
BOSS = ("Zoltan Kiss", "runs", "Northwind")
ADA_SAID, BOSS_SAID = "Ada works for Northwind.", "Zoltan Kiss runs Northwind."
QUESTION = "Who is the boss of Ada's employer?"


@pytest.fixture
def eve(memory: Memory) -> MemoryService:
    return memory.of(Caller(tenant="default", user="eve", agent="robot"))


def triplet(subject: str, predicate: str, object_: str) -> Triplet:
    return Triplet(subject=subject, predicate=predicate, object=object_)


async def tell(
    service: MemoryService, *facts: tuple[str, str, str], scope: OwnerScope = "user"
) -> list[Written]:
    return await service.facts.store_triplets([triplet(*fact) for fact in facts], scope)


async def links(database: Database) -> list[tuple[str, str]]:
    """The contents of linked records, the newer one first."""

    def read(connection: SqlConnection) -> list[tuple[str, str]]:
        found = connection.execute(
            "SELECT newer.content, older.content FROM relation "
            "JOIN record AS newer ON newer.id = source JOIN record AS older ON older.id = target "
            "WHERE type = ? ORDER BY newer.row, older.row",
            (SHARES_ENTITY,),
        )
        return [tuple(row) for row in found]

    return await database.read(read)


async def test_a_triplet_is_a_fact_that_a_person_can_read(
    richard: MemoryService, announced: list[tuple[str, MemoryChange]]
) -> None:
    (written,) = await tell(richard, ADA)

    (record,) = await richard.facts.history(written.id)
    assert (record.kind, record.content, record.scope) == ("fact", ADA_SAID, "user")
    assert (record.owner, record.agent, record.session_id) == ("richard", "shell", "s1")
    assert record.metadata["triplet"] == {
        "subject": "Ada",
        "predicate": "works for",
        "object": "Northwind",
    }
    assert announced == [
        ("memory.saved", MemoryChange(id=written.id, kind="fact", memory_type="fact"))
    ]
    assert await recall(richard, "Northwind") == [ADA_SAID]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (("Ada", "works_for", "Northwind"), ADA_SAID),
        (("Ada", "worksFor", "Northwind"), ADA_SAID),
        (("Ada", "WORKS_FOR", "Northwind"), ADA_SAID),
        (("  Ada ", "works\n for", "Northwind"), ADA_SAID),
        (("Ada", "lives in", "Washington D.C."), "Ada lives in Washington D.C."),
        (("Ada", "speaks", "日本語"), "Ada speaks 日本語."),
    ],
)
async def test_identifiers_and_stray_spaces_become_a_sentence(
    richard: MemoryService, told: tuple[str, str, str], said: str
) -> None:
    await tell(richard, told)

    assert await recall(richard, "Ada") == [said]


async def test_what_is_known_is_not_written_again_whatever_its_capitals(
    memory: Memory, richard: MemoryService, database: Database
) -> None:
    first, boss = await tell(richard, ADA, BOSS)
    linked = await links(database)
    again = await tell(richard, ADA, BOSS, ("ada", "Works for", "NORTHWIND"))

    assert [one.was_new for one in (first, boss)] == [True, True]
    assert again == [Written(id=one.id, was_new=False) for one in (first, boss, first)]
    assert (await memory.ledger.counts()).records == 2
    assert await links(database) == linked


async def test_a_triplet_told_twice_at_once_is_one_fact(
    memory: Memory, richard: MemoryService
) -> None:
    first, second = await tell(richard, ADA, ADA)

    assert (first.id, second.was_new) == (second.id, False)
    assert (await memory.ledger.counts()).records == 1


async def test_a_sentence_remembered_before_becomes_knowledge(
    richard: MemoryService, database: Database
) -> None:
    plain = await richard.facts.store(Fact(content=ADA_SAID, scope="user"))

    assert await tell(richard, ADA) == [Written(id=plain.id, was_new=False)]
    await tell(richard, BOSS)
    assert await links(database) == [(BOSS_SAID, ADA_SAID)]


async def test_a_retired_fact_can_be_told_again(memory: Memory, richard: MemoryService) -> None:
    (first,) = await tell(richard, ADA)
    (record,) = await richard.facts.history(first.id)
    newer = await richard.facts.store(Fact(content="Ada left Northwind.", scope="user"))
    (by,) = await richard.facts.history(newer.id)
    await memory.ledger.facts.judge(by, replaces=[record], agent="test")

    (again,) = await tell(richard, ADA)

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
    await tell(richard, ADA, ("Cleo", "lives in", "Oslo"), other)

    spelled = triplet(*other).sentence().replace("NORTHWIND", "Northwind")
    assert await links(database) == [(spelled, ADA_SAID)]


async def test_an_entity_that_everybody_names_gets_a_bounded_number_of_links(
    richard: MemoryService, database: Database
) -> None:
    await tell(richard, BOSS, *((f"Clerk {n}", "works for", "Northwind") for n in range(50)))
    await tell(richard, ("Northwind", "sells", "tea"), ADA)

    newest = [older for newer, older in await links(database) if newer == ADA_SAID]
    assert newest == [
        *(f"Clerk {n} works for Northwind." for n in range(50 - LINKED_PER_ROLE, 50)),
        "Northwind sells tea.",
    ], "the crowd in one role does not hide those in the other"


async def test_a_fact_is_linked_with_a_bounded_number_of_newer_ones(
    richard: MemoryService, database: Database
) -> None:
    await tell(richard, ("Northwind", "sells", "osmium"))
    await tell(richard, *((f"Clerk {n}", "works for", "Northwind") for n in range(60)))

    linked = [older for _, older in await links(database)]
    assert linked.count("Northwind sells osmium.") == MAX_LINKS


async def test_what_others_know_privately_uses_up_no_link_of_a_fact_for_everybody(
    richard: MemoryService, eve: MemoryService, database: Database
) -> None:
    await tell(richard, BOSS, scope="tenant")
    await tell(eve, *((f"Clerk {n}", "works for", "Northwind") for n in range(MAX_LINKS + 10)))
    await tell(richard, ADA)

    assert (ADA_SAID, BOSS_SAID) in await links(database)


@pytest.mark.parametrize("told", [(ADA, BOSS), (BOSS, ADA)], ids=["forth", "back"])
async def test_a_question_of_two_steps_finds_the_second_by_its_link(
    richard: MemoryService, told: tuple[tuple[str, str, str], ...]
) -> None:
    """No word of the question is in the answer, and no vector is there."""
    await richard.facts.store(Fact(content="The piano is tuned every October.", scope="user"))
    await tell(richard, *told)

    recalled = await richard.recall(RecallRequest(query=QUESTION, top_k=20))

    assert contents(recalled) == [ADA_SAID, BOSS_SAID]
    assert recalled.items[1].shares.related > 0
    assert recalled.items[1].shares.words == 0


async def test_a_question_of_two_steps_finds_its_answer_among_hundreds_of_facts(
    searchable: Memory, richard: MemoryService
) -> None:
    clerks = [(f"Clerk {n}", "works for", f"Company {n % 40}") for n in range(200)]
    bosses = [(f"Person {n}", "is the boss of", f"Company {n}") for n in range(40)]
    answer = ("Zoltan Kiss", "is the boss of", "Northwind")
    await tell(richard, *clerks, ADA, *bosses[:20], answer, *bosses[20:])
    await indexed(searchable)

    recalled = await richard.recall(RecallRequest(query=QUESTION, top_k=20))

    found = {item.record.content: item.shares.related for item in recalled.items}
    assert ADA_SAID in found
    assert found[triplet(*answer).sentence()] > 0


async def test_knowledge_is_linked_with_what_everybody_knows_and_with_nobody_elses(
    richard: MemoryService, eve: MemoryService, database: Database
) -> None:
    await tell(eve, ("Eve", "owns", "Northwind"))
    await tell(eve, BOSS, scope="tenant")
    await tell(richard, ADA)

    assert await links(database) == [(ADA_SAID, BOSS_SAID)]
    assert await recall(richard, QUESTION) == [ADA_SAID, BOSS_SAID]
    assert await recall(eve, "Ada") == []


async def test_the_same_triplet_of_two_users_is_two_facts(
    memory: Memory, richard: MemoryService, eve: MemoryService
) -> None:
    (one,), (other,) = await tell(richard, ADA), await tell(eve, ADA)

    assert (one.was_new, other.was_new) == (True, True)
    assert (await memory.ledger.counts()).records == 2


@pytest.mark.parametrize(
    ("blank", "named"),
    [(("", "is", "b"), "subject"), (("a", " ", "b"), "predicate"), (("a", "is", "\n"), "object")],
)
async def test_a_blank_part_is_refused_by_its_name_and_nothing_is_written(
    memory: Memory, richard: MemoryService, blank: tuple[str, str, str], named: str
) -> None:
    with pytest.raises(InvalidArgumentsError, match=rf"facts\[1\]\.{named} is blank"):
        await tell(richard, ADA, blank)
    assert (await memory.ledger.counts()).records == 0


async def test_knowledge_of_nobody_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidArgumentsError, match="has no user"):
        await tell(memory.of(Caller(tenant="default", agent="shell")), ADA)


async def test_a_caller_without_knowledge_of_a_tenant_fact_still_finds_it(
    richard: MemoryService, eve: MemoryService
) -> None:
    await tell(richard, BOSS, scope="tenant")

    assert await recall(eve, "Northwind") == [BOSS_SAID]
