"""An MCP server with the tools that the official conformance suite calls, as another team's tools.

`python tests/mcp_conformance.py NATS_URL` serves them over HTTP and prints the address. There is
no token, since the suite cannot send one.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any
from unittest.mock import patch

import uvicorn

from local2.bus.connection import BusMessage, Connection, connect
from local2.client.tools import Toolbox
from local2.loopback import HOST
from local2.mcp.server import serving
from local2.protocol.envelope import decode, encode, seal
from local2.protocol.payloads import Json, ToolProgress, ToolRequest, ToolSchema
from local2.settings import BusSettings, McpSettings, Settings

Answer = Callable[[Connection, str], Awaitable[Json]]
SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
PLAIN = {"type": "object", "properties": {}}


async def _text(_: Connection, __: str) -> Json:
    return {"ok": True, "content": "This is a simple text response for testing."}


async def _error(_: Connection, __: str) -> Json:
    return {"ok": False, "error": "This tool intentionally returns an error for testing"}


async def _progress(bus: Connection, request_id: str) -> Json:
    for step in (0, 50, 100):
        progress = ToolProgress(progress=step, total=100, message=f"Completed step {step} of 100")
        envelope = seal(progress, type="progress", source="suite", correlation_id=request_id)
        await bus.publish("tool.progress.test_tool_with_progress", encode(envelope))
    return {"ok": True, "content": "done"}


TOOLS: dict[str, tuple[Answer, Json]] = {
    "test_simple_text": (_text, PLAIN),
    "test_error_handling": (_error, PLAIN),
    "test_tool_with_progress": (_progress, PLAIN),
    "json_schema_2020_12_tool": (_text, SCHEMA_2020),
}


async def _serve_tool(bus: Connection, name: str, answer: Answer, parameters: Json) -> None:
    async def reply(message: BusMessage) -> None:
        request: Any = decode(message.data, ToolRequest[Json])
        await bus.publish(message.reply, json.dumps(await answer(bus, request.id)).encode())

    async def announce(_: BusMessage) -> None:
        schema = {"name": name, "description": "Of the suite.", "inputSchema": parameters}
        await bus.publish("tool.schema", json.dumps(schema).encode())

    await bus.subscribe(f"tool.request.{name}", reply)
    await bus.subscribe("tool.schema.request", announce)


find = Toolbox.find


async def find_announced(box: Toolbox, tool: str, *, within: float) -> ToolSchema | None:
    """Wait only for what is announced: the suite calls many tools that nobody has."""
    return await find(box, tool, within=within if tool in TOOLS else 0)


async def main(url: str) -> None:
    settings = Settings(bus=BusSettings(url=url), mcp=McpSettings(user="suite"))
    async with AsyncExitStack() as resources:
        bus = await resources.enter_async_context(connect(url, name="suite"))
        for name, (answer, parameters) in TOOLS.items():
            await _serve_tool(bus, name, answer, parameters)
        resources.enter_context(patch.object(Toolbox, "find", find_announced))
        server = await resources.enter_async_context(serving(settings))
        listener = resources.enter_context(socket.create_server((HOST, 0)))
        print(f"http://{HOST}:{listener.getsockname()[1]}/mcp", flush=True)  # noqa: T201
        app = server.streamable_http_app(host=HOST)
        config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)
        await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
