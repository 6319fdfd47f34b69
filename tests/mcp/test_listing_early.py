"""A client that lists the tools before the stack is reached is answered soon."""

import asyncio
from typing import Any

import mcp_types as types
import msgspec
import pytest

from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.client import stack_tools
from local2.client.tools import Toolbox
from local2.mcp.bridge import DEFAULT_TOOLS
from local2.protocol.payloads import ToolSchema
from local2.settings import Settings
from mcp_clients import ERAS, NOBODY, client_of
from note_tool import Notes


async def tools_listed(settings: Settings, era: str) -> list[types.Tool]:
    full = msgspec.structs.replace(settings.mcp, profile=("full",))
    async with client_of(msgspec.structs.replace(settings, mcp=full), era) as client:
        return (await client.list_tools()).tools


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.usefixtures("tools")
async def test_without_a_stack_the_list_is_what_the_stack_will_announce(
    settings: Settings, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced = await tools_listed(settings, era)
    monkeypatch.setattr(stack_tools, "LIST_SECONDS", 0.05)

    assert await tools_listed(NOBODY, era) == announced


async def test_a_stack_that_starts_slowly_does_not_delay_the_list_and_a_change_is_announced(
    settings: Settings, bus: Connection, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, notified, settle = asyncio.Event(), asyncio.Event(), Toolbox.settle

    async def settle_once_started(toolbox: Toolbox) -> list[ToolSchema]:
        await started.wait()
        return await settle(toolbox)

    async def receive(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification) and started.is_set():
            notified.set()

    monkeypatch.setattr(Toolbox, "settle", settle_once_started)
    monkeypatch.setattr(stack_tools, "LIST_SECONDS", 0.05)
    async with (
        ToolHost(bus, notes.tool()),
        client_of(settings, "legacy", message_handler=receive) as client,
    ):
        early = (await client.list_tools()).tools
        monkeypatch.setattr(stack_tools, "LIST_SECONDS", 60.0)
        started.set()
        await notified.wait()
        late = (await client.list_tools()).tools

    assert {tool.name for tool in early} == DEFAULT_TOOLS
    assert [tool.name for tool in late] == ["note"]
