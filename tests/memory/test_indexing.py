"""The index follows the ledger through every failure."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calling import caller_named
from indexed import indexed, indexing_of, paused_indexing
from ledgers import to_index
from local2.bus.connection import Connection
from local2.bus.vector_client import VectorClient, VectorRequests
from local2.errors import VectorError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.operations.index import Waiting
from local2.ledger.records import NewRecord
from local2.ledger.stored_vectors import unpacked
from local2.logs import logging_to
from local2.memory.backlog import Backlog
from local2.memory.indexing import (
    Indexer,
    batches,
    vector_items,
)
from local2.memory.tenant import Memory
from local2.protocol.envelope import encode, new_id, seal
from local2.protocol.vectors import VectorItem, VectorsStored, VectorStatus, VectorUpsert
from local2.vectors.embedder import FloatMatrix
from local2.vectors.minilm import MiniLM
from recalling import DAY
from stored import select
from waiting import eventually
from working import working

RICHARD = caller_named("richard")


async def in_index(memory: Memory) -> set[str]:
    return set(await memory.vectors.ids(0, 1000))


async def test_a_record_is_stored_with_the_vector_of_its_text(
    searchable: Memory, database: Database, embedder: MiniLM
) -> None:
    await searchable.of(RICHARD).write_topic("user.metal", "gold")
    await indexed(searchable)

    ((name, data),) = await select(database, "SELECT embedder, data FROM vector")
    expected = embedder.embed_queries(["user.metal: gold"])[0]
    assert name == "all-MiniLM-L6-v2"
    np.testing.assert_allclose(unpacked(data), expected, atol=1e-3)


async def test_a_replaced_topic_leaves_the_index(searchable: Memory) -> None:
    service = searchable.of(RICHARD)
    old = await service.write_topic("user.metal", "gold")
    await indexed(searchable)
    assert await in_index(searchable) == {old}

    new = await service.write_topic("user.metal", "silver")

    await eventually(lambda: in_index(searchable), lambda found: found == {new})


async def test_an_index_regains_lost_records_and_drops_unknown_ones(
    searchable: Memory, embedder: MiniLM
) -> None:
    service = searchable.of(RICHARD)
    ids = [await service.write_episodic(f"Note {n} of many.") for n in range(20)]
    await indexed(searchable)
    await searchable.vectors.delete(ids[:7])
    stranger = embedder.embed_queries(["A record that the ledger never had."])[0]
    item = VectorItem(id="stranger", vector=stranger.tobytes())
    await searchable.vectors.upsert([item])

    searchable.indexer.worker_started("another")

    await eventually(lambda: in_index(searchable), lambda found: found == set(ids))


class _Moody(VectorClient):
    """A worker without an index, which is ready unless it has a problem."""

    def __init__(self, bus: Connection) -> None:
        super().__init__(VectorRequests(bus, search_timeout=1), "default")
        self.problem: str | None = "It is starting."

    async def status(self) -> VectorStatus:
        if self.problem:
            raise VectorError(self.problem)
        return VectorStatus(worker="w", count=0, embedder="none", clean=True, dimensions=1)


async def test_a_worker_that_is_not_ready_causes_a_warning_only_if_it_was_ready(
    bus: Connection, database: Database, tmp_path: Path
) -> None:
    log = tmp_path / "own.log"

    def levels() -> list[str]:
        events = [json.loads(line) for line in log.read_text().splitlines()]
        return [one["level"] for one in events if one["event"] == "indexing_delayed"]

    vectors = _Moody(bus)
    ledger = Ledger(database, "default")
    backlog = Backlog(ledger.backlog)
    indexer = Indexer(ledger.index, vectors, backlog, patience=0)
    with logging_to(log):
        async with working(backlog):
            await eventually(lambda: levels() == ["info"])
            vectors.problem = None
            indexer.worker_started("w")
            await eventually(lambda: indexer.problem is None)
            vectors.problem = "It is starting again."
            indexer.worker_started("another")
            await eventually(lambda: levels() == ["info", "warning"])


async def test_a_rebuild_embeds_nothing_again(
    searchable: Memory, embedder: MiniLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {await searchable.of(RICHARD).write_episodic(f"Note {n} of many.") for n in range(20)}
    await indexed(searchable)
    embedded: list[str] = []
    embed = embedder.embed_documents

    def recorded(texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        embedded.extend(texts)
        return embed(texts)

    monkeypatch.setattr(embedder, "embed_documents", recorded)
    await searchable.indexer.rebuild()
    await indexed(searchable)

    assert await in_index(searchable) == ids
    assert embedded == []


async def test_a_rebuild_is_not_restarted_while_one_is_under_way(
    searchable: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may request a rebuild, as often as they like."""
    ids = {await searchable.of(RICHARD).write_episodic(f"Note {n} of many.") for n in range(20)}
    await indexed(searchable)
    reset, resets = searchable.vectors.reset, 0

    async def counted(*, whole: bool = False) -> VectorStatus:
        nonlocal resets
        resets += not whole  # a reset of the whole index repairs a damaged one
        return await reset(whole=whole)

    monkeypatch.setattr(searchable.vectors, "reset", counted)
    async with paused_indexing(searchable):
        await asyncio.gather(*(searchable.indexer.rebuild() for _ in range(5)))
        await searchable.indexer.rebuild()
        assert resets == 1
    await eventually(lambda: searchable.indexer.is_caught_up)
    assert await in_index(searchable) == ids

    await searchable.indexer.rebuild()
    assert resets == 2


