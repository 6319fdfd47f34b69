"""What abuse of a live stack costs other users, and whether anything is lost.

First, in this process, all code that reads text reads 1 MB of its worst input. Then one stack is
flooded and sent the worst texts: one row for each abuse. `--part 0.1` does a tenth of it.
"""

import argparse
import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
import uvloop
from rich.console import Console

from abuse import table
from abuse.worst import CASES, Case, repeated
from harness.report import Figure, milliseconds, table_of, values_of

SIZE = 1_000_000
BEAT = 0.001
WIDTH = 150
"""Width of the table in characters, in a file or in a terminal."""
LONGEST_STALL = 100.0
"""Longest acceptable stall, in milliseconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--part", type=float, default=1.0, metavar="SHARE", help="of everything")
    chosen = parser.parse_args()
    figures, results = uvloop.run(measure(chosen.part))
    if chosen.json:
        found = {**values_of(figures), **table.values_of(results)}
        found["reached"] = results.reached and all(figure.reached for figure in figures)
        print(msgspec.json.encode(found).decode())
    else:
        console = Console(width=max(Console().width, WIDTH))
        console.print(table_of(__doc__ or "", figures), table.table_of(results))


async def measure(part: float) -> tuple[list[Figure], table.Results]:
    gc.freeze()  # as a stack does once it has started: what is imported is not looked through again
    return await texts(round(SIZE * part)), await table.abuses(part)


class Stalls:
    """The longest stall of something that should answer at once."""

    longest = 0.0

    @asynccontextmanager
    async def watching(self, beat: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
        """Repeat `beat` as long as the context lasts."""

        async def watch() -> None:
            while True:
                begun = time.perf_counter()
                await beat()
                self.longest = max(self.longest, time.perf_counter() - begun)

        watching = asyncio.create_task(watch())
        await asyncio.sleep(BEAT)
        try:
            yield
            await asyncio.sleep(BEAT)
        finally:
            watching.cancel()


async def texts(size: int = SIZE) -> list[Figure]:
    """Run each case in this process, where it runs in a stack: on the loop, or in a thread."""
    return [figure for case in CASES for figure in await worst_of(case, size)]


async def worst_of(case: Case, size: int) -> list[Figure]:
    """Return how long a case's texts took, and how long the loop stalled meanwhile."""
    took, stalled = [], []
    for unit in case.made_of:
        text, stalls = repeated(unit, size), Stalls()
        async with stalls.watching(lambda: asyncio.sleep(BEAT)):
            begun = time.perf_counter()
            if case.on_loop:
                case.work(text)
            else:
                await asyncio.to_thread(case.work, text)
            took.append(time.perf_counter() - begun)
        stalled.append(stalls.longest)
    return told(case.name, took, stalled)


def told(name: str, took: Sequence[float], stalled: Sequence[float]) -> list[Figure]:
    key = "_".join(name.replace("'", "").replace(",", "").split())
    return [
        milliseconds(f"{key}_ms", f"{name}: time", [max(took)]),
        milliseconds(f"{key}_stall_ms", "   longest stall", [max(stalled)], at_most=LONGEST_STALL),
    ]
