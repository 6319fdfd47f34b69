"""Clients of the SDK, connected to a server in this process, or to one that they start."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, Implementation

from local.mcp.server import serving
from local.settings import Settings
from mcp import Client

ERAS = ("legacy", "2026-07-28")
"""How a client may connect: with a handshake, and without one."""


@asynccontextmanager
async def client_of(
    settings: Settings, mode: str = "auto", *, name: str = "Test Client", **options: Any
) -> AsyncIterator[Client]:
    """A client of a server in this process."""
    info = Implementation(name=name, version="1")
    async with (
        serving(settings) as server,
        Client(server, mode=mode, client_info=info, cache=None, **options) as client,
    ):
        yield client


def command(home: Path, *words: str) -> StdioServerParameters:
    """`local2 mcp` on a folder, as clients start it."""
    environment = {k: v for k, v in os.environ.items() if k.startswith(("PYTHON", "LOCAL2_"))}
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "local", "mcp", "--home", str(home), *words],
        env=environment,
        cwd=home,
    )


def text_of(result: CallToolResult) -> str:
    """What a result says to a model."""
    return "\n".join(part.text for part in result.content if part.type == "text")
