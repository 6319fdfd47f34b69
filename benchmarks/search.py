"""`search_memory` against embedding, querying Chroma and an echo, without local2 in between.

The raw side has a MiniLM in this process and a Chroma collection of the same vectors. A second
stack holds five times as many episodes, to see how the latency grows.
"""

import itertools
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import chromadb
import numpy as np

from client import Ask, Asker, alternating, data_of, latency, request_of, stack_and_echo
from fill import write_episodes
from local.tools.search_memory import FoundMemories
from local.vectors.matrix import FloatMatrix
from local.vectors.minilm import MiniLM
from processes import data_dir
from report import Figure, milliseconds, ratio, run
from texts import notes

FEW = 10_000
MANY = 50_000
TOP_K = 5
BLOCKS = 9
REQUESTS = 60
EMBEDDED = 500
NOISE = 0.5
WORDS = 10, 30
UPSERT_SIZE = 1_000


async def measure() -> list[Figure]:
    embedder = MiniLM.load(Path("models"))
    texts = notes(MANY, seed=1, words=WORDS)
    queries = notes(EMBEDDED, seed=2, words=(6, 12))
    vectors = made_up_vectors(embedder, texts)
    with tempfile.TemporaryDirectory() as name:
        few, many = Path(name) / "few", Path(name) / "many"
        await write_episodes(data_dir(few), texts[:FEW], vectors[:FEW])
        await write_episodes(data_dir(many), texts, vectors)
        async with stack_and_echo(few) as asker, stack_and_echo(many) as asker_of_many:
            await asker.all_indexed()
            await asker_of_many.all_indexed()
            raw = await raw_search(Path(name), asker, embedder, vectors[:FEW], queries)
            ours, base, grown = await alternating(
                BLOCKS,
                partial(latency, search(asker, queries), REQUESTS),
                partial(latency, raw, REQUESTS),
                partial(latency, search(asker_of_many, queries), REQUESTS),
            )
    return [
        ratio("p50_ratio", f"p50, {FEW:,}: search_memory / raw", ours, base, at_most=1.5),
        milliseconds("search_p50_ms", "search_memory", ours),
        milliseconds("raw_p50_ms", "embedding + Chroma + echo", base),
        ratio("growth_ratio", f"p50: {MANY:,} episodes / {FEW:,}", grown, ours, at_most=1.5),
        milliseconds("search_many_p50_ms", f"search_memory in {MANY:,}", grown),
    ]


def made_up_vectors(embedder: MiniLM, texts: Sequence[str]) -> FloatMatrix:
    """Vectors as close together as real ones, without embedding every text: real ones and noise."""
    chance = np.random.default_rng(seed=1)
    real = embedder.embed_queries(texts[:EMBEDDED])
    noise = chance.standard_normal((len(texts), embedder.dimensions), dtype=np.float32)
    noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
    vectors = real[np.arange(len(texts)) % EMBEDDED] + noise
    unit: FloatMatrix = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def search(asker: Asker, queries: Sequence[str]) -> Callable[[], Awaitable[bytes]]:
    requests = itertools.cycle([request_of(query=query, top_k=TOP_K) for query in queries])
    return lambda: asker.tool("search_memory", next(requests))


async def raw_search(
    folder: Path, asker: Asker, embedder: MiniLM, vectors: FloatMatrix, queries: Sequence[str]
) -> Ask:
    """What a search cannot do without: embed the query, ask Chroma, carry an answer over NATS."""
    client = chromadb.PersistentClient(folder / "raw")
    collection = client.create_collection(
        "raw", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
    )
    for start in range(0, len(vectors), UPSERT_SIZE):
        piece = vectors[start : start + UPSERT_SIZE]
        collection.upsert(ids=[str(start + i) for i in range(len(piece))], embeddings=piece)
    answer = await search(asker, queries)()
    assert len(data_of(answer, FoundMemories).hits) == TOP_K
    endless = itertools.cycle(queries)

    async def ask() -> None:
        vector = embedder.embed_queries([next(endless)])
        found = collection.query(query_embeddings=vector, n_results=TOP_K, include=["distances"])
        assert len(found["ids"][0]) == TOP_K
        await asker.echo(b"", len(answer))

    return ask


if __name__ == "__main__":
    run(__doc__, measure)
