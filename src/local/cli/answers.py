"""What tools answer to a command: read as Structs, and shown as people read them."""

import sys
from datetime import datetime
from textwrap import wrap
from typing import TypeVar

import msgspec
from rich.text import Text

from local.bus.connection import connect
from local.bus.tool_client import call_tool
from local.cli.output import FAILED, Output, printable
from local.protocol.caller import Caller
from local.protocol.payloads import Json, ToolResult
from local.runtime import running_url
from local.settings import Settings

NAME = "cli"
PATIENCE = 60.0
"""Seconds to wait for a tool: a model may have to be asked, a document to be cut."""
SHOWN_LINES = 3
NARROWEST = 20
INDENT = "   "

T = TypeVar("T")


async def answer(settings: Settings, tool: str, args: Json, caller: Caller) -> ToolResult:
    """Call one tool of the running stack."""
    async with connect(running_url(settings), name=NAME) as bus:
        return await call_tool(bus, tool, args, caller=caller, timeout=PATIENCE)


def data_of(result: ToolResult, type_: type[T], output: Output) -> T:
    """What the tool said for programs; where it failed the command ends, and says so."""
    if result.error is None:
        return msgspec.convert(result.data, type_)
    output.data(result)
    if not output.json:
        output.errors.print(printable(result.content), markup=False)
    sys.exit(FAILED)


def show_entry(output: Output, head: Text, content: str) -> None:
    """Print one entry of a list: its head, and as much of its content as a glance takes in."""
    lines = wrap(
        " ".join(printable(content).split()),
        max(output.console.width, NARROWEST),
        initial_indent=INDENT,
        subsequent_indent=INDENT,
        max_lines=SHOWN_LINES,
        placeholder=" …",
    )
    head.plain = printable(head.plain)
    output.console.print(head, soft_wrap=True)
    output.console.print(Text("\n".join(lines)), soft_wrap=True)


def shown_time(moment: datetime) -> str:
    """In UTC, to the minute."""
    return f"{moment:%Y-%m-%d %H:%M}"
