"""Faults of a live stack under load: what is lost or duplicated, and how long recovery takes.

One stack suffers one fault after the other while notes, messages and turns are written and notes
are searched for. `--seed` repeats the same faults in the same order. Ctrl-C ends them after the
current one, with the table so far. Linux only.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import msgspec
import uvloop
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from faults.kinds import FAULTS, Fault
from faults.load import Load
from faults.target import PATIENCE, FaultTarget, fault_target_in
from harness.report import percentile

NUMBER = 60
WIDTH = 130
HEADINGS = (
    "injected", "acknow-\nledged", "lost", "doubled", "recovered\np50 s", "recovered\nmax s"
)  # fmt: skip
BEFORE = 0.2
"""Maximum seconds of load before a fault."""


class Suffered(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, from its beginning until everything works again."""

    fault: str
    acknowledged: int
    """Writes acknowledged between the end of the previous fault and the end of this one."""
    lost: int
    doubled: int
    seconds: float
    """Seconds from the end of the cause until the stack worked again; negative: never."""
    problems: list[str]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """All faults of one kind."""

    fault: str
    injected: int
    acknowledged: int
    lost: int
    doubled: int
    recovered_p50_s: float
    recovered_max_s: float
    problems: list[str]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    suffered: list[Suffered]
    answers: dict[str, int]
    """The reader's answers meanwhile, by outcome."""
    settled: bool
    """Whether every record was in the index at the end."""

    @property
    def reached(self) -> bool:
        sound = not any(one.lost or one.doubled or one.problems for one in self.suffered)
        return sound and self.settled and not self.answers.get("not found")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--faults", type=int, default=NUMBER, metavar="N")
    parser.add_argument("--minutes", type=float, default=60, help="begin no fault after them")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--only", default="", metavar="TEXT", help="faults with this in their name")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the stack's files there")
    chosen = parser.parse_args()
    faults = chosen_faults(chosen.faults, chosen.seed, chosen.only)
    ends = time.monotonic() + 60 * chosen.minutes
    results = uvloop.run(measure(faults, chosen.seed, ends, chosen.keep))
    if chosen.json:
        print(msgspec.json.encode(values_of(results)).decode())
    else:
        Console(width=max(Console().width, WIDTH)).print(*tables_of(results))
    sys.exit(not results.reached)


def chosen_faults(number: int, seed: int, only: str = "") -> list[Fault]:
    """Choose each kind as often as its weight says, in an order determined by the seed."""
    kinds = [fault for fault in FAULTS if only in fault.name]
    every = [fault for fault in kinds for _ in range(fault.weight)]
    random = Random(seed)  # noqa: S311 - the order of faults
    rounds = [random.sample(every, len(every)) for _ in range(number // len(every) + 1)]
    return [fault for order in rounds for fault in order][:number]


async def measure(
    faults: Sequence[Fault], seed: int, ends: float, keep: Path | None = None
) -> Results:
    """Inject the faults one after the other into one stack, until time is up or Ctrl-C."""
    interrupted = first_interrupt()

    def is_over() -> bool:
        return interrupted.is_set() or time.monotonic() > ends

    with tempfile.TemporaryDirectory() as name:
        async with fault_target_in(keep or Path(name)) as target:
            return await suffer(target, faults, seed, is_over)


def first_interrupt() -> asyncio.Event:
    """Return an event that Ctrl-C sets; a second Ctrl-C interrupts as usual."""
    loop, interrupted = asyncio.get_running_loop(), asyncio.Event()

    def note() -> None:
        interrupted.set()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, note)
    return interrupted


async def suffer(
    target: FaultTarget,
    faults: Sequence[Fault],
    seed: int,
    is_over: Callable[[], bool] = lambda: False,
) -> Results:
    """Inject the faults under load, each after the stack has recovered from the last one."""
    load, random = Load(target, seed), Random(seed)  # noqa: S311 - moments
    suffered: list[Suffered] = []
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    shown = Progress(*columns, TextColumn("{task.fields[fault]}"), console=Console(stderr=True))
    with shown as progress:
        bar = progress.add_task("faults", total=len(faults), fault="")
        async with load.running():
            for fault in faults:
                if is_over():
                    break
                progress.update(bar, fault=fault.name)
                await asyncio.sleep(random.uniform(0, BEFORE))
                suffered.append(await one(target, fault, load, random, suffered))
                progress.advance(bar)
    settled = await target.settled(PATIENCE)
    return Results(suffered=suffered, answers=dict(load.answers), settled=settled)


async def one(
    target: FaultTarget, fault: Fault, load: Load, random: Random, before: Sequence[Suffered]
) -> Suffered:
    """Inject one fault; lost and duplicated writes count for the fault after which they show."""
    problem = await fault.inject(target, random)
    seconds = await target.recovered()
    problems = [problem] if problem else []
    if seconds < 0:
        problems.append("did not recover")
    problems += await target.broken()
    balance = await load.balance()
    suffered = Suffered(
        fault=fault.name,
        acknowledged=balance.acknowledged - sum(each.acknowledged for each in before),
        lost=len(balance.lost) - sum(each.lost for each in before),
        doubled=len(balance.doubled) - sum(each.doubled for each in before),
        seconds=seconds,
        problems=problems,
    )
    if suffered.lost or suffered.doubled or problems:
        print(msgspec.json.encode(suffered).decode(), file=sys.stderr, flush=True)
    return suffered


def rows_of(results: Results) -> list[Row]:
    """Return a row for each kind of fault that was injected."""
    rows: list[Row] = []
    for name in dict.fromkeys(fault.name for fault in FAULTS):
        of_kind = [one for one in results.suffered if one.fault == name]
        if of_kind:
            seconds = [one.seconds for one in of_kind]
            rows.append(
                Row(
                    fault=name,
                    injected=len(of_kind),
                    acknowledged=sum(one.acknowledged for one in of_kind),
                    lost=sum(one.lost for one in of_kind),
                    doubled=sum(one.doubled for one in of_kind),
                    recovered_p50_s=round(percentile(seconds, 0.5), 2),
                    recovered_max_s=round(max(seconds), 2),
                    problems=[problem for one in of_kind for problem in one.problems],
                )
            )
    return rows


def values_of(results: Results) -> dict[str, object]:
    """Return what `--json` prints."""
    rows = rows_of(results)
    return {
        "rows": msgspec.to_builtins(rows),
        "answers": results.answers,
        "faults": len(results.suffered),
        "lost": sum(row.lost for row in rows),
        "doubled": sum(row.doubled for row in rows),
        "settled": results.settled,
        "reached": results.reached,
    }


def tables_of(results: Results) -> tuple[Table, str]:
    """Return the results for people, with the readers' answers below."""
    table = Table(title=(__doc__ or "").partition("\n\n")[0], title_justify="left")
    table.add_column("fault", no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    rows = rows_of(results)
    for row in rows:
        counts = row.injected, row.acknowledged, row.lost, row.doubled
        times = row.recovered_p50_s, row.recovered_max_s
        table.add_row(row.fault, *map(str, (*counts, *times)), "; ".join(row.problems))
    table.add_section()
    sums = (
        sum(getattr(row, name) for row in rows)
        for name in ("injected", "acknowledged", "lost", "doubled")
    )
    table.add_row("all", *map(str, sums), "", "", "✓" if results.reached else "✗")
    answers = ", ".join(f"{count} {answer}" for answer, count in sorted(results.answers.items()))
    whole = "has every record" if results.settled else "LACKS RECORDS"
    return table, f"Looked for notes that were acknowledged: {answers}. The index {whole}."
