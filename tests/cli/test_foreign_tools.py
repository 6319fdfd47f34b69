"""The command line lists and calls tools that others announce, even with minimal schemas."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from commands import local2
from local2.bus.connection import BusMessage, Connection
from local2.protocol.envelope import encode, seal
from local2.protocol.memory_tools import Version, Versions
from local2.protocol.payloads import ToolResult
from recalling import DAY

MINIMAL: dict[str, Any] = {"type": "object"}
ANY_VALUE: dict[str, Any] = {"type": "object", "properties": {"depth": True}}


@pytest.fixture(autouse=True)
def bus_of_commands(monkeypatch: pytest.MonkeyPatch, nats_url: str) -> None:
    monkeypatch.setenv("LOCAL2_BUS__URL", nats_url)


@pytest.fixture(params=[MINIMAL, ANY_VALUE], ids=["minimal", "any value"])
async def received_args(request: pytest.FixtureRequest, bus: Connection) -> list[Any]:
    """Serve `dig` as a participant in another language might; return the arguments it receives."""
    arguments: list[Any] = []
    function = {"name": "dig", "description": "Dig a hole.", "parameters": request.param}
    schema = {"type": "function", "function": function}
    announced = {"name": "dig", "description": "Dig a hole.", "version": "1", "schema": schema}

    async def announce(_: BusMessage) -> None:
        await bus.publish("tool.schema", json.dumps({"payload": announced}).encode())

    async def dig(message: BusMessage) -> None:
        arguments.append(json.loads(message.data)["payload"]["args"])
        await bus.publish(message.reply, b'{"payload": {"ok": true, "content": "A hole."}}')

    await bus.subscribe("tool.schema.request", announce)
    await bus.subscribe("tool.request.dig", dig)
    await bus.flush()
    return arguments


@pytest.mark.usefixtures("received_args")
@pytest.mark.parametrize("as_json", [True, False])
async def test_a_foreign_tool_is_listed(tmp_path: Path, as_json: bool) -> None:
    words = ["tools", "--json"] if as_json else ["tools"]

    printed = (await asyncio.to_thread(local2, tmp_path, *words)).stdout

    if as_json:
        assert [tool["name"] for tool in json.loads(printed)] == ["dig"]
    else:
        assert "Dig a hole." in printed


async def test_a_foreign_tool_is_called_with_its_arguments_as_text(
    tmp_path: Path, received_args: list[Any]
) -> None:
    called = await asyncio.to_thread(local2, tmp_path, "call", "dig", "place=garden", "depth=3")

    assert called.stdout == "A hole.\n"
    assert received_args == [{"place": "garden", "depth": "3"}]


async def test_the_versions_left_out_of_a_history_are_counted(
    tmp_path: Path, bus: Connection
) -> None:
    version = Version(
        id="1",
        content="Vim",
        topic="user.editor",
        scope="user",
        event_time=DAY,
        agent=None,
        superseded_by=None,
    )
    result = ToolResult(ok=True, content="Vim", data=Versions(versions=[version], total=4))

    async def answer(message: BusMessage) -> None:
        sent = seal(result, type="result", source="memory_history")
        await bus.publish(message.reply, encode(sent))

    await bus.subscribe("tool.request.memory_history", answer)
    await bus.flush()
    shown = await asyncio.to_thread(local2, tmp_path, "history", "user.editor")

    assert shown.stdout.endswith("Vim\n3 older versions are left out.\n")
