"""The stack's index survives a restart, is refilled when lost, and waits for its embedder."""

import asyncio
import shutil
from pathlib import Path

import msgspec
import pytest

from local2.bus.vector_client import VectorClient
from local2.protocol.vectors import VectorStatus
from local2.settings import GeneratorSettings
from local2.stack.app import open_stack
from stacks import contents, in_step, recall, save, say, search, settings_in, status
from stand_ins.ollama_server import OllamaStandIn
from waiting import eventually

pytestmark = pytest.mark.usefixtures("worker_here")
GOLD = "The chemical symbol of gold is Au."
TIDES = "The moon pulls at the oceans."


async def test_a_restarted_stack_remembers_and_trusts_its_index(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    settings = settings_in(tmp_path, embedder="ollama", ollama_url=ollama.url)
    async with open_stack(settings) as stack:
        await save(stack.bus, GOLD)
        await in_step(stack.bus, records=1)
    embedded = ollama.embedded()

    async with open_stack(settings) as stack:
        await in_step(stack.bus, records=1)
        found = await search(stack.bus, "symbol of gold")

    assert (contents(found), found["degraded"]) == ([GOLD], False)
    assert ollama.embedded() == embedded == [f"search_document: {GOLD}"]


async def test_a_stack_without_models_calls_none_and_judges_nothing(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    generator = GeneratorSettings(ollama_url=ollama.url)
    settings = msgspec.structs.replace(settings_in(tmp_path), generator=generator)

    async with open_stack(settings, with_generator=False, with_models=False) as stack:
        assert not stack.memories.of_tenant("default").backlog.handles("judge")

    assert ollama.requests == []


async def test_a_deleted_index_is_refilled_without_embedding(
    tmp_path: Path, ollama: OllamaStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it has been compared with the ledger, answers say that only words were searched."""
    settings = settings_in(tmp_path, embedder="ollama", ollama_url=ollama.url)
    async with open_stack(settings) as stack:
        for n in range(20):
            await save(stack.bus, f"Note {n}: {GOLD}")
        await say(stack.bus, GOLD)
        await in_step(stack.bus, records=21)
    embedded = len(ollama.embedded())
    shutil.rmtree(settings.memory.chroma_path)
    served, may_compare = asyncio.Event(), asyncio.Event()
    status_of = VectorClient.status

    async def delayed_status(vectors: VectorClient) -> VectorStatus:
        status = await status_of(vectors)
        served.set()
        await may_compare.wait()
        return status

    monkeypatch.setattr(VectorClient, "status", delayed_status)
    impatient = settings_in(tmp_path, embedder="ollama", ollama_url=ollama.url, starting_timeout=0)
    async with open_stack(impatient) as stack:
        await served.wait()
        at_once = await recall(stack.bus, "symbol of gold")
        may_compare.set()
        await in_step(stack.bus, records=21)
        found = await search(stack.bus, "symbol of gold")
        recalled = await recall(stack.bus, "symbol of gold")

    for answer in (at_once, recalled):
        assert contents(answer)[0] == GOLD
    assert len(contents(found)) == 5
    degraded = [answer["degraded"] for answer in (at_once, found, recalled)]
    assert degraded == [True, False, False]
    assert at_once["reason"]
    assert len(ollama.embedded()) == embedded == 21


async def test_another_embedder_degrades_recall_until_a_reindex(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    async with open_stack(settings_in(tmp_path)) as stack:
        await save(stack.bus, GOLD)
        await in_step(stack.bus, records=1)

    switched = settings_in(tmp_path, embedder="ollama", ollama_url=ollama.url)
    async with open_stack(switched) as stack:
        await save(stack.bus, TIDES)

        async def mismatched() -> bool:
            return "was built with" in str((await search(stack.bus, "gold"))["reason"])

        await eventually(mismatched, within=30)
        degraded = await search(stack.bus, "symbol of gold")
        waiting = await search(stack.bus, "moon")
        now = await status(stack.bus)
        assert ollama.embedded() == [], "nothing is embedded for an index that takes no vectors"

        await status(stack.bus, reindex=True)
        await in_step(stack.bus, records=2)
        mended = await search(stack.bus, "symbol of gold")

    assert (contents(degraded), degraded["degraded"]) == ([GOLD], True)
    assert contents(waiting) == [TIDES]
    assert "nomic-embed-text" in degraded["reason"]
    assert "all-MiniLM-L6-v2" in degraded["reason"]
    assert "`local2 reindex`" in degraded["reason"]
    assert now.problem == degraded["reason"]
    assert now.vectors_available is False
    assert (contents(mended)[0], mended["degraded"]) == (GOLD, False)


async def test_a_stack_starts_while_its_embedder_is_down(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, embedder="ollama")
    async with open_stack(settings) as stack:
        saved = await save(stack.bus, GOLD)

        async def unreachable() -> bool:
            found = await search(stack.bus, "symbol of gold")
            assert (contents(found), found["degraded"]) == ([GOLD], True)
            return "Ollama at http://127.0.0.1:1" in found["reason"]

        await eventually(unreachable, within=30)
        assert saved.ok
