"""Recall always answers, and reports when its answer is degraded."""

import asyncio
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from calling import caller_named
from factories import ConnectBus, StartWorker
from indexed import indexed, paused_indexing
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.envelope import utc_now
from local2.protocol.tool import caller_waits_until
from local2.protocol.vectors import VectorHits, VectorStatus
from local2.vectors.minilm import MiniLM
from waiting import eventually
from workers import vector_worker

GOLD = "The chemical symbol of gold is Au."


async def test_without_a_worker_words_are_searched_and_the_answer_is_degraded(
    memory: Memory, richard: MemoryService
) -> None:
    await richard.write_episodic(GOLD)
    await richard.write_episodic("The moon pulls at the oceans.")
    await memory.of(caller_named("eve")).write_episodic("Eve sells gold.")
    await eventually(lambda: memory.indexer.delay)  # the first attempt to index has failed

    result = await richard.search_episodic("What was the symbol of gold?")

    assert [hit.content for hit in result.hits] == [GOLD]
    assert 0 < result.hits[0].score <= 1
    assert result.degraded
    assert str(result.reason).startswith("The vector worker does not answer: Nobody serves vector.")


async def test_records_are_indexed_as_soon_as_a_worker_starts(
    memory: Memory, richard: MemoryService, start_worker: StartWorker
) -> None:
    await richard.write_episodic(GOLD)
    await start_worker()
    await indexed(memory)

    result = await richard.search_episodic("Which letters stand for that precious metal?")

    assert [hit.content for hit in result.hits] == [GOLD]
    assert (result.degraded, result.reason) == (False, None)


async def test_a_record_waiting_for_the_index_is_found_by_words_in_a_degraded_answer(
    memory: Memory, richard: MemoryService, start_worker: StartWorker
) -> None:
    await start_worker()
    await richard.write_episodic("The moon pulls at the oceans.")
    await indexed(memory)
    async with paused_indexing(memory):
        await richard.write_episodic(GOLD)
        waiting = await richard.search_episodic("symbol of gold")
        others = await memory.of(caller_named("eve")).search_episodic("symbol of gold")
    await indexed(memory)
    caught_up = await richard.search_episodic("symbol of gold")

    assert [hit.content for hit in waiting.hits] == [GOLD]
    assert (waiting.degraded, waiting.reason) == (True, "Some memories are not indexed yet.")
    assert not others.degraded, "another user's waiting records are not missing from this answer"
    assert [hit.content for hit in caught_up.hits] == [GOLD]
    assert (caught_up.degraded, caught_up.reason) == (False, None)


async def test_a_record_indexed_during_a_search_degrades_the_answer(
    memory: Memory,
    richard: MemoryService,
    start_worker: StartWorker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was not in the searched index, so the answer may lack it."""
    await start_worker()
    await eventually(lambda: memory.indexer.problem is None)  # otherwise the search is repeated
    search = memory.vectors.search

    async def search_then_index(text: str, limit: int) -> VectorHits:
        found = await search(text, limit)
        pause.release()
        await indexed(memory)
        return found

    pause = paused_indexing(memory)
    async with pause:
        await richard.write_episodic(GOLD)
        monkeypatch.setattr(memory.vectors, "search", search_then_index)
        result = await richard.search_episodic("precious metals")

    assert (result.hits, result.degraded) == ([], True)


class _Gate:
    """Stops the indexer when it begins to compare a worker's index with the ledger."""

    def __init__(self, memory: Memory, patch: pytest.MonkeyPatch) -> None:
        self.arrived = 0
        self._open = asyncio.Semaphore(0)
        self._status = memory.vectors.status
        patch.setattr(memory.vectors, "status", self._wait)

    async def _wait(self) -> VectorStatus:
        status = await self._status()
        self.arrived += 1
        await self._open.acquire()
        return status

    def let_one_pass(self) -> None:
        self._open.release()


async def test_an_answer_from_an_emptied_index_is_degraded(
    memory: Memory,
    connect_bus: ConnectBus,
    embedder: MiniLM,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer is degraded from the loss of the worker until the next one has been compared."""
    richard = memory.of(caller_named("richard"))
    folder = tmp_path / "chroma"
    async with vector_worker(await connect_bus(), embedder, folder) as store:
        memory.indexer.worker_started(store.id)
        await richard.write_episodic(GOLD)
        await indexed(memory)
        assert not (await richard.search_episodic("symbol of gold")).degraded

        memory.indexer.worker_lost()
        lost = await richard.search_episodic("symbol of gold")
    shutil.rmtree(folder)

    gate = _Gate(memory, monkeypatch)
    async with vector_worker(await connect_bus(), embedder, folder) as store:
        memory.indexer.worker_started(store.id)
        await eventually(lambda: gate.arrived)
        assert (await memory.vectors.search("gold", 5)).hits == []
        uncompared = await richard.search_episodic("symbol of gold")
        gate.let_one_pass()
        await eventually(lambda: memory.indexer.problem is None)
        compared = await richard.search_episodic("symbol of gold")
        await indexed(memory)
        filled = await richard.search_episodic("that precious metal")

    for result in (lost, uncompared):
        assert ([hit.content for hit in result.hits], result.degraded) == ([GOLD], True)
        assert result.reason
    assert [hit.content for hit in compared.hits] == [GOLD], "in the index again, or waiting"
    assert ([hit.content for hit in filled.hits], filled.degraded) == ([GOLD], False)


async def test_a_worker_lost_during_its_comparison_is_not_trusted(
    memory: Memory,
    richard: MemoryService,
    start_worker: StartWorker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = _Gate(memory, monkeypatch)
    await start_worker()
    await eventually(lambda: gate.arrived == 1)
    memory.indexer.worker_lost()
    gate.let_one_pass()
    memory.indexer.worker_started("the next one")
    await eventually(lambda: gate.arrived == 2)

    assert memory.indexer.problem is not None
    assert (await richard.search_episodic("gold")).degraded
    gate.let_one_pass()
    await eventually(lambda: memory.indexer.problem is None)


async def test_recall_waits_for_a_starting_worker_no_longer_than_its_caller(
    memory: Memory, richard: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.indexer, "patience", 600.0)
    memory.indexer.worker_starting()
    caller_waits_until.set(utc_now() + timedelta(seconds=1))

    found = await richard.search_episodic("gold")

    assert (found.degraded, found.reason) == (True, "The memory is still starting.")


async def test_recall_does_not_wait_for_a_dead_or_unusable_worker(
    memory: Memory, richard: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.indexer, "patience", 600.0)

    async def mismatched(**_: object) -> VectorStatus:
        return VectorStatus(
            worker="w", count=0, embedder="x", clean=True, dimensions=0, problem="Another embedder."
        )

    memory.indexer.worker_starting()
    searching = asyncio.create_task(richard.search_episodic("gold"))
    await asyncio.wait({searching}, timeout=0.05)
    assert not searching.done()
    memory.indexer.worker_lost()
    died = await asyncio.wait_for(searching, 10)

    monkeypatch.setattr(memory.vectors, "status", mismatched)
    memory.indexer.worker_starting()
    memory.indexer.worker_started("w")
    cannot = await asyncio.wait_for(richard.search_episodic("gold"), 10)

    assert (died.degraded, died.reason != "The memory is still starting.") == (True, True)
    assert (cannot.degraded, cannot.reason) == (True, "Another embedder.")
