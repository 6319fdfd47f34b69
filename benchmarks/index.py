"""Episodes indexed a second from a backlog, against the embedder alone on the same texts."""

import asyncio
import functools
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from client import Asker, asking, seconds
from fill import write_episodes
from local.vectors.minilm import MiniLM
from processes import data_dir, running_stack
from report import Figure, a_second, ratio, run
from texts import notes

BLOCKS = 3
BACKLOG = 2_000
TOGETHER = 128


async def measure() -> list[Figure]:
    ours: list[float] = []
    base: list[float] = []
    with (
        tempfile.TemporaryDirectory() as name,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone,
    ):
        folder = Path(name)
        async with running_stack(folder) as url, asking(url) as asker:
            for block in range(BLOCKS):
                await asker.save([f"Block {block} begins: the worker is ready."], in_flight=1)
                await asker.all_indexed()
                texts = notes(BACKLOG, seed=block)
                await write_episodes(data_dir(folder), texts)
                ours.append(BACKLOG / await seconds(until_indexed(asker, block)))
                base.append(BACKLOG / await embed(alone, texts))
    return [
        ratio("throughput_ratio", "indexed / only embedded", ours, base, at_least=0.7),
        a_second("indexed_per_second", "episodes indexed", ours),
        a_second("embedded_per_second", "texts only embedded", base),
    ]


async def until_indexed(asker: Asker, block: int) -> None:
    """One save more makes the indexer look: it finds the whole backlog waiting."""
    await asker.save([f"Block {block} is complete."], in_flight=1)
    await asker.all_indexed()


async def embed(alone: ProcessPoolExecutor, texts: Sequence[str]) -> float:
    return await asyncio.get_running_loop().run_in_executor(alone, seconds_to_embed, texts)


def seconds_to_embed(texts: Sequence[str]) -> float:
    """In a process with nothing else to do, on one thread: shortest first, a batch at a time."""
    embedder = loaded()
    begun = time.perf_counter()
    ordered = sorted(texts, key=len)
    for start in range(0, len(ordered), TOGETHER):
        embedder.embed_queries(ordered[start : start + TOGETHER])
    return time.perf_counter() - begun


@functools.cache
def loaded() -> MiniLM:
    return MiniLM.load(Path("models"))


if __name__ == "__main__":
    run(__doc__, measure)
