"""What the vector store refuses, rather than storing part of it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from backlog_process import ToyEmbedder
from local.errors import VectorError
from local.protocol.vectors import TenantOnly, VectorItem, VectorUpsert
from local.vectors.embedder import FloatMatrix
from local.vectors.index import VectorIndex
from local.vectors.store import VectorStore


class LosesTheLast(ToyEmbedder):
    """A vector for each text but the last."""

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        yield from super().embed_documents(texts[:-1])


async def test_texts_without_a_vector_are_refused_and_none_is_stored(tmp_path: Path) -> None:
    items = [VectorItem(id=name, text=name) for name in ("one", "two", "three")]
    with VectorIndex.open(tmp_path, "local2.memory") as index:
        store = VectorStore(index, LosesTheLast())
        try:
            with pytest.raises(VectorError, match="toy made vectors for 2 of 3 texts"):
                await store.upsert(VectorUpsert(items=items, tenant="default"))
            assert (await store.status(TenantOnly(tenant="default"))).count == 0
        finally:
            store.close()
