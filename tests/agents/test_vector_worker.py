"""A vector worker whose embedder cannot be loaded still serves, and reports the reason."""

import asyncio
import ctypes
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import structlog
from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

from calling import caller_named
from factories import ConnectBus
from indexed import indexed
from local2.agents import vector_worker as worker_module
from local2.bus.connection import Connection
from local2.bus.vector_client import VectorClient, VectorRequests
from local2.errors import VectorError
from local2.memory.tenant import Memory
from local2.protocol import subjects
from local2.protocol.envelope import utc_now
from local2.protocol.tool import begin_call
from local2.protocol.vectors import VectorItem
from local2.stack.app import open_stack
from local2.vectors import weights
from local2.vectors.config import WorkerConfig
from local2.vectors.embedder import Embedder, MissingEmbedder
from local2.vectors.minilm import MiniLM
from stacks import settings_in
from waiting import eventually
from workers import vector_worker

GOLD = "The chemical symbol of gold is Au."
RICHARD = caller_named("richard")
TENANT = "default"

log = structlog.get_logger()


@pytest.fixture
def missing_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Embedder:
    """Choose an embedder where MiniLM is neither installed nor available for download."""
    monkeypatch.setattr(weights, "MODULE", "no_such_package")
    monkeypatch.setattr(ONNXMiniLM_L6_V2, "MODEL_DOWNLOAD_URL", "http://127.0.0.1:1/onnx.tar.gz")
    config = WorkerConfig(
        bus_url="",
        chroma_path=tmp_path / "chroma",
        collection="local2.memory",
        models_dir=tmp_path / "models",
        embedder="minilm",
        embedding_model="nomic-embed-text",
        ollama_url="http://127.0.0.1:1",
    )
    return worker_module._choose_embedder(config, None)


@pytest.fixture
async def vectors(
    connect_bus: ConnectBus, bus: Connection, missing_embedder: Embedder, tmp_path: Path
) -> AsyncIterator[VectorClient]:
    async with vector_worker(await connect_bus(), missing_embedder, tmp_path / "chroma"):
        yield VectorClient(VectorRequests(bus, search_timeout=5.0), "default")


async def test_a_search_waits_for_a_silent_worker_no_longer_than_its_caller_for_the_answer(
    bus: Connection, connect_bus: ConnectBus
) -> None:
    async def ignore(_: object) -> None:
        pass

    silent = await connect_bus()
    await silent.subscribe(subjects.VECTOR_SEARCH, ignore)
    await silent.flush()
    patient = VectorClient(VectorRequests(bus, search_timeout=3600.0), "default")

    async def call_tool() -> None:
        begin_call(ignore, utc_now() + timedelta(seconds=1))
        await patient.search("gold", 5)

    with pytest.raises(VectorError, match="does not answer"):
        await asyncio.create_task(call_tool())


def test_an_embedder_that_cannot_be_loaded_is_missing_and_keeps_its_name(
    missing_embedder: Embedder,
) -> None:
    assert isinstance(missing_embedder, MissingEmbedder)
    assert missing_embedder.name == "minilm"


async def test_the_status_explains_why_there_is_no_embedder(vectors: VectorClient) -> None:
    status = await vectors.status()

    assert "could not be downloaded" in str(status.problem)
    assert "`local2 doctor`" in str(status.problem), "and names the remedy"
    assert (status.count, status.dimensions) == (0, 0)


async def test_requests_that_need_the_embedder_fail_with_the_reason(vectors: VectorClient) -> None:
    with pytest.raises(VectorError, match="could not be downloaded"):
        await vectors.search("gold", 5)
    with pytest.raises(VectorError, match="could not be downloaded"):
        await vectors.upsert([VectorItem(id="1", text=GOLD)])
    with pytest.raises(VectorError, match="could not be downloaded"):
        await vectors.reset()


@pytest.mark.usefixtures("vectors")
async def test_a_search_without_an_embedder_uses_full_text_and_gives_the_reason(
    memory: Memory,
) -> None:
    service = memory.of(RICHARD)
    await service.write_episodic(GOLD)

    async def explained() -> bool:
        found = await service.search_episodic("symbol of gold")
        assert [hit.content for hit in found.hits] == [GOLD]
        assert found.degraded
        return "could not be downloaded" in str(found.reason)

    await eventually(explained)


async def test_an_index_survives_a_start_without_its_embedder(
    memory: Memory,
    connect_bus: ConnectBus,
    embedder: MiniLM,
    missing_embedder: Embedder,
    tmp_path: Path,
) -> None:
    service = memory.of(RICHARD)
    folder = tmp_path / "chroma"
    async with vector_worker(await connect_bus(), embedder, folder) as store:
        memory.indexer.worker_started(store.id)
        await service.write_episodic(GOLD)
        await indexed(memory)
    memory.indexer.worker_lost()

    async with vector_worker(await connect_bus(), missing_embedder, folder) as store:
        memory.indexer.worker_started(store.id)
        assert (await memory.vectors.status()).count == 1
    memory.indexer.worker_lost()

    async with vector_worker(await connect_bus(), embedder, folder) as store:
        memory.indexer.worker_started(store.id)
        await eventually(lambda: memory.indexer.problem is None)
        found = await service.search_episodic("that precious metal")
    assert ([hit.content for hit in found.hits], found.degraded) == ([GOLD], False)


VECTOR_SUBJECTS = ("search", "upsert", "delete", "ids", "lost", "status", "reset")


async def test_requests_without_a_reply_inbox_do_nothing(
    bus: Connection, connect_bus: ConnectBus, embedder: MiniLM, tmp_path: Path, logs: Path
) -> None:
    def lines() -> list[str]:
        return [line for line in logs.read_text().splitlines() if '"vector.' in line]

    before = len(lines())
    async with vector_worker(await connect_bus(), embedder, tmp_path / "chroma"):
        vectors = VectorClient(VectorRequests(bus, search_timeout=5.0), "default")
        await vectors.upsert([VectorItem(id="gold", text=GOLD)])
        for subject in VECTOR_SUBJECTS:
            for data in (b"{", b'{"payload": {}}', b'{"payload": {"ids": ["gold"]}}'):
                await bus.publish(f"vector.{subject}", data)
        await bus.flush()
        assert (await vectors.search(GOLD, 1)).hits[0].id == "gold"
        assert (await vectors.status()).count == 1

    log.warning("nothing_more_comes", subject="vector.none")  # events are written in their order
    await eventually(lambda: "nothing_more_comes" in "".join(lines()))
    assert len(lines()) == before + 1


@pytest.mark.skipif(sys.platform != "linux", reason="Only glibc can overwrite freed memory.")
@pytest.mark.usefixtures("worker_here")
async def test_the_memory_that_chroma_writes_unfilled_contains_nothing_freed(
    tmp_path: Path,
) -> None:
    """Forgotten words have been found in `data_level0.bin`."""
    libc, size = ctypes.CDLL(None), 4096
    libc.malloc.restype = ctypes.c_void_p
    async with open_stack(settings_in(tmp_path), with_generator=False):
        pointer = libc.malloc(size)
        unfilled = ctypes.string_at(pointer, size)
        libc.free(ctypes.c_void_p(pointer))

    assert len(set(unfilled[:-8])) == 1
