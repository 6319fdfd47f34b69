"""From starting `run_local.py` to the first answered tool call, on a folder used before."""

import tempfile
import time
from pathlib import Path

from harness.client import asking, request_of
from harness.processes import running_stack
from harness.report import Figure, run

BLOCKS = 5


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        blocks = [await seconds_to_answer(Path(folder)) for _ in range(BLOCKS + 1)]
    return [
        Figure(
            key="seconds",
            about="start to first answer",
            blocks=blocks[1:],  # the first start creates the files, and compiles the bytecode
            unit="s",
            at_most=3.0,
        )
    ]


async def seconds_to_answer(folder: Path) -> float:
    begun = time.perf_counter()
    async with running_stack(folder) as url, asking(url) as asker:
        await asker.tool("recall_topic", request_of(topic="user.name"))
        return time.perf_counter() - begun


def main() -> None:
    run(__doc__, measure)
