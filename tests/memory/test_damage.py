"""A damaged index is rebuilt immediately, less often if that does not last, and never in a loop."""

import asyncio

import pytest

from calling import caller_named
from clocks import Seconds
from indexed import indexed, indexing_of
from local2.bus.connection import Connection
from local2.bus.vector_client import VectorClient, VectorRequests
from local2.errors import IndexDamagedError
from local2.memory import indexing
from local2.memory.indexing import FIRST_PAUSE, LAST_PAUSE, STABLE_SECONDS, Damage
from local2.memory.tenant import Memory
from local2.protocol.vectors import VectorItem, VectorsStored, VectorStatus
from waiting import eventually
from working import working

RICHARD = caller_named("richard")
READY = VectorStatus(worker="w", count=0, embedder="none", clean=True, dimensions=1)


def rebuild(index: Damage) -> float:
    """Report damage, rebuild the index, and return the seconds until the rebuild was due."""
    assert index.record_damage("It is torn.")
    pause = index.seconds_to_wait()
    index.record_attempt()
    index.record_repair()
    return pause


def test_pauses_grow_until_a_rebuild_lasts_and_then_start_over() -> None:
    clock = Seconds()
    index = Damage(clock)

    pauses = [rebuild(index) for _ in range(10)]
    clock.now += STABLE_SECONDS
    pauses.append(rebuild(index))

    assert pauses[:4] == [0, FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-2:] == [LAST_PAUSE, 0]


def test_one_crash_is_no_damage_but_two_within_ten_minutes_are() -> None:
    clock = Seconds()
    index = Damage(clock)

    crashes = [index.record_crash()]
    clock.now += STABLE_SECONDS
    crashes += [index.record_crash(), index.record_crash()]

    assert crashes == [False, False, True]


class _NeverWhole(VectorClient):
    """A worker whose index can be emptied but stores nothing, as on a full disk."""

    def __init__(self, bus: Connection) -> None:
        super().__init__(VectorRequests(bus, search_timeout=1), "default")
        self.resets: list[bool] = []

    async def status(self) -> VectorStatus:
        return READY

    async def reset(self, *, whole: bool = False) -> VectorStatus:
        self.resets.append(whole)
        return READY

    async def upsert(self, items: list[VectorItem]) -> VectorsStored:
        del items
        raise IndexDamagedError("Chroma could not store vectors.")


async def test_an_index_that_does_not_last_is_not_rebuilt_repeatedly(
    bus: Connection, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "FIRST_PAUSE", 3_600.0)
    monkeypatch.setattr(indexing, "LAST_PAUSE", 3_600.0)
    await memory.of(RICHARD).write_episodic("A note.")
    worker = _NeverWhole(bus)
    indexer, backlog = indexing_of(memory, worker)

    async with working(backlog):
        await eventually(lambda: "damaged again soon" in str(indexer.problem))
        for _ in range(5):
            backlog.wake("index")
            await asyncio.sleep(0)
        assert worker.resets == [True]
        assert "Chroma could not store vectors." in str(indexer.problem)
        assert "the disk's space" in str(indexer.problem)


async def test_a_worker_that_crashes_repeatedly_gets_an_empty_index(
    searchable: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {await searchable.of(RICHARD).write_episodic(f"Note {n} of many.") for n in range(20)}
    await indexed(searchable)
    resets: list[bool] = []
    reset = searchable.vectors.reset

    async def record_reset(*, whole: bool = False) -> VectorStatus:
        resets.append(whole)
        return await reset(whole=whole)

    monkeypatch.setattr(searchable.vectors, "reset", record_reset)
    for worker in ("second", "third"):
        searchable.indexer.worker_lost(crashed=True)
        assert "again and again" in str(searchable.indexer.problem) or worker == "second"
        searchable.indexer.worker_started(worker)

    async def is_complete() -> bool:
        held = set(await searchable.vectors.ids(0, 100))
        return held == ids and searchable.indexer.problem is None

    await eventually(is_complete)
    assert resets == [True]
    await eventually(lambda: searchable.indexer.refilling is None)


@pytest.mark.parametrize(("missed", "damaged"), [(5, False), (6, True)])
async def test_an_index_that_misses_more_than_a_share_of_its_vectors_is_damaged(
    searchable: Memory, monkeypatch: pytest.MonkeyPatch, missed: int, damaged: bool
) -> None:
    """Of a hundred vectors: the neighbour graph of a large index is approximate."""
    richard = searchable.of(RICHARD)
    for number in range(100):
        await richard.write_episodic(f"Note {number}.")
    await indexed(searchable)

    async def lost(items: list[VectorItem]) -> list[str]:
        assert len(items) == 100
        return [item.id for item in items[:missed]]

    emptied: list[bool] = []

    async def reset(*, whole: bool = False) -> VectorStatus:
        emptied.append(whole)
        monkeypatch.undo()
        return READY

    monkeypatch.setattr(searchable.vectors, "lost", lost)
    monkeypatch.setattr(searchable.vectors, "reset", reset)
    searchable.indexer.worker_lost()
    searchable.indexer.worker_started("another")
    await eventually(lambda: searchable.indexer.is_caught_up)

    assert emptied == ([True] if damaged else [])
