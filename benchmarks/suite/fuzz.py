"""Hundreds of thousands of broken inputs: no crash, one answer each, and no partial writes.

Most are read in this process, by the code that reads such input; one in 25 is a message to a live
stack. `--seed S --only N` repeats the input N of this process that a line on standard error names.
"""

import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from fuzz.crashes import Fuzz, is_refused
from fuzz.live import Live, fuzz_bus
from harness.processes import data_dir, running_stack
from harness.report import Figure, a_second, run

INPUTS = 50_000
ON_THE_BUS = 25
"""One in this many inputs is sent over the bus."""
BATCH = 5_000
"""Messages to a stack before the refused ones are sent again."""


async def measure(inputs: int, seed: int, only: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        fuzz = Fuzz(Path(name), seed)
        if only:
            return repeated(fuzz, only)
        count = inputs or INPUTS
        messages = count // ON_THE_BUS
        begun = time.perf_counter()
        crashes = in_this_process(fuzz, count - messages)
        read = time.perf_counter() - begun
        live = await on_the_bus(Path(name), messages, seed)
        seconds = time.perf_counter() - begun
    say([*live.unanswered, *live.doubled, *live.wrong, *live.problems])
    return [
        none("crashes", "crashes", crashes + len(live.problems)),
        none("unanswered", "requests without an answer", len(live.unanswered)),
        none("doubled", "requests with several", len(live.doubled)),
        none("wrong", "answers that say nothing to who asked", len(live.wrong)),
        none("partial_writes", "rows written of what was refused", live.written),
        Figure(key="inputs", about="inputs", blocks=[count]),
        Figure(key="on_the_bus", about="   of them to a live stack", blocks=[messages]),
        Figure(key="refused", about="   refused in this process", blocks=[fuzz.refused]),
        Figure(key="seconds", about="time", blocks=[seconds], unit="s"),
        a_second("read_rate", "read in this process", [(count - messages) / read]),
        a_second("message_rate", "to a live stack", [messages / (seconds - read)]),
    ]


def in_this_process(fuzz: Fuzz, count: int) -> int:
    """Count the inputs that crash, and print each of them."""
    crashes = [crash for n in range(1, count + 1) if (crash := fuzz.crash(n)) is not None]
    say(map(str, crashes))
    return len(crashes)


async def on_the_bus(folder: Path, count: int, seed: int) -> Live:
    """Send this many messages in batches, and return their outcomes."""
    total = Live()
    async with running_stack(folder) as url:
        for start in range(0, count, BATCH):
            numbers = range(start, min(start + BATCH, count))
            total.add(await fuzz_bus(url, data_dir(folder) / "ledger.sqlite3", numbers, seed=seed))
    return total


def repeated(fuzz: Fuzz, number: int) -> list[Figure]:
    """Have one input read again: a crash ends the benchmark with its traceback."""
    reader, data = fuzz.input(number)
    say([f"{reader.name}: {data!r}"])
    return [Figure(key="refused", about="refused", blocks=[is_refused(reader, data)])]


def none(key: str, about: str, count: int) -> Figure:
    return Figure(key=key, about=about, blocks=[count], at_most=0)


def say(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)


def main() -> None:
    run(__doc__ or "", measure, "inputs", "seed", "only")
