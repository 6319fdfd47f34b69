"""Kill clients of `local2 mcp` by the dozen, and check that nothing of theirs is left over.

`python tests/mcp_killing.py 500 FOLDER` sets the number of kills. A client is a separate process
that starts a server as clients do, and is killed once it has reached the stage given for it.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from local2.home import RUNTIME_FILE, is_alive
from stacks import pid_of_stack
from waiting import eventually

CLIENT = """
import json, subprocess, sys
home, stage = sys.argv[1:]
server = subprocess.Popen(
    [sys.executable, "-m", "local2", "mcp", "--home", home],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
)
def send(method, number, params):
    request = {"jsonrpc": "2.0", "method": method, "params": params}
    request |= {"id": number} if number else {}
    server.stdin.write(json.dumps(request).encode() + b"\\n")
    server.stdin.flush()
info = {"name": "victim", "version": "1"}
start = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
if stage != "started":
    send("initialize", 1, start)
    server.stdout.readline()
if stage in {"listing", "listed", "calling"}:
    send("notifications/initialized", None, {})
    send("tools/list", 2, {})
if stage in {"listed", "calling"}:
    while json.loads(server.stdout.readline()).get("id") != 2:
        pass
if stage == "calling":
    send("tools/call", 3, {"name": "recall", "arguments": {"query": "anything"}})
print(json.dumps({"server": server.pid}), flush=True)
server.wait()
"""
STAGES = ("started", "initialized", "listing", "calling", "listed")
"""The client that keeps the stack running while others are killed is at the last one."""
CONCURRENT_SERVERS = 4
GONE = 240.0
"""Seconds for a server to end. One that is killed while it imports continues until it reads, which
takes a minute on a busy machine.
"""


@asynccontextmanager
async def _client(home: Path, stage: str) -> AsyncIterator[int]:
    """Start a client, yield its server's process id once it has reached its stage, then kill it."""
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, home, stage, stdout=asyncio.subprocess.PIPE
    )
    assert client.stdout is not None
    try:
        yield json.loads(await client.stdout.readline())["server"]
    finally:
        client.kill()
        await client.wait()


async def _kill(home: Path, stage: str, turn: asyncio.Semaphore) -> None:
    async with turn:
        async with _client(home, stage) as server:
            pass
        await eventually(lambda: not is_alive(server), within=GONE)


async def kill_clients(count: int, home: Path) -> None:
    """Kill this many clients; fail if a server, or in the end the stack, is left over."""
    turn = asyncio.Semaphore(CONCURRENT_SERVERS)
    async with _client(home, "listed"):  # the tools may be listed before the stack has started
        await eventually((home / ".local2" / RUNTIME_FILE).exists, within=GONE)
        stack = pid_of_stack(home)
        async with asyncio.TaskGroup() as killing:
            for number in range(count):
                killing.create_task(_kill(home, STAGES[number % len(STAGES)], turn))
        assert is_alive(stack)
    await eventually(lambda: not is_alive(stack), within=GONE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("home", type=Path)
    chosen = parser.parse_args()
    asyncio.run(kill_clients(chosen.count, chosen.home))
