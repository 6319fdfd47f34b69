"""Functions to call the memory's tools, over the bus or without one."""

from typing import Any

import msgspec

from local2.bus.connection import Connection
from local2.client.tools import call_tool
from local2.memory.tenant import Memories, Memory
from local2.protocol.envelope import Caller, decode
from local2.protocol.payloads import Json, ToolRequest, ToolResult
from local2.protocol.tool import ToolOutput
from local2.tools.catalog import memory_tools


def caller_named(
    user: str | None, *, agent: str | None = None, session_id: str | None = None
) -> Caller:
    return Caller(tenant="default", user=user, agent=agent, session_id=session_id)


RICHARD = caller_named("richard", agent="shell", session_id="s1")
UNNAMED = Caller(tenant="default")


async def run_tool(memory: Memory, name: str, args: Json, caller: Caller = RICHARD) -> ToolOutput:
    """Run a tool on arguments as they are sent over the bus."""
    (tool,) = [tool for tool in memory_tools(Memories(memory)) if tool.name == name]
    request = msgspec.json.encode({"payload": {"args": args}})
    checked = decode(request, ToolRequest[tool.args]).payload.args  # type: ignore[name-defined]
    return await tool.run(caller, checked)


async def ask(bus: Connection, tool: str, args: Json, caller: Caller = RICHARD) -> ToolResult:
    """Return a tool's answer, including a refusal."""
    return await call_tool(bus, tool, args, caller=caller)


async def answer(bus: Connection, tool: str, args: Json, caller: Caller = RICHARD) -> ToolResult:
    """Return the answer of a tool that must not refuse."""
    result = await ask(bus, tool, args, caller)
    assert result.ok, result.content
    return result


async def call(bus: Connection, tool: str, args: Json, caller: Caller = RICHARD) -> dict[str, Any]:
    """Return the data of such an answer."""
    data: dict[str, Any] = (await answer(bus, tool, args, caller)).data
    return data


async def ingest(bus: Connection, *messages: Json) -> dict[str, Any]:
    return await call(bus, "ingest", {"messages": messages})


async def ingest_talk(bus: Connection, *messages: tuple[str, str]) -> None:
    """Ingest messages, each a role and a text."""
    await ingest(bus, *({"role": role, "content": content} for role, content in messages))


async def recall_items(
    bus: Connection, query: str, caller: Caller = RICHARD, **args: Any
) -> list[Json]:
    items: list[Json] = (await call(bus, "recall", {"query": query, **args}, caller))["items"]
    return items
