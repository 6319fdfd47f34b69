"""What people would use instead: plain Chroma, SQLite's FTS5, and a fusion of their ranks."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chromadb
from chromadb.config import Settings

from local2.language.words import terms
from local2.vectors.embedder import FloatMatrix

UPSERT_SIZE = 1_000
RANK_CONSTANT = 60


class PlainChroma:
    """A collection of vectors, queried without a filter."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def add(self, ids: Sequence[str], vectors: FloatMatrix, together: int = UPSERT_SIZE) -> None:
        for start in range(0, len(ids), together):
            piece = slice(start, start + together)
            self._collection.upsert(ids=list(ids[piece]), embeddings=vectors[piece])

    def nearest(self, vector: FloatMatrix, limit: int) -> list[str]:
        """Return the ids nearest to a matrix of one row, best first."""
        found = self._collection.query(
            query_embeddings=vector, n_results=limit, include=["distances"]
        )
        ids: list[str] = found["ids"][0]
        return ids


class FullText:
    """An FTS5 table with Porter stems; questions are their words joined with OR, no stop words."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(
            "CREATE VIRTUAL TABLE text USING fts5"
            " (id UNINDEXED, content, tokenize = 'porter unicode61')"
        )

    def add(self, ids: Sequence[str], texts: Sequence[str]) -> None:
        """Commit the texts in one transaction."""
        self._connection.execute("BEGIN")
        self._connection.executemany(
            "INSERT INTO text (id, content) VALUES (?, ?)", zip(ids, texts, strict=True)
        )
        self._connection.execute("COMMIT")

    def best(self, question: str, limit: int) -> list[str]:
        """Return the ids that BM25 ranks first."""
        match = " OR ".join(f'"{term}"' for term in terms(question))
        if not match:
            return []
        found = self._connection.execute(
            "SELECT id FROM text WHERE text MATCH ? ORDER BY bm25(text) LIMIT ?", (match, limit)
        )
        return [id_ for (id_,) in found]


@contextmanager
def plain_chroma(folder: Path, name: str = "plain") -> Iterator[PlainChroma]:
    """Create a collection in a folder, which may hold others."""
    client = chromadb.PersistentClient(folder, Settings(anonymized_telemetry=False))
    try:
        yield PlainChroma(
            client.create_collection(
                name, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
            )
        )
    finally:
        client.close()


@contextmanager
def full_text(file: Path) -> Iterator[FullText]:
    """Create a database that syncs every commit to disk."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        yield FullText(connection)
    finally:
        connection.close()


def fused(rankings: Sequence[Sequence[str]], limit: int) -> list[str]:
    """Fuse by reciprocal rank: a ranking adds 1 / (60 + rank) to each result, with ranks from 1."""
    scores: defaultdict[str, float] = defaultdict(float)
    for ranking in rankings:
        for rank, id_ in enumerate(ranking, start=1):
            scores[id_] += 1 / (RANK_CONSTANT + rank)
    return sorted(scores, key=scores.__getitem__, reverse=True)[:limit]
