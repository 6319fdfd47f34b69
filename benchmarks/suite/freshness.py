"""From a save's acknowledgement until `search_memory` finds it, at 20 saves a second.

A new memory is found by its words first, and by its meaning once it is indexed: both are measured.
"""

import asyncio
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np

from harness.client import Asker, data_of, request_of, stack_and_echo
from harness.report import Figure, milliseconds, percentile, run
from harness.texts import notes
from local2.memory.recall.ranking import shown_scores
from local2.memory.recall.tuning import COVERAGE, DENSITY, FIRSTHAND, NEW, TIME, TIMED, WORDS
from local2.protocol.memory_tools import FoundMemories, SavedMemory

BLOCKS = 5
SAVES = 60
SAVES_A_SECOND = 20
SEARCHED_EVERY = 4
PATIENCE = 10.0
POLL = 0.1
LENGTH = 10, 40
WITHOUT_MEANING = float(
    shown_scores(np.array(WORDS + COVERAGE + DENSITY + FIRSTHAND + TIMED + TIME + NEW))
)
"""The best possible score of a note that has no vector yet."""


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the acknowledgement until found; `by_meaning` is None if it never was."""

    at_all: float
    by_meaning: float | None


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        async with stack_and_echo(Path(folder)) as asker:
            await asker.save(["The first note makes the collection."], in_flight=1)
            await asker.all_indexed()
            blocks = [await one_block(asker, seed) for seed in range(BLOCKS)]
    by_meaning = [[d.by_meaning for d in block if d.by_meaning is not None] for block in blocks]
    shares = [
        100 * len(found) / len(block) for found, block in zip(by_meaning, blocks, strict=True)
    ]
    return [
        milliseconds(
            "p95_ms", "p95 until found", [p95([d.at_all for d in b]) for b in blocks], at_most=500
        ),
        milliseconds("meaning_p95_ms", "p95 until found by meaning", [p95(f) for f in by_meaning]),
        Figure(key="by_meaning_percent", about="found by meaning", blocks=shares, unit="%"),
    ]


def p95(values: list[float]) -> float:
    return percentile(values, 0.95)


async def one_block(asker: Asker, seed: int) -> list[Delay]:
    """Save at an even pace, and search for only some of the notes, to keep the load low."""
    saves: list[asyncio.Task[None]] = []
    delays: list[asyncio.Task[Delay]] = []
    for number, note in enumerate(notes(SAVES, seed=seed, words=LENGTH)):
        if number % SEARCHED_EVERY == 0:
            delays.append(asyncio.create_task(delay(asker, note)))
        else:
            saves.append(asyncio.create_task(asker.save([note], in_flight=1)))
        await asyncio.sleep(1 / SAVES_A_SECOND)
    await asyncio.gather(*saves)
    return await asyncio.gather(*delays)


async def delay(asker: Asker, note: str) -> Delay:
    answer = await asker.tool("save_memory", request_of(content=note))
    saved = data_of(answer, SavedMemory).id
    begun = time.perf_counter()
    at_all: float | None = None
    while True:
        score = await score_of(asker, saved, note)
        elapsed = time.perf_counter() - begun
        if score is not None and at_all is None:
            at_all = elapsed
        if score is not None and score > WITHOUT_MEANING:
            return Delay(at_all=at_all or elapsed, by_meaning=elapsed)
        if elapsed > PATIENCE:
            return Delay(at_all=elapsed if at_all is None else at_all, by_meaning=None)
        await asyncio.sleep(POLL)


async def score_of(asker: Asker, memory: str, query: str) -> float | None:
    found = data_of(await asker.tool("search_memory", request_of(query=query)), FoundMemories)
    return next((hit.score for hit in found.hits if hit.id == memory), None)


def main() -> None:
    run(__doc__, measure)
