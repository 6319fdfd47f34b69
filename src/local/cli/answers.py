"""What tools answer to a command: read as Structs, and shown as people read them."""

import asyncio
import sys
from datetime import datetime
from textwrap import wrap
from typing import NoReturn, TypeVar

import msgspec
from rich.text import Text

from local.cli.output import FAILED, Output, printable
from local.client import Connection, connect
from local.client.tools import call_tool
from local.errors import BusError
from local.protocol.envelope import Caller, new_id
from local.protocol.payloads import Json, ToolResult
from local.runtime import running_url
from local.settings import Settings

NAME = "cli"
PATIENCE = 60.0
"""Seconds to wait for a tool: a model may have to be asked, a document to be cut."""
LOST = "The connection to the stack was lost."
SHOWN_LINES = 3
NARROWEST = 20
INDENT = "   "

T = TypeVar("T")


async def answer(settings: Settings, tool: str, args: Json, caller: Caller) -> ToolResult:
    """Call one tool of the running stack."""
    async with connect(running_url(settings), name=NAME) as bus:
        return await answer_on(bus, tool, args, caller)


async def answer_on(bus: Connection, tool: str, args: Json, caller: Caller) -> ToolResult:
    """Call one tool, as a turn of its own; a connection that is lost is not waited for."""
    asked = asyncio.create_task(
        call_tool(bus, tool, args, caller=caller, query_id=new_id(), timeout=PATIENCE)
    )
    lost = asyncio.create_task(bus.lost.wait())
    try:
        await asyncio.wait((asked, lost), return_when=asyncio.FIRST_COMPLETED)
        return asked.result() if asked.done() else ToolResult.failed(BusError(LOST))
    finally:
        asked.cancel()
        lost.cancel()


def data_of(result: ToolResult, type_: type[T], output: Output) -> T:
    """What the tool said for programs; where it failed the command ends, and says so."""
    if result.error is not None:
        fail(result, output)
    return msgspec.convert(result.data, type_)


def fail(result: ToolResult, output: Output) -> NoReturn:
    """End the command with what the tool says was wrong."""
    output.data(result)
    output.failure(result.content)
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
