"""A tool that joins the bus late is announced to clients of either era, and can be called."""

import asyncio
from typing import Any

import mcp_types as types
import msgspec
from mcp.client.subscriptions import ToolsListChanged

from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.settings import Settings
from mcp_clients import client_of
from note_tool import Notes
from waiting import eventually


async def test_a_client_with_a_handshake_is_notified_of_a_late_tool(
    settings: Settings, bus: Connection, notes: Notes
) -> None:
    notified = asyncio.Event()

    async def receive(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            notified.set()

    async with client_of(settings, "legacy", message_handler=receive) as client:
        await client.list_tools()
        await notified.wait()  # the stack was reached
        notified.clear()
        async with ToolHost(bus, notes.tool()):
            await notified.wait()

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


async def test_a_client_without_a_handshake_receives_an_event_for_a_late_tool(
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


async def test_a_repeated_announcement_notifies_the_client_once(
    settings: Settings, bus: Connection, notes: Notes
) -> None:
    notifications = []

    async def receive(message: Any) -> None:
        notifications.append(message)

    tool = notes.tool()
    async with (
        ToolHost(bus, tool),
        client_of(settings, "legacy", message_handler=receive) as client,
    ):
        await client.list_tools()
        for _ in range(5):
            await bus.publish("tool.schema.request", b"")
        async with ToolHost(bus, msgspec.structs.replace(tool, name="another")):
            await eventually(
                lambda: len(notifications) == 2
            )  # the stack was reached, and this one joined
