"""A profile chooses among the tools on the bus; another team's tools appear without being named."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.errors import ConfigError
from local2.mcp.bridge import DEFAULT_TOOLS, profile_of
from local2.protocol.memory_tools import TOOL_NAMES, TOOLS
from local2.protocol.payloads import ToolHints
from local2.settings import Settings
from mcp_clients import client_of
from note_tool import Notes

READING = {tool.name for tool in TOOLS if tool.annotations.read_only_hint}


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("profile", "offered"),
    [
        (["default"], {*DEFAULT_TOOLS, "look", "write"}),
        (["full"], {*TOOL_NAMES, "look", "write"}),
        (["read-only"], {*READING, "look"}),
        (["recall", "book"], {"recall"}),
    ],
)
async def test_a_profile_chooses_the_offered_tools(
    settings: Settings,
    bus: Connection,
    notes: Notes,
    profile: Sequence[str],
    offered: set[str],
) -> None:
    chosen = msgspec.structs.replace(settings.mcp, profile=tuple(profile))
    reading = msgspec.structs.replace(
        notes.tool(), name="look", annotations=ToolHints(read_only_hint=True)
    )
    writing = msgspec.structs.replace(notes.tool(), name="write")
    async with (
        ToolHost(bus, reading),
        ToolHost(bus, writing),
        client_of(msgspec.structs.replace(settings, mcp=chosen)) as client,
    ):
        async with asyncio.timeout(30):  # on a busy machine, some are announced later
            listed = set[str]()
            while listed != offered:
                listed = {tool.name for tool in (await client.list_tools()).tools}


async def test_a_tool_for_programs_is_offered_only_in_the_full_profile(
    settings: Settings, bus: Connection, notes: Notes
) -> None:
    quiet = msgspec.structs.replace(notes.tool(), for_models=False)
    full = msgspec.structs.replace(settings.mcp, profile=("full",))
    async with ToolHost(bus, quiet):
        async with client_of(settings) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == []
        async with client_of(msgspec.structs.replace(settings, mcp=full)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["note"]


@pytest.mark.parametrize("chosen", [[], ["default", "recall"], ["full", "read-only"]])
def test_a_profile_among_names_is_refused(chosen: list[str]) -> None:
    with pytest.raises(ConfigError, match="default, full, read-only"):
        profile_of(chosen)
