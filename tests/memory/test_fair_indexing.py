"""Many waiting records of one user do not delay indexing those of another."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from indexed import indexing_of
from local2.bus.connection import Connection
from local2.bus.vector_client import VectorClient, VectorRequests
from local2.ledger.records import NewRecord
from local2.memory.indexing import (
    BATCH_RECORDS,
    BATCH_SECONDS,
    MAX_BATCHES,
    MIN_BATCH_RECORDS,
    next_batch_size,
)
from local2.memory.tenant import Memory
from local2.protocol.envelope import new_id
from local2.protocol.vectors import VectorItem, VectorsStored, VectorStatus
from recalling import DAY
from waiting import eventually
from working import working

EMBEDDER = "fake"


async def store_messages(memory: Memory, owner: str, number: int) -> list[str]:
    """Store messages of one user; return their ids, oldest first."""
    records = [
        NewRecord(
            id=new_id(),
            kind="chat_message",
            owner=owner,
            session_id="s1",
            event_time=DAY,
            content=f"Message {n} of {owner}.",
        )
        for n in range(number)
    ]
    await memory.ledger.records.store(records)
    return [record.id for record in records]


class _Recording(VectorClient):
    """A worker that stores nothing, and records the ids of every batch."""

    def __init__(self, bus: Connection) -> None:
        super().__init__(VectorRequests(bus, search_timeout=1), "default")
        self.batches: list[list[str]] = []
        self.may_finish = asyncio.Event()

    async def status(self) -> VectorStatus:
        return VectorStatus(worker="w", count=0, embedder=EMBEDDER, clean=True, dimensions=1)

    async def upsert(self, items: list[VectorItem]) -> VectorsStored:
        self.batches.append([item.id for item in items])
        await self.may_finish.wait()
        return VectorsStored(vectors=[bytes(4)] * len(items), embedder=EMBEDDER)


@pytest.fixture
async def worker(bus: Connection, memory: Memory) -> AsyncIterator[_Recording]:
    """A worker whose indexer has messages of eve's, and whatever else waits."""
    await store_messages(memory, "eve", 3_000)
    worker = _Recording(bus)
    async with working(indexing_of(memory, worker)[1]):
        await eventually(lambda: len(worker.batches) == MAX_BATCHES)
        yield worker


async def test_a_record_that_arrives_while_batches_are_under_way_is_in_the_next_one(
    memory: Memory, worker: _Recording
) -> None:
    (note,) = await store_messages(memory, "ann", 1)
    worker.may_finish.set()
    await eventually(lambda: len(worker.batches) > MAX_BATCHES)

    assert note in worker.batches[MAX_BATCHES]


async def test_no_record_is_in_two_batches(worker: _Recording) -> None:
    worker.may_finish.set()
    await eventually(lambda: sum(map(len, worker.batches)) >= 3_000)

    indexed = [id_ for batch in worker.batches for id_ in batch]
    assert len(indexed) == len(set(indexed)) == 3_000


@pytest.mark.parametrize(
    ("records", "seconds", "expected"),
    [
        pytest.param(32, 8 * BATCH_SECONDS, MIN_BATCH_RECORDS, id="slow"),
        pytest.param(100, BATCH_SECONDS, 100, id="just right"),
        pytest.param(100, 0.0, BATCH_RECORDS, id="fast"),
        pytest.param(32, 0.0, 64, id="too few to judge"),
    ],
)
def test_a_batch_takes_about_as_long_as_another_owner_may_wait(
    records: int, seconds: float, expected: int
) -> None:
    assert next_batch_size(records, seconds) == expected
