"""Recall tells exactly when vectors are missing, and goes by words as far as they are."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from calling import RICHARD
from factories import ConnectBus
from indexed import indexed, paused_indexing
from local.errors import VectorError
from local.ledger.records import Fact
from local.ledger.sqlite import searches, working_sets
from local.memory.recall.recaller import RecallRequest, RecallResult
from local.memory.scopes import Weights
from local.memory.service import MemoryService
from local.memory.tenant import Memory
from local.protocol.envelope import Caller
from local.protocol.memories import Kind, Scope
from local.protocol.vectors import VectorHits
from local.settings import MemorySettings
from local.vectors.embedder import FloatMatrix
from local.vectors.minilm import MiniLM
from recalling import contents, said
from waiting import eventually
from workers import vector_worker

GOLD = "The chemical symbol of gold is Au."
SCOPES: tuple[Scope, ...] = ("session", "history", "user", "agent", "tenant", "any")


async def ask(
    service: MemoryService, query: str = "symbol of gold", **fields: object
) -> RecallResult:
    return await service.recall(RecallRequest(**{"query": query, "top_k": 20, **fields}))  # type: ignore[arg-type]


async def degraded_scopes(memory: Memory, caller: Caller) -> set[str]:
    service = memory.of(caller)
    return {scope for scope in SCOPES if (await ask(service, scope=scope)).degraded}


async def write(service: MemoryService, where: str) -> None:
    if where in {"user", "agent", "tenant"}:
        await service.facts.store(Fact(content=GOLD, scope=where))  # type: ignore[arg-type]
    elif where == "note":
        await service.intake.store_episode(GOLD)
    else:
        await service.intake.store_conversation([said(GOLD)], where)


@pytest.mark.parametrize(
    ("where", "degraded"),
    [
        pytest.param("s1", {"session", "any"}, id="this session"),
        pytest.param("s2", {"history", "any"}, id="another session"),
        pytest.param("user", {"user", "any"}, id="a fact of the user"),
        pytest.param("agent", {"agent", "any"}, id="a fact of the agent"),
        pytest.param("tenant", {"tenant", "any"}, id="a fact of the tenant"),
        pytest.param("note", {"user", "any"}, id="a note of the user"),
    ],
)
async def test_what_waits_degrades_the_scopes_that_it_is_in(
    searchable: Memory, where: str, degraded: set[str]
) -> None:
    await searchable.of(RICHARD).intake.store_conversation(
        [said("The moon pulls at the oceans.")], "s3"
    )
    await indexed(searchable)
    await eventually(lambda: searchable.indexer.problem is None)
    assert await degraded_scopes(searchable, RICHARD) == set()

    async with paused_indexing(searchable):
        await write(searchable.of(RICHARD), where)
        assert await degraded_scopes(searchable, RICHARD) == degraded
    await indexed(searchable)

    assert await degraded_scopes(searchable, RICHARD) == set()


async def test_what_waits_of_another_user_or_agent_degrades_nothing(
    searchable: Memory,
) -> None:
    eve = searchable.of(Caller(tenant="default", user="eve", agent="robot", session_id="s1"))
    await eventually(lambda: searchable.indexer.problem is None)

    async with paused_indexing(searchable):
        for where in ("s1", "s2", "user", "agent"):
            await write(eve, where)
        assert await degraded_scopes(searchable, RICHARD) == set()
        assert await degraded_scopes(searchable, eve.caller) == set(SCOPES) - {"tenant"}


@pytest.mark.parametrize(
    ("kinds", "degraded"),
    [(("chat_message",), True), (("tool_output", "fact", "document_chunk"), False)],
)
async def test_what_waits_of_a_kind_not_asked_for_degrades_nothing(
    searchable: Memory, kinds: tuple[Kind, ...], degraded: bool
) -> None:
    await eventually(lambda: searchable.indexer.problem is None)

    async with paused_indexing(searchable):
        await searchable.of(RICHARD).intake.store_conversation([said(GOLD)])
        assert (await ask(searchable.of(RICHARD), kinds=kinds)).degraded is degraded


async def test_what_waits_in_a_class_that_weighs_nothing_degrades_nothing(
    searchable: Memory,
) -> None:
    await eventually(lambda: searchable.indexer.problem is None)
    weights = Weights.of(MemorySettings(weight_session=0))

    async with paused_indexing(searchable):
        await searchable.of(RICHARD).intake.store_conversation([said(GOLD)], "s1")
        assert not (await ask(searchable.of(RICHARD), weights=weights)).degraded


async def test_what_waits_is_found_by_its_words_and_the_reason_is_told(
    searchable: Memory,
) -> None:
    richard = searchable.of(RICHARD)
    await eventually(lambda: searchable.indexer.problem is None)

    async with paused_indexing(searchable):
        await richard.intake.store_conversation([said(GOLD)])
        recalled = await ask(richard)

    assert contents(recalled) == [GOLD]
    assert (recalled.degraded, recalled.reason) == (True, "Some memories are not indexed yet.")


async def test_a_replaced_fact_that_never_was_indexed_degrades_nothing(
    searchable: Memory,
) -> None:
    richard = searchable.of(RICHARD)
    await eventually(lambda: searchable.indexer.problem is None)
    async with paused_indexing(searchable):
        await richard.write_topic("user.metal", "gold")
        await richard.write_topic("user.metal", "osmium")
    await indexed(searchable)

    recalled = await ask(richard, "gold metal", scope="user")

    assert (contents(recalled), recalled.degraded) == (["osmium"], False)


async def test_without_a_worker_recall_goes_by_words_and_says_why(memory: Memory) -> None:
    richard = memory.of(RICHARD)
    await richard.intake.store_conversation([said(GOLD), said("The moon pulls at the oceans.")])
    await eventually(lambda: "worker" in str(memory.indexer.problem))

    recalled = await ask(richard)

    assert contents(recalled)[0] == GOLD
    assert recalled.degraded
    assert "The vector worker does not answer" in str(recalled.reason)
    assert all(item.cosine is None for item in recalled.items)


async def test_without_a_worker_even_nothing_found_is_degraded(memory: Memory) -> None:
    recalled = await ask(memory.of(RICHARD))

    assert (recalled.items, recalled.degraded) == ([], True)


async def test_an_embedder_that_is_down_leaves_the_words_and_tells_its_reason(
    searchable: Memory, embedder: MiniLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker serves, and every record is in the index: the question has no vector."""
    richard = searchable.of(RICHARD)
    await richard.intake.store_conversation([said(GOLD)])
    await indexed(searchable)

    def down(texts: Sequence[str]) -> FloatMatrix:
        raise VectorError(f"Ollama does not answer {len(texts)} questions.")

    with monkeypatch.context() as patch:
        patch.setattr(embedder, "embed_queries", down)
        recalled = await ask(richard)
    again = await ask(richard, "Which letters stand for that precious metal?")

    assert contents(recalled) == [GOLD]
    assert (recalled.degraded, recalled.reason) == (True, "Ollama does not answer 1 questions.")
    assert (contents(again), again.degraded) == ([GOLD], False)


