"""What the commands print: text and tables for people, JSON for programs, errors with remedies."""

import asyncio
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from local.errors import Local2Error
from local.logs import logging_to

T = TypeVar("T")

FAILED = 1
INTERRUPTED = 130


class Output:
    """Where a command's result goes: `data` with --json, else what it shows people."""

    def __init__(self, *, json: bool = False) -> None:
        self.json = json
        self.console = Console(highlight=False)
        self.errors = Console(stderr=True, highlight=False)

    def data(self, data: object) -> None:
        """Print one JSON document, with --json only."""
        if self.json:
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(data)).decode() + "\n")

    def text(self, text: str) -> None:
        """Print text for people, whatever it holds."""
        if not self.json:
            self.console.print(printable(text), markup=False)

    def table(self, table: Table) -> None:
        """Print a table, for people."""
        if not self.json:
            self.console.print(table)

    def error(self, error: Local2Error) -> None:
        """Say what was wrong, and what to do; on standard error, and as JSON with --json."""
        if self.json:
            message = printable(str(error))
            self.data({"ok": False, "error": {"code": error.code, "message": message}})
            return
        self.errors.print(f"[bold red]Error:[/] {shown(error.message)}")
        if error.remedy:
            self.errors.print(f"[dim]→[/] {shown(error.remedy)}")

    def failure(self, text: str) -> None:
        """Say on standard error what somebody else says was wrong."""
        if not self.json:
            self.errors.print(printable(text), markup=False)


def printable(text: str) -> str:
    """Without what would command the terminal: stored text comes from anybody."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)


def shown(text: str) -> str:
    """As it can stand in the markup of a line or a table."""
    return escape(printable(text))


@contextmanager
def reporting_errors(output: Output | None = None) -> Iterator[None]:
    """Turn an error into a message and exit code 1, Ctrl-C into exit code 130.

    What is logged meanwhile goes to standard error, unless the command sends it to a file.
    """
    try:
        with logging_to(level="error"):
            yield
    except Local2Error as error:
        (output or Output()).error(error)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run on the fastest event loop there is."""
    try:
        import uvloop  # noqa: PLC0415 - there is none on Windows
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)
