"""The index is rebuilt with another embedder while the former one answers every search."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import chromadb
import pytest
from chromadb.config import Settings as ChromaSettings

from local2.bus.connection import Connection
from local2.bus.vector_client import VectorClient
from local2.client.access import ask_service
from local2.ledger.operations.searches import Searches
from local2.protocol.maintenance import Reindex
from local2.protocol.services import REINDEX
from local2.protocol.vectors import VectorItem, VectorsStored, VectorStatus
from local2.settings import Settings
from local2.stack.app import Stack, open_stack
from stacks import CALLER, contents, in_step, recall, save, say, search, settings_in, status
from stand_ins.ollama_server import OllamaStandIn
from waiting import eventually

MINILM, NOMIC = "all-MiniLM-L6-v2", "nomic-embed-text"
GOLD = "The chemical symbol of gold is Au."
TOPIC = "project.metal"
COUNT = 40


@pytest.fixture
def settings(tmp_path: Path, ollama: OllamaStandIn) -> Settings:
    """Settings of a stack that starts with MiniLM, because Ollama has no model yet."""
    ollama.models.clear()
    return settings_in(tmp_path, embedder="auto", ollama_url=ollama.url)


class Gate:
    """Lets a given number of batches into the next index."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passes = asyncio.Semaphore(0)
        self.passed = 0
        upsert = VectorClient.upsert_next

        async def gated(vectors: VectorClient, items: list[VectorItem]) -> VectorsStored:
            await self.passes.acquire()
            stored = await upsert(vectors, items)
            self.passed += 1
            return stored

        monkeypatch.setattr(VectorClient, "upsert_next", gated)

    async def open(self, batches: int) -> None:
        """Let this many batches pass, and wait until they are stored."""
        passed = self.passed + batches
        for _ in range(batches):
            self.passes.release()
        await eventually(lambda: self.passed >= passed)

    def remove(self) -> None:
        for _ in range(10 * COUNT):
            self.passes.release()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


async def fill(bus: Connection, *, others: int = 0) -> None:
    for number in range(COUNT):
        await save(bus, f"Note {number}: the moon pulls at the oceans.")
    await say(bus, GOLD)
    await in_step(bus, records=COUNT + 1 + others)


async def begin_reindex(bus: Connection, ollama: OllamaStandIn) -> None:
    ollama.models.append(f"{NOMIC}:latest")
    now = await ask_service(bus, REINDEX, Reindex(embedder=NOMIC))
    assert now.next is not None
    assert (now.embedder, now.next.embedder) == (MINILM, NOMIC)
    assert now.next.waiting > 0


async def wait_until_served_by(bus: Connection, embedder: str) -> None:
    await eventually(
        lambda: status(bus), lambda now: now.next is None and now.embedder == embedder, within=30
    )


@asynccontextmanager
async def searching(bus: Connection) -> AsyncIterator[Callable[[], int]]:
    """Search without pause and check that no result is missing; yield the number of searches."""
    done = 0

    async def search_repeatedly() -> None:
        nonlocal done
        while True:
            found = await search(bus, "symbol of gold, oceans")
            recalled = await recall(bus, "symbol of gold", explain=True)
            assert not found["degraded"], found["reason"]
            assert not recalled["degraded"], recalled["reason"]
            assert found["hits"]
            assert contents(recalled)[0] == GOLD
            assert recalled["items"][0]["explanation"]["shares"]["meaning"] > 0
            done += 1

    task = asyncio.create_task(search_repeatedly())
    try:
        yield lambda: done
    finally:
        if not task.done():
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def collections(folder: Path) -> list[tuple[str, str]]:
    client = chromadb.PersistentClient(folder, ChromaSettings(anonymized_telemetry=False))
    try:
        return [(each.name, each.metadata["embedder"]) for each in client.list_collections()]
    finally:
        client.close()


@pytest.mark.usefixtures("worker_here")
@pytest.mark.parametrize("size", ["whole", "candidates"])
async def test_searches_find_everything_before_and_after_the_swap(
    settings: Settings, ollama: OllamaStandIn, gate: Gate, size: str, request: pytest.FixtureRequest
) -> None:
    if size == "candidates":
        request.getfixturevalue("monkeypatch").setattr(
            "local2.ledger.operations.working_sets.MAX_RECORDS", -1
        )
    async with open_stack(settings) as stack:
        await fill(stack.bus)
        async with searching(stack.bus) as searches:
            await begin_reindex(stack.bus, ollama)
            await gate.open(2)
            before = searches()
            await eventually(lambda: searches() > before)
            now = await status(stack.bus)
            assert now.next is not None
            assert 0 < now.next.waiting < COUNT
            assert now.embedder == MINILM
            gate.remove()
            await wait_until_served_by(stack.bus, NOMIC)
            before = searches()
            await eventually(lambda: searches() > before + 2)
        after = await status(stack.bus)
        assert (after.indexed, after.in_index, after.problem) == (COUNT + 1, COUNT + 1, None)
        assert await _embedders(stack) == {NOMIC}

    assert collections(settings.memory.chroma_path) == [("local2.memory", NOMIC)]
    segments = [one for one in settings.memory.chroma_path.iterdir() if one.is_dir()]
    assert len(segments) <= 1, "the former one's files are gone"


