"""Clients of the SDK, connected to a server in this process or in a process that they start."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, Implementation

from local2.mcp.opening import Opening
from local2.mcp.server import serving
from local2.mcp.stdio import serve
from local2.settings import BusSettings, Settings
from mcp import Client

NOBODY = Settings(bus=BusSettings(url="nats://127.0.0.1:9"))
"""Settings with a bus on which no memory runs."""
ERAS = ("legacy", "2026-07-28")
"""How a client may connect: with a handshake, and without one."""


@asynccontextmanager
async def client_of(
    settings: Settings, mode: str = "auto", *, name: str = "Test Client", **options: Any
) -> AsyncIterator[Client]:
    """Connect a client to a server in this process."""
    info = Implementation(name=name, version="1")
    async with (
        serving(settings) as server,
        Client(server, mode=mode, client_info=info, cache=None, **options) as client,
    ):
        yield client


class Ask(Protocol):
    """Send a line to a server, and read its answer unless there is none."""

    async def __call__(self, line: str, *, answered: bool = True) -> dict[str, Any]: ...


@asynccontextmanager
async def asking(settings: Settings) -> AsyncIterator[Ask]:
    """Run `local2 mcp` in this process, and send it raw lines."""
    (incoming, to), (of, outgoing) = os.pipe(), os.pipe()
    serving_ = asyncio.create_task(serve(settings, Opening(incoming, outgoing, b"", None)))
    with os.fdopen(to, "wb", buffering=0) as lines, os.fdopen(of, "rb") as answers:

        async def ask(line: str, *, answered: bool = True) -> dict[str, Any]:
            await asyncio.to_thread(lines.write, f"{line}\n".encode())
            return json.loads(await asyncio.to_thread(answers.readline)) if answered else {}

        yield ask
        lines.close()
        await serving_


def command(home: Path, *words: str) -> StdioServerParameters:
    """Return the command `local2 mcp` on a folder, as clients start it."""
    environment = {k: v for k, v in os.environ.items() if k.startswith(("PYTHON", "LOCAL2_"))}
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "local2", "mcp", "--home", str(home), *words],
        env=environment,
        cwd=home,
    )


def text_of(result: CallToolResult) -> str:
    """Return the text of a result for a model."""
    return "\n".join(part.text for part in result.content if part.type == "text")
