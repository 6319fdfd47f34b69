"""Figures of a benchmark: medians over blocks and their bounds, as a table or one JSON object."""

import argparse
import statistics
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One value per block; the median counts, the others show how steady the machine is."""

    key: str
    about: str
    blocks: Sequence[float]
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    @property
    def value(self) -> float:
        return statistics.median(self.blocks)

    @property
    def goal(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        return "" if self.at_least is None else f"≥ {self.at_least:g}"

    @property
    def reached(self) -> bool:
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values does not exceed; 0.5 is the median."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def ratio(
    key: str,
    about: str,
    ours: Sequence[float],
    base: Sequence[float],
    *,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Figure:
    """Compare block by block, so that a temporarily slow machine affects both sides."""
    blocks = [a / b for a, b in zip(ours, base, strict=True)]
    return Figure(key=key, about=about, blocks=blocks, at_most=at_most, at_least=at_least)


def milliseconds(
    key: str, about: str, seconds: Sequence[float], *, at_most: float | None = None
) -> Figure:
    blocks = [s * 1e3 for s in seconds]
    return Figure(key=key, about=about, blocks=blocks, unit="ms", at_most=at_most)


def a_second(
    key: str, about: str, rates: Sequence[float], *, at_least: float | None = None
) -> Figure:
    return Figure(key=key, about=about, blocks=rates, unit="/s", at_least=at_least)


def run(title: str, measure: Callable[..., Coroutine[Any, Any, list[Figure]]], *sizes: str) -> None:
    """Measure, and print a table, or one JSON object with `--json`.

    `sizes` are numeric options, 0 by default, that `measure` takes.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    for size in sizes:
        parser.add_argument(f"--{size}", type=int, default=0, metavar="N")
    chosen = parser.parse_args()
    figures = uvloop.run(measure(**{size: getattr(chosen, size) for size in sizes}))
    print_figures(title, figures, as_json=chosen.json)


def print_figures(title: str, figures: Sequence[Figure], *, as_json: bool) -> None:
    """Print one JSON object, or a table with the first paragraph of `title` above it."""
    if as_json:
        print(msgspec.json.encode(values_of(figures)).decode())
    else:
        Console().print(table_of(title, figures))


def values_of(figures: Sequence[Figure]) -> dict[str, Any]:
    """Return what `--json` prints."""
    values: dict[str, Any] = {figure.key: round(figure.value, 4) for figure in figures}
    values["blocks"] = {f.key: [round(value, 4) for value in f.blocks] for f in figures}
    values["reached"] = all(figure.reached for figure in figures)
    return values


def table_of(title: str, figures: Sequence[Figure]) -> Table:
    """Return a table with a row for each figure, titled with the first paragraph of `title`."""
    table = Table(title=title.partition("\n\n")[0].replace("\n", " "), title_justify="left")
    table.add_column("figure")
    for heading in ("median", "lowest", "highest", "must reach"):
        table.add_column(heading, justify="right")
    for figure in figures:
        goal = figure.goal and f"{figure.goal} {'✓' if figure.reached else '✗'}"
        values = (figure.value, min(figure.blocks), max(figure.blocks))
        table.add_row(figure.about, *(f"{v:,.3g} {figure.unit}" for v in values), goal)
    return table
