"""Call tools for a command, and print their answers or the outcome of each file."""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
import msgspec

from local2.cli.output import FAILED, Output, columns, one_line, printable, styled
from local2.client import Connection
from local2.client.access import CLIENT, ask_service, await_while_connected, connected
from local2.client.tools import call_tool
from local2.errors import BusError, StackNotRunningError
from local2.protocol.envelope import Sender, new_id
from local2.protocol.memory_tools import A, Explanation, MemoryTool
from local2.protocol.payloads import Empty, ErrorReply, Json, ToolResult
from local2.settings import Settings

if TYPE_CHECKING:
    from rich.progress import Progress

    from local2.protocol.services import A as S
    from local2.protocol.services import P, ServiceDeclaration

NAME = "cli"
PATIENCE = 60.0
"""Seconds to wait for a tool, which may have to ask a model or split a document into chunks."""
CONNECTION_LOST = "The connection to the stack was lost."
SHOWN_LINES = 3
"""Lines shown of an entry's content: enough to recognise it, and few enough for a list to fit on
one screen."""
MIN_COLUMNS = 20
"""Minimum width in columns that text is formatted for. A narrower terminal wraps the lines, which
would otherwise hold one word each."""
INDENT = "   "

T = TypeVar("T")


async def answer(
    settings: Settings,
    tool: MemoryTool[A, Any],
    args: A,
    caller: Sender,
    *,
    patience: float = PATIENCE,
) -> ToolResult:
    """Call one of the memory's tools, of the running stack."""
    async with connected(settings, name=NAME, user=caller.user) as bus:
        return await answer_on(bus, tool.name, args.given(), caller, patience=patience)


async def answer_on(
    bus: Connection, tool: str, args: Json, caller: Sender, *, patience: float = PATIENCE
) -> ToolResult:
    """Call one tool, as a separate turn; fail at once if the connection is lost."""
    caller = msgspec.structs.replace(caller, query_id=new_id())
    calling = call_tool(bus, tool, args, caller=caller, timeout=patience)
    with suppress(StackNotRunningError):
        return await await_while_connected(bus, calling)
    return ToolResult.failed(BusError(CONNECTION_LOST))


async def ask_stack(
    settings: Settings,
    service: "ServiceDeclaration[P, S]",
    request: "P | Empty",
    caller: Sender = CLIENT,
) -> "S":
    """Ask a service of the running stack."""
    async with connected(settings, name=NAME, user=caller.user) as bus:
        return await ask_service(bus, service, request, caller)


def data_of(result: ToolResult, type_: type[T], output: Output) -> T:
    """Read the data of a result; a failed one is printed, and ends the command."""
    if result.error is not None:
        fail(result, result.error, output)
    return msgspec.convert(result.data, type_)


def fail(result: ToolResult, error: ErrorReply, output: Output) -> NoReturn:
    """Print the error of the tool, and end the command."""
    if output.json:
        output.data(result)
    else:
        output.error(error.to_error())
    raise click.exceptions.Exit(FAILED)


def show_entry(output: Output, head: str, *contents: str) -> None:
    """Print one entry of a list: its head, of `styled` parts, and the beginning of each content.

    Each content begins on a line of its own: an id alone stays whole, and can be copied.
    """
    output.line(head)
    for content in contents:
        lines = wrap(
            one_line(content),
            max(columns(), MIN_COLUMNS),
            initial_indent=INDENT,
            subsequent_indent=INDENT,
            max_lines=SHOWN_LINES,
            placeholder=" …",
        )
        output.line("\n".join(lines))


def parts_of_score(explanation: Explanation) -> str:
    """The shares that are not 0, and the weight."""
    parts = [f"{name}={share:+.2f}" for name, share in explanation.shares.items() if share]
    return styled(" ".join([*parts, f"weight={explanation.weight:g}"]), dim=True)


def shown_time(moment: datetime) -> str:
    """A time in UTC, to the minute."""
    return f"{moment:%Y-%m-%d %H:%M}"


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one file, as text and as data, or its error."""

    file: str
    content: str = ""
    data: msgspec.Struct | None = None
    error: str | None = None


def name_of(file: Path) -> str:
    """A path as text that can be printed and sent, whatever its bytes."""
    return os.fsencode(file.as_posix()).decode("utf-8", "replace")


def show_outcomes(output: Output, outcomes: Sequence[Outcome]) -> None:
    output.data(outcomes)
    for outcome in outcomes:
        if outcome.error is None:
            output.line(printable(f"{outcome.file}: {outcome.content}"))
        else:
            output.line(styled(f"{outcome.file}: {outcome.error}", fg="red"), error=True)


def report(output: Output, outcomes: Sequence[Outcome], code: int = FAILED) -> None:
    """Print all outcomes; if one is an error, end the command with this exit code."""
    show_outcomes(output, outcomes)
    if any(outcome.error is not None for outcome in outcomes):
        raise click.exceptions.Exit(code)


def progress(output: Output) -> "Progress":
    """Make a progress bar of what is counted."""
    from rich.progress import (  # noqa: PLC0415 - few commands show one
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
    )

    description = TextColumn("{task.description}", markup=False)
    return output.progress(description, BarColumn(), MofNCompleteColumn())


def bytes_progress(output: Output) -> "Progress":
    """Make a progress bar of bytes."""
    from rich.progress import (  # noqa: PLC0415 - few commands show one
        BarColumn,
        DownloadColumn,
        TextColumn,
    )

    return output.progress(TextColumn("{task.description}"), BarColumn(), DownloadColumn())
