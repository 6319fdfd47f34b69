"""A client of the SDK before 2.0, in a separate environment, lists and calls the tools."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.protocol.payloads import ToolHints
from note_tool import Notes

INSTALL_SECONDS = 90
CLIENT = """
import asyncio, json, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    command, *words = sys.argv[1:-1]
    server = StdioServerParameters(command=command, args=words, env=json.loads(sys.argv[-1]))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        start = await session.initialize()
        (tool,) = (await session.list_tools()).tools
        result = await session.call_tool("note", {"text": "old"})
        wrong = await session.call_tool("note", {"text": 7})
        prompts = (await session.list_prompts()).prompts
        print(json.dumps({
            "version": start.protocolVersion,
            "changes": start.capabilities.tools.listChanged,
            "tool": tool.name,
            "reads": tool.annotations.readOnlyHint,
            "text": result.content[0].text,
            "data": result.structuredContent,
            "wrong": wrong.isError,
            "prompts": len(prompts),
        }))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def older_sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the SDK before 2.0, installed once and linked from uv's cache."""
    if (uv := shutil.which("uv")) is None:
        pytest.skip("uv is not there to make another environment.")
    folder = tmp_path_factory.mktemp("older") / "venv"
    python = folder / "bin" / "python"
    steps = (
        f"venv --quiet --python {sys.executable} {folder}",
        f"pip install --quiet --python {python} mcp>=1.30,<2",
    )
    for step in steps:
        try:
            subprocess.run(
                [uv, *step.split()], check=True, capture_output=True, timeout=INSTALL_SECONDS
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip("The SDK before 2.0 cannot be installed here.")
    return python


@pytest.mark.timeout(240)
async def test_an_older_client_lists_and_calls_the_tools(
    older_sdk: Path, bus: Connection, notes: Notes, nats_url: str, tmp_path: Path
) -> None:
    environment = {**os.environ, "LOCAL2_BUS__URL": nats_url}
    tool = msgspec.structs.replace(notes.tool(), annotations=ToolHints(read_only_hint=False))
    async with ToolHost(bus, tool):
        client = await asyncio.create_subprocess_exec(
            older_sdk,
            "-c",
            CLIENT,
            sys.executable,
            "-m",
            "local2",
            "mcp",
            "--home",
            tmp_path,
            "--profile",
            "note",
            json.dumps(environment),
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await client.communicate()

    assert json.loads(printed) == {
        "version": "2025-11-25",
        "changes": True,
        "tool": "note",
        "reads": False,
        "text": "Noted.",
        "data": {"text": "old"},
        "wrong": True,
        "prompts": 3,
    }
