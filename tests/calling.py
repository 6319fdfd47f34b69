"""Calling the memory's tools over the bus, as the tests do."""

from typing import Any

from local.bus.connection import Connection
from local.client.tools import call_tool
from local.protocol.envelope import Caller
from local.protocol.payloads import Json, ToolResult

RICHARD = Caller(tenant="default", user="richard", agent="shell", session_id="s1")


async def ask(bus: Connection, tool: str, args: Json, caller: Caller = RICHARD) -> ToolResult:
    """What a tool answers, a refusal too."""
    return await call_tool(bus, tool, args, caller=caller)


async def answer(bus: Connection, tool: str, args: Json, caller: Caller = RICHARD) -> ToolResult:
    """What a tool answers that must not refuse."""
    result = await ask(bus, tool, args, caller)
    assert result.ok, result.content
    return result


async def call(bus: Connection, tool: str, args: Json, caller: Caller = RICHARD) -> dict[str, Any]:
    """The data of its answer."""
    data: dict[str, Any] = (await answer(bus, tool, args, caller)).data
    return data


async def ingest(bus: Connection, *messages: Json) -> dict[str, Any]:
    return await call(bus, "ingest", {"messages": messages})
