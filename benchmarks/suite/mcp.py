"""Tool calls through `local2 mcp` against the same on the bus; its handshake from a cold start.

Both use minimal clients: lines of JSON over the server's standard input and output, and bare
nats-py.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness.client import alternating, asking, latency, request_of, seconds
from harness.processes import running_stack
from harness.report import Figure, milliseconds, ratio, run

BLOCKS = 7
CALLS = 200
STARTS = 5
TOPIC = "user.name"
COMMAND = (sys.executable, "-m", "local2", "mcp", "--user", "ada")
LONGEST = 16 * 1024 * 1024


class StdioClient:
    """An MCP client without its SDK."""

    def __init__(self, server: asyncio.subprocess.Process) -> None:
        assert server.stdin is not None
        assert server.stdout is not None
        self._writer = server.stdin
        self._reader = server.stdout
        self._number = 0

    async def request(self, method: str, **params: Any) -> Any:
        """Return the result; an error, also of a tool, raises."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            answer = json.loads(await self._reader.readline())
            if answer.get("id") == self._number:
                break
        if "error" in answer or answer["result"].get("isError"):
            raise AssertionError(answer)
        return answer["result"]

    async def connect(self) -> None:
        info = {"name": "benchmark", "version": "1"}
        await self.request(
            "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info
        )
        self._send({"method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


@asynccontextmanager
async def started(url: str, folder: Path) -> AsyncIterator[StdioClient]:
    """Run a server on the bus at this address; it ends with its standard input."""
    server = await asyncio.create_subprocess_exec(
        *COMMAND,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=folder,
        env={"LOCAL2_BUS__URL": url, "PATH": "", "HOME": str(folder)},
        limit=LONGEST,
    )
    try:
        yield StdioClient(server)
    finally:
        assert server.stdin is not None
        server.stdin.close()
        await server.wait()


async def handshake(url: str, folder: Path) -> float:
    """Return the seconds from starting the server to its first answer."""
    begun = time.perf_counter()
    async with started(url, folder) as client:
        await client.connect()
        return time.perf_counter() - begun


async def first_tools(url: str, folder: Path) -> float:
    """Return the seconds from starting the server to its list of tools."""

    async def list_tools() -> None:
        async with started(url, folder) as client:
            await client.connect()
            await client.request("tools/list")

    return await seconds(list_tools())


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with running_stack(folder) as url, asking(url) as asker:
            starts = [await handshake(url, folder) for _ in range(STARTS + 1)][1:]
            lists = [await first_tools(url, folder) for _ in range(STARTS)]
            await asker.tool("save_topic", request_of(topic=TOPIC, content="Ada"))
            async with started(url, folder) as client:
                await client.connect()
                call = {"name": "recall_topic", "arguments": {"topic": TOPIC}}
                through, direct = await alternating(
                    BLOCKS,
                    lambda: latency(lambda: client.request("tools/call", **call), CALLS),
                    lambda: latency(
                        lambda: asker.tool("recall_topic", request_of(topic=TOPIC)), CALLS
                    ),
                )
    added = [one - other for one, other in zip(through, direct, strict=True)]
    return [
        Figure(key="handshake", about="handshake", blocks=starts, unit="s", at_most=1.0),
        Figure(key="tools", about="start to list of tools", blocks=lists, unit="s"),
        milliseconds("mcp_ms", "call through MCP, p50", through),
        milliseconds("bus_ms", "call on the bus, p50", direct),
        milliseconds("added_ms", "added by MCP", added, at_most=2.0),
        ratio("ratio", "MCP / bus", through, direct),
    ]


def main() -> None:
    run(__doc__, measure)
