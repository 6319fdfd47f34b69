"""The output of commands: text and tables for people, JSON for programs, errors with remedies."""

import asyncio
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from local.config_files import load_settings
from local.errors import Local2Error
from local.home import home_of
from local.logs import logging_to
from local.settings import Settings

T = TypeVar("T")

FAILED = 1
"""Exit code of a command that failed."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells use it: 128 plus the number of SIGINT."""


class Output:
    """The output of a command: JSON `data` with --json, otherwise text and tables."""

    def __init__(self, *, json: bool = False) -> None:
        self.json = json
        self.console = Console(highlight=False)
        self.errors = Console(stderr=True, highlight=False)

    @property
    def shows_progress(self) -> bool:
        """Whether progress is shown: only to people, and only on a terminal."""
        return not self.json and self.errors.is_terminal

    def data(self, data: object) -> None:
        """Print one JSON document; do nothing without --json."""
        if self.json:
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(data)).decode() + "\n")

    def text(self, text: str, *, as_it_is: bool = False) -> None:
        """Print text for people, without terminal control characters.

        With `as_it_is`, lines are not wrapped, for text that is copied or read line by line.
        """
        if not self.json:
            self.console.print(printable(text), markup=False, soft_wrap=as_it_is)

    def table(self, table: Table) -> None:
        """Print a table for people."""
        if not self.json:
            self.console.print(table)

    def error(self, error: Local2Error) -> None:
        """Print an error and its remedy on standard error, or as JSON with --json."""
        if self.json:
            message = printable(str(error))
            self.data({"ok": False, "error": {"code": error.code, "message": message}})
            return
        self.errors.print(f"[bold red]Error:[/] {shown(error.message)}")
        if error.remedy:
            self.errors.print(f"[dim]→[/] {shown(error.remedy)}")

    def failure(self, text: str) -> None:
        """Print an error that a tool or an agent reported, on standard error."""
        if not self.json:
            self.errors.print(printable(text), markup=False)


def printable(text: str) -> str:
    """Return the text without control characters, because anybody may have stored it."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)


def shown(text: str) -> str:
    """Return the text printable and escaped, for a line or a table with markup."""
    return escape(printable(text))


def uncut(heading: str) -> Column:
    """Return a column that wraps its content instead of cutting it, so that ids can be copied."""
    return Column(heading, overflow="fold")


class GlobalOptions(NamedTuple):
    """The folder of the settings, the tenant to ask as, and the folder of the memory, as named."""

    config: Path | None = None
    tenant: str | None = None
    home: Path | None = None


@contextmanager
def command(chosen: GlobalOptions, *, json: bool = False) -> Iterator[tuple[Settings, Output]]:
    """Read the settings for a command, and turn its errors into messages and exit codes.

    An error ends the command with exit code 1, Ctrl-C with 130. Logs go to standard error unless
    the command sends them to a file.
    """
    output = Output(json=json)
    try:
        with logging_to(level="error"):
            settings = load_settings(chosen.config, home=home_of(chosen.home))
            if chosen.tenant is not None:
                bus = msgspec.structs.replace(settings.bus, tenant=chosen.tenant)
                settings = msgspec.structs.replace(settings, bus=bus)
            yield settings, output
    except Local2Error as error:
        output.error(error)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the fastest event loop that is installed."""
    try:
        import uvloop  # noqa: PLC0415 - it does not exist for Windows
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)
