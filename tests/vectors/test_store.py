"""What the vector store refuses, whom it lets wait, and how another embedder takes over."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest

from backlog_process import ToyEmbedder
from local2.errors import VectorError
from local2.protocol.vectors import (
    TenantOnly,
    VectorItem,
    VectorNext,
    VectorSearch,
    VectorStatus,
    VectorUpsert,
)
from local2.vectors.embedder import FloatMatrix
from local2.vectors.index import VectorIndex
from local2.vectors.store import VectorStore


class LosesTheLast(ToyEmbedder):
    """An embedder that returns a vector for each text but the last."""

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        yield from super().embed_documents(texts[:-1])


async def test_a_batch_with_a_missing_vector_is_refused_as_a_whole(tmp_path: Path) -> None:
    items = [VectorItem(id=name, text=name) for name in ("one", "two", "three")]
    with VectorIndex.open(tmp_path, "local2.memory") as index:
        store = VectorStore(index, LosesTheLast())
        try:
            with pytest.raises(VectorError, match="toy made vectors for 2 of 3 texts"):
                await store.upsert(VectorUpsert(items=items, tenant="default"))
            assert (await store.status(TenantOnly(tenant="default"))).count == 0
        finally:
            store.close()


class Hangs(ToyEmbedder):
    """An embedder whose server does not answer a batch until it is released."""

    is_served = True

    def __init__(self) -> None:
        super().__init__()
        self.called, self.answers = threading.Event(), threading.Event()

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        self.called.set()
        self.answers.wait()
        yield from super().embed_documents(texts)


async def test_a_question_does_not_wait_for_a_batch_on_a_hanging_server(
    tmp_path: Path,
) -> None:
    embedder = Hangs()
    with VectorIndex.open(tmp_path, "local2.memory") as index:
        store = VectorStore(index, embedder)
        items = [VectorItem(id="one", text="one")]
        batch = asyncio.create_task(store.upsert(VectorUpsert(items=items, tenant="default")))
        try:
            await asyncio.to_thread(embedder.called.wait)
            async with asyncio.timeout(30):
                hits = await store.search(VectorSearch(text="one", limit=1, tenant="default"))
                status = await store.status(TenantOnly(tenant="default"))
            assert len(hits.question) == 8 * 4
            assert (status.count, batch.done()) == (0, False)
        finally:
            embedder.answers.set()
            await batch
            store.close()


class Closes(ToyEmbedder):
    """An embedder that makes no vectors once it is closed."""

    closed = False

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        assert not self.closed
        return super().embed_queries(texts)

    def close(self) -> None:
        self.closed = True


async def test_an_index_takes_over_once_and_only_if_it_is_the_one_that_is_filled(
    tmp_path: Path,
) -> None:
    async def ask(action: Literal["begin", "swap"], embedder: str) -> VectorStatus:
        request = VectorNext(action=action, embedder=embedder, tenant="default")
        return await store.change(request)

    former = Closes("former")
    with VectorIndex.open(tmp_path, "local2.memory") as index:
        store = VectorStore(index, former, Closes)
        try:
            await ask("begin", "another")
            with pytest.raises(VectorError, match="No index of a third is being filled"):
                await ask("swap", "a third")
            assert (await ask("swap", "another")).embedder == "another"
            assert former.closed
            assert (await ask("begin", "another")).next is None
            await store.search(VectorSearch(text="one", limit=1, tenant="default"))
        finally:
            store.close()
