"""Which facts a judge is asked about, and what its verdicts do; it says what a test tells it to."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial

import pytest

from indexed import indexed, paused_indexing
from ledgers import unjudged
from local.errors import ModelError, VectorError
from local.ledger.records import Record
from local.ledger.sqlite.database import Database, SqlConnection
from local.memory.recall.recaller import Closeness, Retrieval
from local.memory.service import MemoryService
from local.memory.tenant import Memory
from local.memory.upkeep.supersession import Judge, Supersession, Verdict
from local.protocol.envelope import Caller
from local.protocol.payloads import MemoryChange
from local.protocol.vectors import VectorHits
from local.vectors.minilm import MiniLM
from recalling import remember
from waiting import eventually

BERLIN = "We live in Berlin."
ROME = "We live in Rome now."
PIANO = "The piano is tuned every October."


class ToldJudge(Judge):
    """Says what it was told to, "unrelated" else, once it may; notes what it is asked."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, str], Verdict] = {}
        self.asked: dict[str, list[str]] = {}
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def verdicts(self, fact: Record, older: Sequence[Record]) -> list[Verdict]:
        self.asked[fact.content] = [record.content for record in older]
        await self.may_answer.wait()
        return [self.told.get((fact.content, record.content), "unrelated") for record in older]


@pytest.fixture
def judge() -> ToldJudge:
    return ToldJudge()


@pytest.fixture
def richard(searchable: Memory) -> MemoryService:
    return searchable.of(Caller(tenant="default", user="richard", agent="shell"))


