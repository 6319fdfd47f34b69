"""An index whose files are damaged under a running stack is rebuilt from the ledger."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import hanging_worker
from local2.ledger.operations import working_sets
from local2.memory import indexing
from local2.settings import Settings
from local2.stack import app, supervisor
from local2.stack.app import Stack, open_stack
from stacks import CALLER, contents, in_step, recall, save, say, search, settings_in, status
from stand_ins.ollama_server import OllamaStandIn
from waiting import eventually
from workers import ForkedWorker

GOLD = "The chemical symbol of gold is Au."
TIDES = "The moon pulls at the oceans."
BEFORE = 60
AFTER = 20
ROUNDS = 8
SYNC_THRESHOLD = 200
"""Chroma writes its vector files at every two hundredth record: after eight rounds damage shows."""

Damage = Callable[[Path], None]


@pytest.fixture
def vectors_from_chroma(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Chroma answer, since a small memory's vectors are compared in the ledger's columns."""
    monkeypatch.setattr(working_sets, "MAX_RECORDS", 0)


@pytest.fixture
def settings(tmp_path: Path, ollama: OllamaStandIn) -> Settings:
    return settings_in(tmp_path, embedder="ollama", ollama_url=ollama.url)


def vector_files(folder: Path) -> list[Path]:
    found = list(folder.glob("*-*/*.bin"))
    assert found
    return found


def delete_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def empty_database(folder: Path) -> None:
    os.truncate(folder / "chroma.sqlite3", 0)


def delete_vector_files(folder: Path) -> None:
    for parent in {file.parent for file in vector_files(folder)}:
        shutil.rmtree(parent)


def cut_vector_files(folder: Path) -> None:
    for file in vector_files(folder):
        os.truncate(file, 10)


DAMAGES = [delete_folder, delete_vector_files, cut_vector_files]


def words(number: int) -> str:
    """Return words that no other number shares, so that a vector finds only its own text."""
    return f"alpha{number} beta{number} gamma{number}"


async def note(stack: Stack, ids: dict[str, int], count: int) -> None:
    """Save notes, each with words of its own, and record their ids."""
    memory = stack.memories.of(CALLER)
    numbers = range(len(ids), len(ids) + count)
    written = await asyncio.gather(*(memory.write_episodic(words(n)) for n in numbers))
    ids.update(zip(written, numbers, strict=True))


async def lost(stack: Stack, ids: dict[str, int]) -> list[int]:
    """Return the notes that are not nearest to their own text, according to Chroma."""
    asked = range(0, len(ids), 10)
    found = [await stack.memories.of_tenant("default").vectors.search(words(n), 1) for n in asked]
    return [n for n, near in zip(asked, found, strict=True) if ids.get(near.hits[0].id) != n]


@pytest.mark.usefixtures("worker_forked")
@pytest.mark.parametrize("damage", DAMAGES)
async def test_after_damage_every_record_is_found_by_meaning_again(
    damage: Damage, settings: Settings, ollama: OllamaStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight rounds of saving and a restart suffice, and no stored vector is embedded again."""
    monkeypatch.setattr(ForkedWorker, "sync_threshold", SYNC_THRESHOLD)
    ids: dict[str, int] = {}
    async with open_stack(settings, with_generator=False) as stack:
        await note(stack, ids, BEFORE)
        await in_step(stack.bus, records=BEFORE)
        assert len(ollama.embedded()) == BEFORE

        damage(settings.memory.chroma_path)
        for _ in range(ROUNDS):
            await note(stack, ids, AFTER)
            await search(stack.bus, GOLD)
        await in_step(stack.bus, records=len(ids))
        assert await lost(stack, ids) == []
        assert (await status(stack.bus)).problem is None

    async with open_stack(settings, with_generator=False) as stack:
        await in_step(stack.bus, records=len(ids))
        assert await lost(stack, ids) == []
    texts = ollama.embedded()
    assert not set(texts[:BEFORE]) & set(texts[BEFORE:])


@pytest.mark.usefixtures("worker_here")
async def test_answers_and_status_name_the_damage_until_the_index_is_rebuilt(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the folder cannot be recreated, the attempts become rarer and the reason is reported."""
    monkeypatch.setattr(indexing, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(indexing, "LAST_PAUSE", 0.2)
    folder = settings.memory.chroma_path
    async with open_stack(settings, with_generator=False) as stack:
        await save(stack.bus, GOLD)
        await say(stack.bus, GOLD)
        await in_step(stack.bus, records=2)

        shutil.rmtree(folder)
        folder.write_text("A file in its place.")
        await save(stack.bus, TIDES)

        async def explained() -> bool:
            return "An empty index cannot be created" in str((await status(stack.bus)).problem)

        await eventually(explained)
        found, recalled = (
            await search(stack.bus, "symbol of gold"),
            await recall(stack.bus, "symbol of gold"),
        )
        now = await status(stack.bus)
        for answer in (found, recalled):
            assert (contents(answer), answer["degraded"]) == ([GOLD], True)
            assert "is rebuilt from the ledger" in answer["reason"]
            assert "the disk's space" in answer["reason"]
        assert not now.vectors_available

        folder.unlink()
        await in_step(stack.bus, records=3)
        assert (await search(stack.bus, "symbol of gold"))["degraded"] is False


@pytest.mark.usefixtures("worker_here")
@pytest.mark.parametrize("damage", [delete_folder, empty_database])
async def test_a_reindex_repairs_a_damaged_index(damage: Damage, settings: Settings) -> None:
    async with open_stack(settings, with_generator=False) as stack:
        await save(stack.bus, GOLD)
        await in_step(stack.bus, records=1)
        damage(settings.memory.chroma_path)

        assert (await status(stack.bus, reindex=True)).problem is None

        await in_step(stack.bus, records=1)


async def test_a_worker_hanging_in_chroma_is_killed_and_its_successor_continues(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a full disk: a call never returns, and blocks everything else in the process."""
    hung = tmp_path / "hung"
    monkeypatch.setattr(supervisor, "VECTOR_WORKER", hanging_worker.__name__)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv(hanging_worker.HUNG, str(hung))
    async with app.open_stack(settings, with_generator=False) as stack:
        await save(stack.bus, GOLD)
        await eventually(hung.exists, within=30)
        await in_step(stack.bus, records=1)
        assert contents(await search(stack.bus, "symbol of gold")) == [GOLD]


@pytest.mark.usefixtures("worker_here", "vectors_from_chroma")
async def test_an_index_that_is_wrongly_empty_is_refilled_from_the_ledger(
    settings: Settings,
) -> None:
    """No call fails, but the answers cannot be true."""
    async with open_stack(settings, with_generator=False) as stack:
        await save(stack.bus, GOLD)
        await in_step(stack.bus, records=1)
        await stack.memories.of_tenant("default").vectors.reset()

        assert (await search(stack.bus, "symbol of gold"))["degraded"] is True
        await in_step(stack.bus, records=1)

        await stack.memories.of_tenant("default").vectors.reset()
        await status(stack.bus)
        await in_step(stack.bus, records=1)
