"""Recall reports exactly when vectors are missing, and searches by words where they are."""

from collections.abc import Iterator, Sequence

import pytest

from calling import RICHARD, caller_named
from indexed import indexed, paused_indexing
from local2.errors import VectorError
from local2.ledger.operations import searches, working_sets
from local2.ledger.records import Fact
from local2.memory.recall.recaller import RecallRequest, RecallResult
from local2.memory.scopes import Weights
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.envelope import Caller
from local2.protocol.memories import Kind, Scope
from local2.protocol.vectors import VectorHits
from local2.settings import MemorySettings
from local2.vectors.embedder import FloatMatrix
from local2.vectors.minilm import MiniLM
from recalling import chat_message, contents
from waiting import eventually

GOLD = "The chemical symbol of gold is Au."
MEANT = "Which letters stand for that precious stuff?"
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
        await service.intake.store_conversation([chat_message(GOLD)], where)


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
async def test_a_waiting_record_degrades_the_scopes_that_contain_it(
    searchable: Memory, where: str, degraded: set[str]
) -> None:
    await searchable.of(RICHARD).intake.store_conversation(
        [chat_message("The moon pulls at the oceans.")], "s3"
    )
    await indexed(searchable)
    await eventually(lambda: searchable.indexer.problem is None)
    assert await degraded_scopes(searchable, RICHARD) == set()

    async with paused_indexing(searchable):
        await write(searchable.of(RICHARD), where)
        assert await degraded_scopes(searchable, RICHARD) == degraded
    await indexed(searchable)

    assert await degraded_scopes(searchable, RICHARD) == set()


async def test_waiting_records_of_another_user_or_agent_degrade_nothing(
    searchable: Memory,
) -> None:
    eve = searchable.of(caller_named("eve", agent="robot", session_id="s1"))
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
async def test_a_waiting_record_of_another_kind_degrades_nothing(
    searchable: Memory, kinds: tuple[Kind, ...], degraded: bool
) -> None:
    await eventually(lambda: searchable.indexer.problem is None)

    async with paused_indexing(searchable):
        await searchable.of(RICHARD).intake.store_conversation([chat_message(GOLD)])
        assert (await ask(searchable.of(RICHARD), kinds=kinds)).degraded is degraded


async def test_a_waiting_record_in_a_class_of_weight_zero_degrades_nothing(
    searchable: Memory,
) -> None:
    await eventually(lambda: searchable.indexer.problem is None)
    weights = Weights.of(MemorySettings(weight_session=0))

    async with paused_indexing(searchable):
        await searchable.of(RICHARD).intake.store_conversation([chat_message(GOLD)], "s1")
        assert not (await ask(searchable.of(RICHARD), weights=weights)).degraded


async def test_a_replaced_fact_that_was_never_indexed_degrades_nothing(
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


async def test_while_the_embedder_is_down_words_are_searched_and_the_reason_is_reported(
    searchable: Memory, embedder: MiniLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker serves and every record is indexed, but the question has no vector."""
    richard = searchable.of(RICHARD)
    await richard.intake.store_conversation([chat_message(GOLD)])
    await indexed(searchable)

    def fail(texts: Sequence[str]) -> FloatMatrix:
        raise VectorError(f"Ollama does not answer {len(texts)} questions.")

    with monkeypatch.context() as patch:
        patch.setattr(embedder, "embed_queries", fail)
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

    def fail(texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        raise VectorError(f"{len(texts)} texts cannot be embedded.")

    with monkeypatch.context() as patch:
        patch.setattr(embedder, "embed_documents", fail)
        await richard.intake.store_conversation([chat_message(GOLD)])
        recalled = await ask(richard)
    await indexed(searchable)

    assert (contents(recalled), recalled.degraded) == ([GOLD], True)
    assert not (await ask(richard)).degraded


@pytest.fixture
async def behind_others(searchable: Memory) -> MemoryService:
    """The memory of a user behind more nearer records of another than one index search returns."""
    eve = searchable.of(caller_named("eve"))
    nearer = range(searches.NEAREST + 30)
    await eve.intake.store_conversation(
        [chat_message(f"A precious metal of Eve, number {n}, is gold.") for n in nearer]
    )
    richard = searchable.of(RICHARD)
    await richard.intake.store_conversation([chat_message(GOLD)], "s1")
    await richard.intake.store_conversation([chat_message("The moon pulls at the oceans.")], "s2")
    await richard.write_episodic(GOLD)
    await indexed(searchable)
    return richard


async def test_a_second_index_search_that_fails_hides_nothing(
    searchable: Memory, behind_others: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker ends between two searches, and all of the owner's records are compared."""
    monkeypatch.setattr(searches, "OWN_RECORDS", 1)
    monkeypatch.setattr(working_sets, "MAX_RECORDS", -1)
    search = searchable.vectors.search
    limits: list[int] = []

    async def search_once(text: str, limit: int) -> VectorHits:
        limits.append(limit)
        if len(limits) > 1:
            raise VectorError("The worker ended.")
        return await search(text, limit)

    monkeypatch.setattr(searchable.vectors, "search", search_once)
    recalled = await ask(behind_others, MEANT)

    assert len(limits) == 2
    assert (contents(recalled), recalled.degraded) == ([GOLD], False)
