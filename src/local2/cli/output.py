"""The output of commands: text and tables for people, JSON for programs, errors with remedies.

rich is imported only for tables and progress: it takes longer than what most commands do.
"""

# ruff: noqa: PLC0415

import asyncio
import os
import sys
from collections.abc import Coroutine
from functools import cached_property
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from local2.errors import Local2Error

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn
    from rich.table import Column, Table

T = TypeVar("T")

FAILED = 1
"""Exit code of a command that failed."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells use it: 128 plus the number of SIGINT."""


class Output:
    """The output of a command: JSON `data` with --json, otherwise text and tables."""

    def __init__(self, *, json: bool = False) -> None:
        self.json = json

    @cached_property
    def console(self) -> "Console":
        from rich.console import Console

        return Console(highlight=False)

    @cached_property
    def errors(self) -> "Console":
        from rich.console import Console

        return Console(stderr=True, highlight=False)

    @property
    def shows_progress(self) -> bool:
        """Whether progress is shown: only to people, and only on a terminal."""
        return not self.json and sys.stderr.isatty()

    def data(self, data: object) -> None:
        """Print one JSON document; do nothing without --json."""
        if self.json:
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(data)).decode() + "\n")

    def text(self, text: str, *, as_it_is: bool = False) -> None:
        """Print text for people, without terminal control characters.

        A terminal gets whole words; with `as_it_is`, whole lines, for text that is copied.
        """
        text = printable(text)
        if not as_it_is and sys.stdout.isatty():
            lines = []
            for line in text.split("\n"):
                lines += wrap(
                    line, columns(), replace_whitespace=False, break_on_hyphens=False
                ) or [""]
            text = "\n".join(lines)
        self.line(text)

    def line(self, line: str, *, error: bool = False) -> None:
        """Print text for people that is `printable`, or `styled`; lines are not wrapped."""
        if not self.json:
            # No colours if the user wants none (https://no-color.org).
            is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
            click.echo(line, err=error, color=False if is_plain else None)

    def progress(self, *columns: "ProgressColumn | str") -> "Progress":
        """Make a progress display with these columns; it disappears at the end."""
        from rich.progress import Progress

        return Progress(
            *columns, console=self.errors, transient=True, disable=not self.shows_progress
        )

    def table(self, table: "Table") -> None:
        """Print a table for people."""
        if not self.json:
            self.console.print(table)

    def error(self, error: Local2Error) -> None:
        """Print an error and its remedy on standard error, or as JSON with --json."""
        if self.json:
            message = printable(str(error))
            self.data({"ok": False, "error": {"code": error.code, "message": message}})
            return
        head = styled("Error:", bold=True, fg="red")
        self.line(f"{head} {printable(error.message)}", error=True)
        if error.remedy:
            self.line(f"{styled('→', dim=True)} {printable(error.remedy)}", error=True)

    def failure(self, text: str) -> None:
        """Print an error that a tool or an agent reported, on standard error."""
        self.line(printable(text), error=True)


def printable(text: str) -> str:
    """Remove control characters, because anybody may have stored the text."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)


def one_line(text: str) -> str:
    """Make a text printable, on one line."""
    return " ".join(printable(text).split())


def beginning(text: str, characters: int) -> str:
    """The beginning of a text, on one line."""
    line = one_line(text)
    return line if len(line) <= characters else f"{line[:characters]}…"


def styled(text: str, **style: Any) -> str:
    """Make a text printable, and give it click's style, which only a terminal gets."""
    return click.style(printable(text), **style)


def columns() -> int:
    return get_terminal_size().columns


def shown(text: str) -> str:
    """Make a text printable, and escape it for a line or a table with markup."""
    from rich.markup import escape

    return escape(printable(text))


def uncut(heading: str) -> "Column":
    """Make a column that wraps its content instead of cutting it, so that ids can be copied."""
    from rich.table import Column

    return Column(heading, overflow="fold")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the fastest event loop that is installed."""
    try:
        import uvloop  # it does not exist for Windows
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)