class _FailsOnDemand(VectorClient):
    """A worker that embeds nothing, and fails on request."""

    def __init__(self, bus: Connection) -> None:
        super().__init__(VectorRequests(bus, search_timeout=1), "default")
        self.called, self.may_fail = asyncio.Event(), asyncio.Event()

    async def status(self) -> VectorStatus:
        return VectorStatus(worker="w", count=0, embedder="none", clean=True, dimensions=1)

    async def upsert(self, items: list[VectorItem]) -> VectorsStored:
        del items
        self.called.set()
        await self.may_fail.wait()
        raise VectorError("The worker ended.")


async def test_an_indexer_cancelled_while_a_batch_fails_ends(
    bus: Connection, memory: Memory
) -> None:
    """This happens when the stack stops: the worker ends first."""
    await memory.of(RICHARD).write_episodic("A note.")
    worker = _FailsOnDemand(bus)
    indexing = asyncio.create_task(indexing_of(memory, worker)[1].run())
    await worker.called.wait()

    worker.may_fail.set()
    await asyncio.sleep(0)  # the batch has failed, but its task group has not noticed yet
    indexing.cancel()

    await asyncio.wait([indexing], timeout=5)
    assert indexing.cancelled()


def session_record(text: str, **columns: Any) -> NewRecord:
    """Return a message of one of Richard's sessions."""
    fields = {"kind": "chat_message", "owner": "richard", "session_id": "s1", "event_time": DAY}
    return NewRecord(**{"id": new_id(), "content": text, **fields, **columns})


async def embedded(memory: Memory, *records: NewRecord) -> list[str]:
    """Return the texts that wait to be embedded, in the order of the records."""
    await memory.ledger.records.store(records)
    waiting = await to_index(memory.ledger)
    return [one.text for one in sorted(waiting, key=lambda one: one.row)]


async def test_a_short_message_is_embedded_with_the_end_of_the_one_before_it(
    memory: Memory,
) -> None:
    question = "x" * 500 + " Which metal do you like best?"

    long, short = await embedded(
        memory,
        session_record(question, label="Ann"),
        session_record("Gold.", label="Bob", session_id="s1"),
    )

    assert long == f"Ann: {question}"[:400]
    assert short.startswith("Bob: Gold.\n")
    assert short.endswith(" Which metal do you like best?")
    assert len(short) <= 301


async def test_a_short_message_is_extended_only_by_earlier_messages_of_its_session(
    memory: Memory,
) -> None:
    texts = await embedded(
        memory,
        session_record("One."),
        session_record("Two.", session_id="s2"),
        session_record("Three.", owner="eve"),
        session_record("Q: Four?", kind="episode"),
        session_record("Five.", role="tool", kind="tool_output", label="weigh"),
    )

    assert texts == ["One.", "Two.", "Three.", "Q: Four?", "weigh: Five.\nOne."]


async def test_a_fact_is_embedded_under_its_key_and_cut(memory: Memory) -> None:
    fact = session_record(
        "gold " * 1_000, kind="fact", scope="user", topic="user.metal", session_id=None
    )

    (text,) = await embedded(memory, fact)

    assert text == f"user.metal: {'gold ' * 1_000}"[:1_000]


MESSAGE_BYTES = 1_000_000


@pytest.mark.parametrize("dimensions", [384, 768, 1536, 3072])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("gold", id="short"),
        pytest.param("\u8a18" * 20_000, id="CJK"),
        pytest.param("\x01" * 20_000, id="control characters"),
        pytest.param('\\"' * 20_000, id="quotes and backslashes"),
    ],
)
def test_every_batch_and_its_answer_fit_a_message(text: str, dimensions: int) -> None:
    vector = bytes(4 * dimensions)
    records = [
        Waiting(row=row, id=f"{row:032}", text=text, vector=vector if row % 3 == 0 else None)
        for row in range(400)
    ]

    cut = list(batches(records, dimensions))

    assert sorted(record.row for batch in cut for record in batch) == list(range(400))
    for batch in cut:
        request = VectorUpsert(tenant="default", items=vector_items(batch))
        answer = VectorsStored(vectors=[vector] * len(batch), embedder="all-MiniLM-L6-v2")
        for payload in (request, answer):
            assert len(encode(seal(payload, type="request", source="memory"))) <= MESSAGE_BYTES