async def test_records_that_an_embedder_refuses_keep_recall_degraded(
    searchable: Memory, embedder: MiniLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    richard = searchable.of(RICHARD)
    await eventually(lambda: searchable.indexer.problem is None)

    def down(texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        raise VectorError(f"{len(texts)} texts cannot be embedded.")

    with monkeypatch.context() as patch:
        patch.setattr(embedder, "embed_documents", down)
        await richard.intake.store_conversation([said(GOLD)])
        recalled = await ask(richard)
    await indexed(searchable)

    assert (contents(recalled), recalled.degraded) == ([GOLD], True)
    assert not (await ask(richard)).degraded


async def test_a_worker_that_ended_leaves_the_words(
    memory: Memory, connect_bus: ConnectBus, embedder: MiniLM, tmp_path: Path
) -> None:
    richard = memory.of(RICHARD)
    async with vector_worker(await connect_bus(), embedder, tmp_path / "chroma") as store:
        memory.indexer.worker_started(store.id)
        await richard.intake.store_conversation([said(GOLD)])
        await indexed(memory)
        assert not (await ask(richard)).degraded

    recalled = await ask(richard)

    assert (contents(recalled), recalled.degraded) == ([GOLD], True)
    assert "The vector worker does not answer" in str(recalled.reason)


@pytest.mark.parametrize("few", [pytest.param(3_000, id="few"), pytest.param(1, id="many")])
async def test_an_index_full_of_others_hides_nothing_of_ones_own(
    searchable: Memory, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """Whoever has few records has all compared; for others the index is asked for more."""
    monkeypatch.setattr(searches, "OWN_RECORDS", few)
    eve = searchable.of(Caller(tenant="default", user="eve"))
    await eve.intake.store_conversation(
        [said(f"A precious metal of Eve, number {n}, is gold.") for n in range(200)]
    )
    richard = searchable.of(RICHARD)
    await richard.intake.store_conversation([said(GOLD)], "s1")
    await richard.intake.store_conversation([said("The moon pulls at the oceans.")], "s2")
    await indexed(searchable)

    recalled = await ask(richard, "Which letters stand for that precious stuff?")

    assert contents(recalled) == [GOLD]
    assert not recalled.degraded


async def test_a_further_look_into_the_index_that_fails_hides_nothing(
    searchable: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker ends between two questions: all that is one's own is compared."""
    monkeypatch.setattr(searches, "OWN_RECORDS", 1)
    monkeypatch.setattr(working_sets, "MAX_RECORDS", -1)
    eve = searchable.of(Caller(tenant="default", user="eve"))
    await eve.intake.store_conversation(
        [said(f"A precious metal of Eve, number {n}, is gold.") for n in range(200)]
    )
    richard = searchable.of(RICHARD)
    await richard.intake.store_conversation([said(GOLD)], "s1")
    await richard.intake.store_conversation([said("The moon pulls at the oceans.")], "s2")
    await indexed(searchable)
    search = searchable.vectors.search
    asked: list[int] = []

    async def search_once(text: str, limit: int, *, tenant: str) -> VectorHits:
        asked.append(limit)
        if len(asked) > 1:
            raise VectorError("The worker ended.")
        return await search(text, limit, tenant=tenant)

    monkeypatch.setattr(searchable.vectors, "search", search_once)
    recalled = await ask(richard, "Which letters stand for that precious stuff?")

    assert len(asked) == 2
    assert (contents(recalled), recalled.degraded) == ([GOLD], False)
