"""Results longer than a client accepts are cut, with a key to read the rest by."""

import json
from typing import Annotated, Any

import msgspec
import pytest

from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.protocol.envelope import Caller
from local2.protocol.tool import Tool, ToolOutput
from local2.settings import McpSettings, Settings
from mcp import Client
from mcp_clients import client_of, text_of

LIMIT = 2_000


class Length(msgspec.Struct):
    text: int = 0
    data: Annotated[int, msgspec.Meta(ge=0)] = 0


class Long(msgspec.Struct):
    letters: str


async def _run(_: Caller, args: Length) -> ToolOutput:
    text = "".join(f"{number:06d}," for number in range(args.text // 7))
    return ToolOutput(content=text, data=Long(letters="ü" * args.data))


TOOL = Tool(name="tell", description="Tell.", version="1", args=Length, run=_run, whole=True)


@pytest.fixture
def limited(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, mcp=McpSettings(user="ada", result_limit=LIMIT))


async def _read(client: Client, key: str) -> str:
    """Read the whole output, piece by piece."""
    read, offset = "", 0
    while True:
        args = {"tool_output_key": key, "offset": offset, "limit": 10_000}
        piece: dict[str, Any] | None = (
            await client.call_tool("read_tool_output", args)
        ).structured_content
        assert piece is not None
        read += str(piece["content"])
        if piece["next_offset"] is None:
            return read
        offset = piece["next_offset"]


@pytest.mark.usefixtures("output_keeper")
async def test_the_rest_of_a_long_text_is_read_by_its_key(
    limited: Settings, bus: Connection
) -> None:
    async with ToolHost(bus, TOOL), client_of(limited) as client:
        result = await client.call_tool("tell", {"text": 70_000})
        shown = text_of(result)
        assert len(shown) < LIMIT
        whole = await _read(client, shown.partition('tool_output_key="')[2].partition('"')[0])

    assert len(whole) == 70_000
    assert whole.startswith(shown.splitlines()[1][:100])


@pytest.mark.usefixtures("output_keeper")
async def test_the_rest_of_long_data_is_read_by_its_key(limited: Settings, bus: Connection) -> None:
    async with ToolHost(bus, TOOL), client_of(limited) as client:
        result = await client.call_tool("tell", {"data": 30_000})
        data = result.structured_content
        assert data is not None
        assert data["tool_output_key"] in text_of(result)
        whole = await _read(client, data["tool_output_key"])

    assert json.loads(whole) == {"letters": "ü" * 30_000}
    assert data["total_chars"] == len(whole)


@pytest.mark.usefixtures("output_keeper")
async def test_a_result_that_a_client_accepts_is_unchanged(
    limited: Settings, bus: Connection
) -> None:
    async with ToolHost(bus, TOOL), client_of(limited) as client:
        result = await client.call_tool("tell", {"text": 1_400, "data": 1_000})

    assert len(text_of(result)) == 1_400
    assert result.structured_content == {"letters": "ü" * 1_000}


async def test_without_a_memory_to_store_it_a_long_text_stays_whole(
    limited: Settings, bus: Connection
) -> None:
    async with ToolHost(bus, TOOL), client_of(limited) as client:
        result = await client.call_tool("tell", {"text": 7_000, "data": 9_000})

    assert len(text_of(result)) == 7_000
    assert result.structured_content is None
