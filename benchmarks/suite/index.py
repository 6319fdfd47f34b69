"""Episodes indexed a second from a backlog, against the embedder alone on the same texts."""

import asyncio
import functools
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from harness.client import asking, seconds
from harness.fill import episodes, write_records
from harness.processes import data_dir, running_stack
from harness.report import Figure, a_second, ratio, run
from harness.texts import notes
from local2.vectors.minilm import MiniLM

BACKLOG = 2_000
BATCH = 128


async def measure() -> list[Figure]:
    """Embed one half of the texts before and the other half after, as the machine may change."""
    texts = notes(BACKLOG, seed=1)
    with (
        tempfile.TemporaryDirectory() as name,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone,
    ):
        folder = Path(name)
        async with running_stack(folder) as url, asking(url) as asker:
            await asker.save(["With a first memory there is a collection."], in_flight=1)
            await asker.all_indexed()
            await embed(alone, texts[:BATCH])  # loads the model
            before = await embed(alone, texts[::2])
            await write_records(data_dir(folder), episodes(texts))
            indexing = await seconds(asker.index_backlog())
            after = await embed(alone, texts[1::2])
    ours, base = [BACKLOG / indexing], [BACKLOG / (before + after)]
    return [
        ratio("throughput_ratio", "indexed / only embedded", ours, base, at_least=0.7),
        a_second("indexed_per_second", "episodes indexed", ours),
        a_second("embedded_per_second", "texts only embedded", base),
    ]


async def embed(alone: ProcessPoolExecutor, texts: Sequence[str]) -> float:
    return await asyncio.get_running_loop().run_in_executor(alone, seconds_to_embed, texts)


def seconds_to_embed(texts: Sequence[str]) -> float:
    """Embed in an idle process, on one thread: shortest texts first, a batch at a time."""
    embedder = loaded()
    begun = time.perf_counter()
    ordered = sorted(texts, key=len)
    for start in range(0, len(ordered), BATCH):
        embedder.embed_queries(ordered[start : start + BATCH])
    return time.perf_counter() - begun


@functools.cache
def loaded() -> MiniLM:
    return MiniLM.load(Path("models"))


def main() -> None:
    run(__doc__, measure)
