"""`save_memory` until acknowledged, against an echo that commits one row of SQLite first."""

import tempfile
from pathlib import Path

from harness.client import Asker, request_of, seconds, stack_and_echo
from harness.report import Figure, milliseconds, percentile, ratio, run
from harness.texts import notes

BLOCKS = 9
REQUESTS = 250
WORDS = 10, 40


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        async with stack_and_echo(Path(folder)) as asker:
            request = request_of(content="Something to know the size of an answer.")
            size = len(await asker.tool("save_memory", request))
            blocks = [await one_block(asker, size, seed) for seed in range(BLOCKS + 1)]
    saves, inserts = zip(*blocks[1:], strict=True)  # the first block warms both up
    return [
        *compared("p50", 0.5, saves, inserts, at_most=2.5),
        *compared("p95", 0.95, saves, inserts),
    ]


async def one_block(asker: Asker, size: int, seed: int) -> tuple[list[float], list[float]]:
    """Return the seconds of saves and of inserts, in alternating requests."""
    saves: list[float] = []
    inserts: list[float] = []
    for note in notes(REQUESTS, seed=seed, words=WORDS):
        request = request_of(content=note)
        saves.append(await seconds(asker.tool("save_memory", request)))
        inserts.append(await seconds(asker.insert(request, size)))
    return saves, inserts


def compared(
    name: str,
    share: float,
    saves: tuple[list[float], ...],
    inserts: tuple[list[float], ...],
    at_most: float | None = None,
) -> list[Figure]:
    ours = [percentile(block, share) for block in saves]
    base = [percentile(block, share) for block in inserts]
    about = f"{name}: save_memory / echo + insert"
    return [
        ratio(f"{name}_ratio", about, ours, base, at_most=at_most),
        milliseconds(f"save_{name}_ms", "save_memory", ours),
        milliseconds(f"insert_{name}_ms", "echo + insert", base),
    ]


def main() -> None:
    run(__doc__, measure)