@pytest.fixture
def looks(searchable: Memory, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the vectors were searched for."""
    search = searchable.vectors.search
    looks: list[str] = []

    async def noted(text: str, limit: int, *, tenant: str) -> VectorHits:
        looks.append(text)
        return await search(text, limit, tenant=tenant)

    monkeypatch.setattr(searchable.vectors, "search", noted)
    return looks


@asynccontextmanager
async def judging(
    memory: Memory, judge: Judge, *, top_k: int = 5, distance: float = 2.0
) -> AsyncIterator[None]:
    """Judge what is remembered in the context, and nothing from before."""
    closeness = Closeness(top_k=top_k, distance=distance)
    retrieval = Retrieval(memory.ledger, memory.indexer, memory.vectors)
    job = Supersession(memory.ledger, retrieval, memory.changes, judge, closeness)
    judging = asyncio.create_task(memory.backlog.add(job).run())
    try:
        yield
    finally:
        judging.cancel()
        with suppress(asyncio.CancelledError):
            await judging


async def judged(memory: Memory) -> None:
    async def nothing_waits() -> bool:
        return not await unjudged(memory.ledger)

    await eventually(nothing_waits)


async def successors(service: MemoryService, record_id: str) -> dict[str, str | None]:
    """By its id, what took the place of each version."""
    return {version.id: version.superseded_by for version in await service.facts.history(record_id)}


async def relations(database: Database) -> list[tuple[str, ...]]:
    def read(connection: SqlConnection) -> list[tuple[str, ...]]:
        found = connection.execute("SELECT source, type, target FROM relation")
        return [tuple(row) for row in found]

    return await database.read(read)


async def test_the_nearest_few_are_compared_and_no_others(
    searchable: Memory, richard: MemoryService, judge: ToldJudge, embedder: MiniLM
) -> None:
    older = [
        BERLIN,
        "We live in Bonn.",
        "We live in Oslo.",
        "They live in a large city.",
        "She moved to Italy last summer.",
        "The cat sleeps on the sofa.",
        PIANO,
    ]
    for content in older:
        await remember(richard, content)
    question, *vectors = embedder.embed_queries([ROME, *older])
    cosines = {content: vector @ question for content, vector in zip(older, vectors, strict=True)}

    async with judging(searchable, judge, top_k=5):
        await remember(richard, ROME)
        await judged(searchable)

    nearest = sorted(older, key=lambda content: -cosines[content])[:5]
    assert set(nearest) == set(older[:5])
    assert {content: sorted(asked) for content, asked in judge.asked.items()} == {
        ROME: sorted(nearest)
    }


@pytest.mark.parametrize(
    ("distance", "asked"),
    [
        pytest.param(0.3, {BERLIN}, id="near"),
        pytest.param(2.0, {BERLIN, PIANO}, id="any"),
    ],
)
async def test_what_is_farther_away_than_the_distance_is_not_compared(
    searchable: Memory, richard: MemoryService, judge: ToldJudge, distance: float, asked: set[str]
) -> None:
    for content in (PIANO, BERLIN):
        await remember(richard, content)

    async with judging(searchable, judge, distance=distance):
        await remember(richard, "We live in Berlin now.")
        await judged(searchable)

    assert [set(one) for one in judge.asked.values()] == [asked]


async def test_facts_of_others_and_of_other_scopes_are_never_compared(
    searchable: Memory, richard: MemoryService, judge: ToldJudge
) -> None:
    eve = searchable.of(Caller(tenant="default", user="eve", agent="shell"))
    await remember(eve, "We live in Bonn.")
    await remember(richard, "We live in Oslo.", scope="agent")
    await remember(richard, "We live in Madrid.", scope="tenant")
    await richard.write_episodic("We live in Paris.")
    await remember(richard, BERLIN)

    async with judging(searchable, judge):
        await remember(richard, ROME)
        await judged(searchable)

    assert judge.asked == {ROME: [BERLIN]}


async def test_of_facts_that_are_judged_late_none_is_compared_with_a_newer_one(
    searchable: Memory, richard: MemoryService, judge: ToldJudge
) -> None:
    async with judging(searchable, judge):
        async with paused_indexing(searchable):
            for day, content in enumerate((BERLIN, ROME), start=1):
                searchable.clock = partial(datetime, 2026, 5, day, tzinfo=UTC)
                await remember(richard, content)
        await judged(searchable)

    assert judge.asked == {ROME: [BERLIN]}


async def test_nothing_is_judged_while_a_fact_waits_for_its_vector(
    searchable: Memory, richard: MemoryService, judge: ToldJudge, looks: list[str]
) -> None:
    await remember(richard, PIANO)
    await indexed(searchable)
    await eventually(lambda: searchable.indexer.problem is None)

    async with judging(searchable, judge):
        async with paused_indexing(searchable):
            await remember(richard, BERLIN)
            await eventually(lambda: len(looks) > 1)
            assert judge.asked == {}, "it looked again, and has asked nothing"
        await judged(searchable)

    assert judge.asked == {BERLIN: [PIANO]}


async def test_nothing_is_judged_while_the_vectors_cannot_be_searched(
    searchable: Memory,
    richard: MemoryService,
    judge: ToldJudge,
    looks: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(text: str, *_: object, **__: object) -> VectorHits:
        looks.append(text)
        raise VectorError("The vector worker ended.")

    await remember(richard, PIANO)
    async with judging(searchable, judge):
        with monkeypatch.context() as patch:
            patch.setattr(searchable.vectors, "search", fail)
            await remember(richard, BERLIN)
            await indexed(searchable)
            before = len(looks)
            await eventually(lambda: len(looks) > before + 1)
            assert judge.asked == {}, "it looked again, and has asked nothing"
        await judged(searchable)

    assert judge.asked == {BERLIN: [PIANO]}


async def test_a_fact_that_was_replaced_while_it_was_judged_replaces_nothing(
    searchable: Memory, richard: MemoryService, judge: ToldJudge
) -> None:
    berlin = await remember(richard, BERLIN)
    judge.told[ROME, BERLIN] = "replaces"
    judge.may_answer.clear()

    async with judging(searchable, judge):
        rome = await remember(richard, ROME, topic="user.city")
        await eventually(lambda: judge.asked)
        oslo = await remember(richard, "Oslo.", topic="user.city")
        judge.may_answer.set()
        await eventually(lambda: "Oslo." in judge.asked)
        await judged(searchable)

    assert await successors(richard, berlin) == {berlin: None}
    assert await successors(richard, rome) == {oslo: None, rome: oslo}


async def test_a_fact_that_was_replaced_meanwhile_is_not_replaced_again(
    searchable: Memory,
    richard: MemoryService,
    judge: ToldJudge,
    announced: list[tuple[str, MemoryChange]],
) -> None:
    berlin = await remember(richard, BERLIN, topic="user.city")
    judge.told[ROME, BERLIN] = "replaces"
    judge.may_answer.clear()

    async with judging(searchable, judge):
        await remember(richard, ROME)
        await eventually(lambda: judge.asked)
        oslo = await remember(richard, "Oslo.", topic="user.city")
        judge.may_answer.set()
        await judged(searchable)

    assert await successors(richard, berlin) == {oslo: None, berlin: oslo}
    told = [change.superseded_by for subject, change in announced if subject.endswith("superseded")]
    assert told == [oslo]


async def test_a_topic_that_was_asked_for_lately_is_gone_once_its_fact_is_retired(
    searchable: Memory, richard: MemoryService, judge: ToldJudge
) -> None:
    await remember(richard, BERLIN, topic="user.city")
    assert await richard.recall_topic("user.city") == BERLIN
    judge.told[ROME, BERLIN] = "replaces"

    async with judging(searchable, judge):
        await remember(richard, ROME)
        await judged(searchable)

    assert await richard.recall_topic("user.city") is None


async def test_facts_that_support_each_other_are_related_and_both_stay(
    searchable: Memory, richard: MemoryService, judge: ToldJudge, database: Database
) -> None:
    berlin = await remember(richard, BERLIN)
    await remember(richard, PIANO)
    mitte = "Our flat is in Mitte."
    judge.told[mitte, BERLIN] = "supports"

    async with judging(searchable, judge):
        newer = await remember(richard, mitte)
        await judged(searchable)

    assert await relations(database) == [(newer, "supports", berlin)]
    for record_id in (newer, berlin):
        assert await successors(richard, record_id) == {record_id: None}


async def test_of_several_verdicts_each_is_carried_out(
    searchable: Memory, richard: MemoryService, judge: ToldJudge, database: Database
) -> None:
    bonn = "We live in Bonn."
    ids = {content: await remember(richard, content) for content in (BERLIN, bonn, PIANO)}
    judge.told = {(ROME, BERLIN): "replaces", (ROME, bonn): "supports"}

    async with judging(searchable, judge):
        rome = await remember(richard, ROME)
        await judged(searchable)

    assert await successors(richard, ids[BERLIN]) == {rome: None, ids[BERLIN]: rome}
    assert await successors(richard, ids[bonn]) == {ids[bonn]: None}
    assert await successors(richard, ids[PIANO]) == {ids[PIANO]: None}
    assert await relations(database) == [(rome, "supports", ids[bonn])]


async def test_of_facts_told_in_one_moment_the_later_one_stays(
    searchable: Memory, judge: ToldJudge, richard: MemoryService
) -> None:
    searchable.clock = partial(datetime, 2026, 5, 1, tzinfo=UTC)
    judge.told = {(BERLIN, ROME): "replaces", (ROME, BERLIN): "replaces"}
    async with judging(searchable, judge):
        async with paused_indexing(searchable):
            berlin = await remember(richard, BERLIN)
            rome = await remember(richard, ROME)
        await judged(searchable)

    assert await successors(richard, rome) == {berlin: rome, rome: None}


async def test_newer_facts_take_no_place_among_those_a_fact_is_compared_with(
    searchable: Memory, judge: ToldJudge, richard: MemoryService
) -> None:
    async with judging(searchable, judge, top_k=2):
        await remember(richard, BERLIN)
        await judged(searchable)
        async with paused_indexing(searchable):
            for more in ("", " Near the Tiber.", " Really."):
                await remember(richard, f"{ROME}{more}")
        await judged(searchable)

    assert judge.asked[ROME] == [BERLIN]


async def test_a_fact_that_the_model_never_finishes_holds_nobody_up(
    searchable: Memory, judge: ToldJudge, richard: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = judge.verdicts

    async def slow_for_one(fact: Record, older: Sequence[Record]) -> list[Verdict]:
        if fact.content == PIANO:
            raise ModelError("It took too long.")
        return await verdicts(fact, older)

    monkeypatch.setattr(judge, "verdicts", slow_for_one)
    eve = searchable.of(Caller(tenant="default", user="eve", agent="shell"))
    async with judging(searchable, judge):
        await remember(richard, BERLIN)
        await remember(eve, BERLIN)
        await judged(searchable)
        await remember(richard, PIANO)
        await remember(eve, ROME)

        async def one_waits() -> bool:
            return await unjudged(searchable.ledger) == [PIANO]

        await eventually(one_waits)
        assert judge.asked[ROME] == [BERLIN]


async def test_the_history_of_a_topic_goes_on_behind_a_fact_that_was_replaced_by_one_without(
    searchable: Memory, judge: ToldJudge, richard: MemoryService
) -> None:
    judge.told[ROME, BERLIN] = "replaces"
    async with judging(searchable, judge):
        berlin = await remember(richard, BERLIN, topic="user.city")
        await judged(searchable)
        await remember(richard, ROME)
        await judged(searchable)
    oslo = await remember(richard, "Oslo", topic="user.city")

    versions = await richard.facts.history("user.city")

    assert [version.content for version in versions] == ["Oslo", ROME, BERLIN]
    assert {oslo, berlin} <= {version.id for version in versions}


async def test_what_another_user_stated_is_contradicted_and_stays(
    searchable: Memory, richard: MemoryService, judge: ToldJudge, database: Database
) -> None:
    judge.told[(ROME, BERLIN)] = "replaces"
    eve = searchable.of(Caller(tenant="default", user="eve", agent="shell"))

    async with judging(searchable, judge):
        berlin = await remember(richard, BERLIN, scope="tenant")
        rome = await remember(eve, ROME, scope="tenant")
        await judged(searchable)

    assert await successors(richard, berlin) == {berlin: None}
    assert ("contradicts", berlin) in {
        row[1:] for row in await relations(database) if row[0] == rome
    }