async def _embedders(stack: Stack) -> set[str]:
    """Return the embedders whose vectors the ledger holds."""
    ledger = stack.memories.of_tenant("default").ledger
    rows = await ledger._database.read(
        lambda c: c.execute("SELECT DISTINCT embedder FROM vector").fetchall()
    )
    return {row["embedder"] for row in rows}


@pytest.mark.usefixtures("worker_here")
async def test_records_written_and_replaced_during_a_reindex_are_right_after_the_swap(
    settings: Settings, ollama: OllamaStandIn, gate: Gate
) -> None:
    async with open_stack(settings) as stack:
        service = stack.memories.of(CALLER)
        await service.write_topic(TOPIC, "Osmium.")
        await fill(stack.bus, others=1)
        await begin_reindex(stack.bus, ollama)
        await gate.open(1)
        await service.write_topic(TOPIC, "Iridium.")
        await save(stack.bus, "A note that comes late.")
        late = await search(stack.bus, "A note that comes late.")
        gate.remove()
        await wait_until_served_by(stack.bus, NOMIC)
        await in_step(stack.bus)

        after = await status(stack.bus)
        assert after.in_index == after.indexed
        found = await recall(stack.bus, "Which metal?", source_kinds=["fact"])
        assert contents(late)[0] == "A note that comes late."
        assert contents(found) == ["Iridium."]
        assert contents(await search(stack.bus, "comes late"))[0] == "A note that comes late."


@pytest.mark.usefixtures("worker_here")
async def test_an_index_takes_over_only_with_what_was_saved_just_before(
    settings: Settings, ollama: OllamaStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_stack(settings) as stack:
        memory = stack.memories.of_tenant("default")
        prepare, swap = Searches.prepare, VectorClient.swap
        late, waiting = list[str](), list[int]()

        async def save_and_prepare(searches: Searches, embedder: str) -> None:
            await prepare(searches, embedder)
            if not late:
                late.append("A note that comes late.")
                await save(stack.bus, late[0])
                await in_step(stack.bus)

        async def count_and_swap(vectors: VectorClient, embedder: str) -> VectorStatus:
            waiting.append(await memory.ledger.index.count_to_embed())
            return await swap(vectors, embedder)

        monkeypatch.setattr(Searches, "prepare", save_and_prepare)
        monkeypatch.setattr(VectorClient, "swap", count_and_swap)
        await fill(stack.bus)
        await begin_reindex(stack.bus, ollama)
        await wait_until_served_by(stack.bus, NOMIC)

        assert (late, waiting) == (["A note that comes late."], [0])
        assert memory.indexer.embedder == NOMIC, "ranking knows whose vectors it compares"
        after = await status(stack.bus)
        assert (after.in_index, after.indexed) == (COUNT + 2, COUNT + 2)


@pytest.mark.usefixtures("worker_forked")
async def test_a_reindex_resumes_after_the_worker_was_killed(
    settings: Settings, ollama: OllamaStandIn, gate: Gate
) -> None:
    async with open_stack(settings) as stack:
        await fill(stack.bus)
        await begin_reindex(stack.bus, ollama)
        await gate.open(2)
        assert stack.vector_worker.pid is not None
        os.kill(stack.vector_worker.pid, signal.SIGKILL)
        gate.remove()
        await wait_until_served_by(stack.bus, NOMIC)
        await in_step(stack.bus, records=COUNT + 1)

        assert contents(await recall(stack.bus, "symbol of gold"))[0] == GOLD
        assert len(ollama.embedded()) < COUNT + 1 + 20


@pytest.mark.usefixtures("worker_here")
async def test_an_embedder_that_fails_during_a_reindex_only_delays_it(
    settings: Settings, ollama: OllamaStandIn, gate: Gate
) -> None:
    async with open_stack(settings) as stack:
        await fill(stack.bus)
        async with searching(stack.bus):
            await begin_reindex(stack.bus, ollama)
            await gate.open(1)
            ollama.models.clear()
            gate.remove()

            async def delayed() -> bool:
                now = await status(stack.bus)
                return "ollama pull" in str(now.next and now.next.problem)

            await eventually(delayed)
            ollama.models.append(f"{NOMIC}:latest")
            await wait_until_served_by(stack.bus, NOMIC)


@pytest.mark.usefixtures("worker_here")
async def test_reindexing_with_the_current_embedder_cancels_the_change(
    settings: Settings, ollama: OllamaStandIn, gate: Gate
) -> None:
    async with open_stack(settings) as stack:
        await fill(stack.bus)
        await begin_reindex(stack.bus, ollama)
        await gate.open(1)

        given_up = await ask_service(stack.bus, REINDEX, Reindex(embedder="minilm"))
        gate.remove()

        assert (given_up.next, given_up.embedder, given_up.problem) == (None, MINILM, None)

        await eventually(lambda: _embedders(stack), lambda found: found == {MINILM})
        assert not (await search(stack.bus, "symbol of gold"))["degraded"]

    assert collections(settings.memory.chroma_path) == [("local2.memory", MINILM)]


@pytest.mark.usefixtures("worker_here")
async def test_an_embedder_that_the_settings_exclude_is_refused(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    fixed = settings_in(tmp_path, ollama_url=ollama.url)
    async with open_stack(fixed) as stack:
        await in_step(stack.bus)

        refused = await ask_service(stack.bus, REINDEX, Reindex(embedder=NOMIC))

    assert refused.next is None
    assert "Set `embedder: auto`" in str(refused.problem)
