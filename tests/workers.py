"""The vector worker's part of the bus, served from the test's own process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from local.agents.vector_worker import VectorWorker
from local.bus.connection import Connection
from local.vectors.embedder import Embedder
from local.vectors.index import VectorIndex
from local.vectors.store import VectorStore


@asynccontextmanager
async def vector_worker(
    bus: Connection, embedder: Embedder, folder: Path
) -> AsyncIterator[VectorStore]:
    """Serve `vector.*` with Chroma in `folder` while the context lasts."""
    with VectorIndex.open(folder, "local2.memory") as index:
        store = VectorStore(index, embedder)
        try:
            async with VectorWorker(bus, store):
                yield store
        finally:
            store.close()
