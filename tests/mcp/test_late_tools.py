"""A tool that joins the bus late is told of to clients of either era, and can be called."""

import asyncio
from typing import Any

import mcp_types as types
import msgspec
from mcp.client.subscriptions import ToolsListChanged

from local.bus.connection import Connection
from local.bus.tool_host import ToolHost
from local.settings import Settings
from mcp_clients import client_of
from note_tool import Notes
from waiting import eventually


async def test_a_client_with_a_handshake_is_told(
    settings: Settings, bus: Connection, notes: Notes
) -> None:
    told = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            told.set()

    async with client_of(settings, "legacy", message_handler=hear) as client:
        await client.list_tools()
        await told.wait()  # the stack was reached
        told.clear()
        async with ToolHost(bus, notes.tool()):
            await told.wait()

            assert [tool.name for tool in (await client.list_tools()).tools] == ["note"]
            assert not (await client.call_tool("note", {"text": "late"})).is_error


async def test_a_call_waits_for_a_tool_that_is_about_to_be_announced(
    settings: Settings, bus: Connection, notes: Notes
) -> None:
    """Its first announcement may be late, as on a busy machine."""
    async with client_of(settings) as client:
        await client.list_tools()
        calling = asyncio.create_task(client.call_tool("note", {"text": "early"}))
        async with ToolHost(bus, notes.tool()):
            assert not (await calling).is_error


async def test_a_client_without_one_listens(
    settings: Settings, bus: Connection, notes: Notes
) -> None:
    async with (
        client_of(settings, "2026-07-28") as client,
        client.listen(tools_list_changed=True) as events,
        ToolHost(bus, notes.tool()),
    ):
        async for event in events:
            assert isinstance(event, ToolsListChanged)
            if [tool.name for tool in (await client.list_tools()).tools] == ["note"]:
                break


async def test_what_a_tool_announces_again_is_told_once(
    settings: Settings, bus: Connection, notes: Notes
) -> None:
    told = []

    async def hear(message: Any) -> None:
        told.append(message)

    tool = notes.tool()
    async with ToolHost(bus, tool), client_of(settings, "legacy", message_handler=hear) as client:
        await client.list_tools()
        for _ in range(5):
            await bus.publish("tool.schema.request", b"")
        async with ToolHost(bus, msgspec.structs.replace(tool, name="another")):
            await eventually(lambda: len(told) == 2)  # the stack was reached, and this one joined
