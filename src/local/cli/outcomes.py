"""Commands on several files: what became of each, whatever became of the others."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from local.cli.output import FAILED, Output, printable


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of one file: what to say of it to people and to programs, or why nothing came of it."""

    file: str
    content: str = ""
    data: msgspec.Struct | None = None
    error: str | None = None


def name_of(file: Path) -> str:
    """As it can be shown and sent, whatever bytes it is made of."""
    return os.fsencode(file.as_posix()).decode("utf-8", "replace")


def show(output: Output, outcomes: Sequence[Outcome]) -> None:
    """Print them all."""
    output.data(outcomes)
    for outcome in [] if output.json else outcomes:
        line = printable(f"{outcome.file}: {outcome.error or outcome.content}")
        if outcome.error is None:
            output.console.print(line, markup=False, soft_wrap=True)
        else:
            output.errors.print(line, style="red", markup=False, soft_wrap=True)


def report(output: Output, outcomes: Sequence[Outcome]) -> None:
    """Print them all; if one is an error the command ends with exit code 1."""
    show(output, outcomes)
    if any(outcome.error is not None for outcome in outcomes):
        sys.exit(FAILED)


def progress(output: Output) -> Progress:
    """A bar on a terminal, gone when it is full."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        console=output.errors,
        transient=True,
        disable=output.json or not output.errors.is_terminal,
    )
