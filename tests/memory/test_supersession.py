"""Which facts the judge compares, and the effect of its verdicts; the judge is scripted."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from unittest.mock import AsyncMock

import pytest

from calling import caller_named
from indexed import indexed, paused_indexing
from ledgers import unjudged
from local2.errors import ModelError, ModelRefusedError, VectorError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.records import Record
from local2.memory.recall.recaller import Closeness, Retrieval
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.memory.upkeep.supersession import Judge, Supersession, Verdict
from local2.protocol.payloads import MemoryChange
from local2.protocol.vectors import VectorHits
from local2.vectors.minilm import MiniLM
from recalling import remember
from stored import relations
from waiting import eventually
from working import working

pytestmark = pytest.mark.usefixtures("searchable")

BERLIN = "We live in Berlin."
ROME = "We live in Rome now."
PIANO = "The piano is tuned every October."


class ScriptedJudge(Judge):
    """A judge with scripted verdicts, otherwise "unrelated"; it records the facts it compares."""

    def __init__(self) -> None:
        self.verdicts_by_pair: dict[tuple[str, str], Verdict] = {}
        self.compared: dict[str, list[str]] = {}
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def verdicts(self, fact: Record, older: Sequence[Record]) -> list[Verdict]:
        self.compared[fact.content] = [record.content for record in older]
        await self.may_answer.wait()
        return [
            self.verdicts_by_pair.get((fact.content, record.content), "unrelated")
            for record in older
        ]


@pytest.fixture
def judge() -> ScriptedJudge:
    return ScriptedJudge()


@pytest.fixture
def searched_texts(searchable: Memory, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts for which the vectors were searched."""
    search = searchable.vectors.search
    searched_texts: list[str] = []

    async def record_search(text: str, limit: int) -> VectorHits:
        searched_texts.append(text)
        return await search(text, limit)

    monkeypatch.setattr(searchable.vectors, "search", record_search)
    return searched_texts


@asynccontextmanager
async def judging(
    memory: Memory, judge: Judge, *, top_k: int = 5, distance: float = 2.0
) -> AsyncIterator[None]:
    """Judge facts stored within the context, and none stored before."""
    closeness = Closeness(top_k=top_k, distance=distance)
    retrieval = Retrieval(memory.ledger, memory.indexer, memory.vectors)
    job = Supersession(memory.ledger, retrieval, memory.changes, judge, closeness)
    async with working(memory.backlog.add_job(job)):
        yield


async def wait_until_judged(memory: Memory) -> None:
    await eventually(lambda: unjudged(memory.ledger), lambda found: not found)


async def successors(service: MemoryService, record_id: str) -> dict[str, str | None]:
    """Return the successor of each version, by its id."""
    return {version.id: version.superseded_by for version in await service.facts.history(record_id)}


async def test_only_the_nearest_facts_are_compared(
    searchable: Memory, richard: MemoryService, judge: ScriptedJudge, embedder: MiniLM
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
        await wait_until_judged(searchable)

    nearest = sorted(older, key=lambda content: -cosines[content])[:5]
    assert set(nearest) == set(older[:5])
    assert {content: sorted(older) for content, older in judge.compared.items()} == {
        ROME: sorted(nearest)
    }


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        pytest.param(0.3, {BERLIN}, id="near"),
        pytest.param(2.0, {BERLIN, PIANO}, id="any"),
    ],
)
async def test_facts_beyond_the_distance_are_not_compared(
    searchable: Memory,
    richard: MemoryService,
    judge: ScriptedJudge,
    distance: float,
    expected: set[str],
) -> None:
    for content in (PIANO, BERLIN):
        await remember(richard, content)

    async with judging(searchable, judge, distance=distance):
        await remember(richard, "We live in Berlin now.")
        await wait_until_judged(searchable)

    assert [set(one) for one in judge.compared.values()] == [expected]


async def test_facts_of_other_users_and_scopes_are_never_compared(
    searchable: Memory, richard: MemoryService, judge: ScriptedJudge
) -> None:
    eve = searchable.of(caller_named("eve", agent="shell"))
    await remember(eve, "We live in Bonn.")
    await remember(richard, "We live in Oslo.", scope="agent")
    await remember(richard, "We live in Madrid.", scope="tenant")
    await richard.write_episodic("We live in Paris.")
    await remember(richard, BERLIN)

    async with judging(searchable, judge):
        await remember(richard, ROME)
        await wait_until_judged(searchable)

    assert judge.compared == {ROME: [BERLIN]}


