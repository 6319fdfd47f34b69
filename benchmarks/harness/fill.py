"""Write records directly into a ledger, as if the benchmark's user had saved them.

The stack may be running or not: SQLite also accepts rows from a second process, and the next save
makes the stack's indexer look at them. Only `fill_index` needs a folder on which no stack runs.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from harness.client import USER
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.records import NewRecord
from local2.protocol.envelope import DEFAULT_TENANT, content_id, utc_now
from local2.settings import MemorySettings
from local2.vectors.embedder import FloatMatrix
from local2.vectors.index import VectorIndex
from local2.vectors.minilm import MODEL, MiniLM

BATCH = 5_000
EVENT_TIME = datetime(2026, 1, 1, tzinfo=UTC)
EMBEDDED = 500
NOISE = 0.5


async def write_records(
    data_dir: Path,
    records: Sequence[NewRecord],
    vectors: FloatMatrix | None = None,
    *,
    tenant: str = DEFAULT_TENANT,
) -> None:
    """Add records, each with its own id.

    Args:
        data_dir: The data folder of a stack; its ledger is created if it is missing.
        records: The records to add.
        vectors: Their vectors, one row per record, so that the indexer has nothing to embed.
        tenant: The tenant they belong to.
    """
    async with Database.open(data_dir / "ledger.sqlite3") as database:
        await store_records(Ledger(database, tenant), records, vectors)


async def store_records(
    ledger: Ledger, records: Sequence[NewRecord], vectors: FloatMatrix | None = None
) -> None:
    """Do the same in an open ledger."""
    for start in range(0, len(records), BATCH):
        piece = slice(start, start + BATCH)
        await ledger.records.store(records[piece])
        if vectors is not None:
            await _keep_vectors(ledger, vectors[piece])


def fill_index(chroma_path: Path, ids: Sequence[str], vectors: FloatMatrix) -> None:
    """Put records' vectors into a stack's index, so that it need not do so when it starts."""
    fill_indexes(chroma_path, {DEFAULT_TENANT: ids}, vectors)


def fill_indexes(
    chroma_path: Path, tenants: Mapping[str, Sequence[str]], vectors: FloatMatrix
) -> None:
    """Do the same for several tenants, which have the same vectors under other ids."""
    with VectorIndex.open(chroma_path, MemorySettings().collection) as index:
        for tenant, ids in tenants.items():
            index.ensure(tenant, MODEL, vectors.shape[1])
            index.upsert(tenant, ids, vectors)


def episodes(texts: Sequence[str]) -> list[NewRecord]:
    """Return an episode for each text; the texts differ."""
    return [
        NewRecord(
            id=content_id("episode", USER, None, text),
            kind="episode",
            owner=USER,
            content=text,
            event_time=EVENT_TIME,
        )
        for text in texts
    ]


def made_up_vectors(embedder: MiniLM, texts: Sequence[str]) -> FloatMatrix:
    """Return vectors as close together as real ones, made from a few embedded texts and noise."""
    return vectors_around(embedder.embed_queries(texts[:EMBEDDED]), len(texts))


def vectors_around(real: FloatMatrix, count: int, *, seed: int = 1) -> FloatMatrix:
    """Return as many vectors, each one of the real ones with noise."""
    chance = np.random.default_rng(seed)
    vectors = chance.standard_normal((count, real.shape[1]), dtype=np.float32)
    vectors *= NOISE / np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors += real[np.arange(count) % len(real)]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


async def _keep_vectors(ledger: Ledger, vectors: FloatMatrix) -> None:
    """Store the vectors; the records then count as indexed, and a stack adds missing ones."""
    tasks = await ledger.backlog.claim({"index": len(vectors)}, now=utc_now())
    waiting = await ledger.index.waiting(tasks, embedder=MODEL)
    waiting.sort(key=lambda record: record.row)
    await ledger.index.store_vectors(waiting, [row.tobytes() for row in vectors], MODEL)
