"""Episodes written straight into a ledger, as the benchmark's user would have saved them.

The stack may be running or not: SQLite takes rows from a second process as well, and the next save
makes the stack's indexer look at them.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from client import USER
from local.database import Database
from local.memory.ledger import Ledger
from local.memory.records import NewRecord, content_id
from local.memory.sql import migrations
from local.vectors.matrix import FloatMatrix
from local.vectors.minilm import MODEL

TOGETHER = 5_000
EVENT_TIME = datetime(2026, 1, 1, tzinfo=UTC)


async def write_episodes(
    data_dir: Path, texts: Sequence[str], vectors: FloatMatrix | None = None
) -> None:
    """Add an episode a text.

    Args:
        data_dir: The data folder of a stack; the ledger in it is made if it is missing.
        texts: The contents, each different.
        vectors: Their vectors, a row a text, so that the indexer has nothing to embed.
    """
    async with Database.open(data_dir / "ledger.sqlite3", migrations()) as database:
        ledger = Ledger(database, "default")
        for start in range(0, len(texts), TOGETHER):
            piece = slice(start, start + TOGETHER)
            await asyncio.gather(*(ledger.add(_episode(text)) for text in texts[piece]))
            if vectors is not None:
                await _keep_vectors(ledger, vectors[piece])


async def _keep_vectors(ledger: Ledger, vectors: FloatMatrix) -> None:
    """The records count as indexed then; the stack will see that the index lacks them."""
    waiting = await ledger.waiting(len(vectors), embedder=MODEL)
    await ledger.keep_vectors(waiting, [row.tobytes() for row in vectors], MODEL)


def _episode(text: str) -> NewRecord:
    return NewRecord(
        id=content_id("episode", USER, None, text),
        kind="episode",
        owner=USER,
        content=text,
        event_time=EVENT_TIME,
    )
