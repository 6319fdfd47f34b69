"""If nats-server dies during indexing, nothing waits out a batch's timeout of minutes."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from calling import caller_named
from indexed import indexed
from local2.bus.connection import connect
from local2.bus.server import embedded_server
from local2.bus.vector_client import VectorClient, VectorRequests
from local2.errors import VectorError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.memory.tenant import Memory
from local2.protocol.payloads import MemoryChange
from local2.protocol.vectors import VectorsStored, VectorUpsert
from local2.settings import MemorySettings
from local2.vectors.minilm import MiniLM
from local2.vectors.store import VectorStore
from waiting import eventually
from workers import vector_worker


def _ignore(subject: str, change: MemoryChange) -> None:
    del subject, change


async def test_batches_under_way_when_the_server_dies_are_resent(
    tmp_path: Path, embedder: MiniLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is busy with the first batch for ever, so its answer would have been lost."""
    begun = asyncio.Event()
    upsert = VectorStore.upsert

    async def busy_at_first(store: VectorStore, ask: VectorUpsert) -> VectorsStored:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return await upsert(store, ask)

    monkeypatch.setattr(VectorStore, "upsert", busy_at_first)
    monkeypatch.setattr("local2.bus.participant.STOP_GRACE", 0.1)
    async with AsyncExitStack() as running:
        server = await running.enter_async_context(
            embedded_server(tmp_path / "nats", host="127.0.0.1", port=-1)
        )
        bus, other = [
            await running.enter_async_context(connect(server.url, name=name)) for name in "ab"
        ]
        database = await running.enter_async_context(Database.open(tmp_path / "ledger.sqlite3"))
        vectors = VectorClient(VectorRequests(bus, search_timeout=5), "default")
        memory = Memory(Ledger(database, "default"), vectors, MemorySettings(), announce=_ignore)
        await running.enter_async_context(vector_worker(other, embedder, tmp_path / "chroma"))
        indexing = asyncio.create_task(memory.backlog.run())
        running.callback(indexing.cancel)
        await memory.of(caller_named("ann")).write_episodic("A note.")
        await begun.wait()
        pid = server.pid
        os.kill(pid, signal.SIGKILL)

        await eventually(lambda: memory.indexer.delay is not None)
        assert "connection to the bus" in str(memory.indexer.delay)
        await eventually(lambda: server.pid != pid)
        await indexed(memory)
        indexing.cancel()
        with suppress(asyncio.CancelledError):
            await indexing


async def test_without_a_connection_a_question_fails_at_once(tmp_path: Path) -> None:
    async with AsyncExitStack() as running:
        server = await running.enter_async_context(
            embedded_server(tmp_path / "nats", host="127.0.0.1", port=-1)
        )
        async with connect(server.url, name="test") as bus:
            vectors = VectorClient(VectorRequests(bus, search_timeout=300), "default")
            await running.aclose()
            await eventually(bus.lost.is_set)

            with pytest.raises(VectorError, match="connection to the bus was lost"):
                await vectors.search("metal", 5)