async def test_a_fact_that_is_judged_late_is_not_compared_with_a_newer_one(
    searchable: Memory, richard: MemoryService, judge: ScriptedJudge
) -> None:
    async with judging(searchable, judge):
        async with paused_indexing(searchable):
            for day, content in enumerate((BERLIN, ROME), start=1):
                searchable.clock = partial(datetime, 2026, 5, day, tzinfo=UTC)
                await remember(richard, content)
        await wait_until_judged(searchable)

    assert judge.compared == {ROME: [BERLIN]}


async def test_nothing_is_judged_while_a_fact_waits_for_its_vector(
    searchable: Memory, richard: MemoryService, judge: ScriptedJudge, searched_texts: list[str]
) -> None:
    await remember(richard, PIANO)
    await indexed(searchable)
    await eventually(lambda: searchable.indexer.problem is None)

    async with judging(searchable, judge):
        async with paused_indexing(searchable):
            await remember(richard, BERLIN)
            await eventually(lambda: len(searched_texts) > 1)
            assert judge.compared == {}, "it looked again, and has asked nothing"
        await wait_until_judged(searchable)

    assert judge.compared == {BERLIN: [PIANO]}


async def test_nothing_is_judged_while_the_vectors_cannot_be_searched(
    searchable: Memory,
    richard: MemoryService,
    judge: ScriptedJudge,
    searched_texts: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(text: str, *_: object, **__: object) -> VectorHits:
        searched_texts.append(text)
        raise VectorError("The vector worker ended.")

    await remember(richard, PIANO)
    async with judging(searchable, judge):
        with monkeypatch.context() as patch:
            patch.setattr(searchable.vectors, "search", fail)
            await remember(richard, BERLIN)
            await indexed(searchable)
            before = len(searched_texts)
            await eventually(lambda: len(searched_texts) > before + 1)
            assert judge.compared == {}, "it looked again, and has asked nothing"
        await wait_until_judged(searchable)

    assert judge.compared == {BERLIN: [PIANO]}


async def test_a_fact_replaced_while_it_is_judged_replaces_nothing(
    searchable: Memory, richard: MemoryService, judge: ScriptedJudge
) -> None:
    berlin = await remember(richard, BERLIN)
    judge.verdicts_by_pair[ROME, BERLIN] = "replaces"
    judge.may_answer.clear()

    async with judging(searchable, judge):
        rome = await remember(richard, ROME, topic="user.city")
        await eventually(lambda: judge.compared)
        oslo = await remember(richard, "Oslo.", topic="user.city")
        judge.may_answer.set()
        await eventually(lambda: "Oslo." in judge.compared)
        await wait_until_judged(searchable)

    assert await successors(richard, berlin) == {berlin: None}
    assert await successors(richard, rome) == {oslo: None, rome: oslo}


async def test_a_fact_replaced_during_judging_is_not_replaced_again(
    searchable: Memory,
    richard: MemoryService,
    judge: ScriptedJudge,
    announced: list[tuple[str, MemoryChange]],
) -> None:
    berlin = await remember(richard, BERLIN, topic="user.city")
    judge.verdicts_by_pair[ROME, BERLIN] = "replaces"
    judge.may_answer.clear()

    async with judging(searchable, judge):
        await remember(richard, ROME)
        await eventually(lambda: judge.compared)
        oslo = await remember(richard, "Oslo.", topic="user.city")
        judge.may_answer.set()
        await wait_until_judged(searchable)

    assert await successors(richard, berlin) == {oslo: None, berlin: oslo}
    successors_announced = [
        change.superseded_by for subject, change in announced if subject.endswith("superseded")
    ]
    assert successors_announced == [oslo]


async def test_facts_that_support_each_other_are_related_and_stay_active(
    searchable: Memory, richard: MemoryService, judge: ScriptedJudge, database: Database
) -> None:
    berlin = await remember(richard, BERLIN)
    await remember(richard, PIANO)
    mitte = "Our flat is in Mitte."
    judge.verdicts_by_pair[mitte, BERLIN] = "supports"

    async with judging(searchable, judge):
        newer = await remember(richard, mitte)
        await wait_until_judged(searchable)

    assert await relations(database) == [(newer, "supports", berlin)]
    for record_id in (newer, berlin):
        assert await successors(richard, record_id) == {record_id: None}


async def test_every_one_of_several_verdicts_is_carried_out(
    searchable: Memory, richard: MemoryService, judge: ScriptedJudge, database: Database
) -> None:
    bonn = "We live in Bonn."
    ids = {content: await remember(richard, content) for content in (BERLIN, bonn, PIANO)}
    judge.verdicts_by_pair = {(ROME, BERLIN): "replaces", (ROME, bonn): "supports"}

    async with judging(searchable, judge):
        rome = await remember(richard, ROME)
        await wait_until_judged(searchable)

    assert await successors(richard, ids[BERLIN]) == {rome: None, ids[BERLIN]: rome}
    assert await successors(richard, ids[bonn]) == {ids[bonn]: None}
    assert await successors(richard, ids[PIANO]) == {ids[PIANO]: None}
    assert await relations(database) == [(rome, "supports", ids[bonn])]


async def test_of_facts_stored_at_the_same_moment_the_later_one_stays(
    searchable: Memory, judge: ScriptedJudge, richard: MemoryService
) -> None:
    searchable.clock = partial(datetime, 2026, 5, 1, tzinfo=UTC)
    judge.verdicts_by_pair = {(BERLIN, ROME): "replaces", (ROME, BERLIN): "replaces"}
    async with judging(searchable, judge):
        async with paused_indexing(searchable):
            berlin = await remember(richard, BERLIN)
            rome = await remember(richard, ROME)
        await wait_until_judged(searchable)

    assert await successors(richard, rome) == {berlin: rome, rome: None}


async def test_newer_facts_do_not_displace_those_a_fact_is_compared_with(
    searchable: Memory, judge: ScriptedJudge, richard: MemoryService
) -> None:
    async with judging(searchable, judge, top_k=2):
        await remember(richard, BERLIN)
        await wait_until_judged(searchable)
        async with paused_indexing(searchable):
            for suffix in ("", " Near the Tiber.", " Really."):
                await remember(richard, f"{ROME}{suffix}")
        await wait_until_judged(searchable)

    assert judge.compared[ROME] == [BERLIN]


async def test_a_fact_that_the_model_never_finishes_does_not_delay_others(
    searchable: Memory,
    judge: ScriptedJudge,
    richard: MemoryService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdicts = judge.verdicts

    async def slow_for_one(fact: Record, older: Sequence[Record]) -> list[Verdict]:
        if fact.content == PIANO:
            raise ModelError("It took too long.")
        return await verdicts(fact, older)

    monkeypatch.setattr(judge, "verdicts", slow_for_one)
    eve = searchable.of(caller_named("eve", agent="shell"))
    async with judging(searchable, judge):
        await remember(richard, BERLIN)
        await remember(eve, BERLIN)
        await wait_until_judged(searchable)
        await remember(richard, PIANO)
        await remember(eve, ROME)

        await eventually(lambda: unjudged(searchable.ledger), lambda found: found == [PIANO])
        assert judge.compared[ROME] == [BERLIN]


async def test_a_fact_that_the_model_refuses_to_judge_is_done_and_replaces_nothing(
    searchable: Memory,
    judge: ScriptedJudge,
    richard: MemoryService,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judge, "verdicts", AsyncMock(side_effect=ModelRefusedError("No.")))
    async with judging(searchable, judge):
        for content in (BERLIN, ROME):
            await remember(richard, content)
        await wait_until_judged(searchable)

    assert await relations(database) == []
    assert await searchable.ledger.backlog.counts() == []


async def test_a_topics_history_continues_past_a_fact_replaced_by_one_without_a_topic(
    searchable: Memory, judge: ScriptedJudge, richard: MemoryService
) -> None:
    judge.verdicts_by_pair[ROME, BERLIN] = "replaces"
    async with judging(searchable, judge):
        berlin = await remember(richard, BERLIN, topic="user.city")
        await wait_until_judged(searchable)
        await remember(richard, ROME)
        await wait_until_judged(searchable)
    oslo = await remember(richard, "Oslo", topic="user.city")

    versions = await richard.facts.history("user.city")

    assert [version.content for version in versions] == ["Oslo", ROME, BERLIN]
    assert {oslo, berlin} <= {version.id for version in versions}


async def test_another_users_fact_is_contradicted_but_stays(
    searchable: Memory, richard: MemoryService, judge: ScriptedJudge, database: Database
) -> None:
    judge.verdicts_by_pair[(ROME, BERLIN)] = "replaces"
    eve = searchable.of(caller_named("eve", agent="shell"))

    async with judging(searchable, judge):
        berlin = await remember(richard, BERLIN, scope="tenant")
        rome = await remember(eve, ROME, scope="tenant")
        await wait_until_judged(searchable)

    assert await successors(richard, berlin) == {berlin: None}
    assert ("contradicts", berlin) in {
        row[1:] for row in await relations(database) if row[0] == rome
    }
