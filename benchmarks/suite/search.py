"""`search_memory` against embedding, querying Chroma and an echo, without local2 in between.

The raw side has a MiniLM in this process and a Chroma collection of the same vectors. A second
stack holds five times as many episodes, to see how the latency grows.
"""

import itertools
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from harness.baselines import PlainChroma, plain_chroma
from harness.client import Ask, Asker, alternating, data_of, latency, request_of, stack_and_echo
from harness.fill import episodes, made_up_vectors, write_records
from harness.processes import data_dir
from harness.report import Figure, milliseconds, ratio, run
from harness.texts import notes
from local2.protocol.memory_tools import FoundMemories
from local2.vectors.minilm import MiniLM

FEW = 10_000
MANY = 50_000
TOP_K = 5
BLOCKS = 9
REQUESTS = 60
QUERIES = 500
WORDS = 10, 30


async def measure() -> list[Figure]:
    embedder = MiniLM.load(Path("models"))
    texts = notes(MANY, seed=1, words=WORDS)
    queries = notes(QUERIES, seed=2, words=(6, 12))
    records, vectors = episodes(texts), made_up_vectors(embedder, texts)
    with (
        tempfile.TemporaryDirectory() as name,
        plain_chroma(Path(name) / "raw") as chroma,
    ):
        few, many = Path(name) / "few", Path(name) / "many"
        chroma.add([record.id for record in records[:FEW]], vectors[:FEW])
        await write_records(data_dir(few), records[:FEW], vectors[:FEW])
        await write_records(data_dir(many), records, vectors)
        async with stack_and_echo(few) as asker, stack_and_echo(many) as asker_of_many:
            await asker.all_indexed()
            await asker_of_many.all_indexed()
            raw = await raw_search(chroma, asker, embedder, queries)
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


def search(asker: Asker, queries: Sequence[str]) -> Callable[[], Awaitable[bytes]]:
    requests = itertools.cycle([request_of(query=query, top_k=TOP_K) for query in queries])
    return lambda: asker.tool("search_memory", next(requests))


async def raw_search(
    chroma: PlainChroma, asker: Asker, embedder: MiniLM, queries: Sequence[str]
) -> Ask:
    """Do the minimum for a search: embed the query, query Chroma, send an answer over NATS."""
    answer = await search(asker, queries)()
    assert len(data_of(answer, FoundMemories).hits) == TOP_K
    endless = itertools.cycle(queries)

    async def ask() -> None:
        assert len(chroma.nearest(embedder.embed_queries([next(endless)]), TOP_K)) == TOP_K
        await asker.echo(b"", len(answer))

    return ask


def main() -> None:
    run(__doc__, measure)
