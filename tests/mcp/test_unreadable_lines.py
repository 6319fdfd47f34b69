"""Unreadable lines are answered, so that their client does not wait for ever."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_clients import NOBODY, Ask, asking


@pytest.fixture
async def ask() -> AsyncIterator[Ask]:
    """Send a line, and return the next one of the server's answers."""
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    async with asking(NOBODY) as send:
        assert "result" in await send(json.dumps(request))
        assert await send(json.dumps(initialized), answered=False) == {}
        yield send


async def test_a_line_that_is_not_a_message_is_answered(ask: Ask) -> None:
    for line, code, request in [
        ("{nope", -32700, None),
        ("[" * 100_000, -32700, None),
        ("42", -32600, None),
        ('{"jsonrpc": "2.0", "id": "a", "method": 7}', -32600, "a"),
        ('{"jsonrpc": "2.0", "id": 8, "method": "ping", "params": [1]}', -32600, 8),
    ]:
        answer = await ask(line)
        assert (answer["error"]["code"], answer["id"]) == (code, request)

    assert await ask('{"jsonrpc": "2.0", "id": 9, "method": "ping"}') == {
        "jsonrpc": "2.0",
        "id": 9,
        "result": {},
    }


async def test_half_an_emoji_is_replaced(ask: Ask) -> None:
    """Clients in JavaScript send it when they cut a text."""
    arguments = {"what": "half \ud83d, whole \U0001f389"}
    params = {"name": "remember_this", "arguments": arguments}
    request = {"jsonrpc": "2.0", "id": 2, "method": "prompts/get", "params": params}

    answer = await ask(json.dumps(request))

    assert "half \ufffd, whole \U0001f389" in answer["result"]["messages"][0]["content"]["text"]


async def test_a_file_in_place_of_a_client_is_refused_with_an_error(tmp_path: Path) -> None:
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "local2", "mcp", "--home", str(tmp_path)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await server.communicate()

    assert server.returncode == 1
    assert b"must be pipes to a client" in errors


async def test_a_client_that_is_gone_before_its_answers_ends_the_server_without_an_error(
    tmp_path: Path,
) -> None:
    of, outgoing = os.pipe()
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "local2", "mcp", "--home", str(tmp_path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=outgoing,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "LOCAL2_BUS__URL": "nats://127.0.0.1:9"},
    )
    os.close(outgoing)
    assert server.stdin is not None
    server.stdin.write(b"{nope\n")
    assert b"not JSON" in await asyncio.to_thread(os.read, of, 1_000)
    os.close(of)

    _, errors = await server.communicate(b"{nope\n" * 9)

    assert (server.returncode, errors) == (0, b"")


@pytest.mark.parametrize("closed", ["<&-", "</dev/null >&-", "<&- >&-"])
async def test_closed_standard_streams_are_refused_with_an_error(
    tmp_path: Path, closed: str
) -> None:
    command = f'exec "$0" -m local2 mcp --home "$1" {closed}'
    server = await asyncio.create_subprocess_exec(
        *("sh", "-c", command, sys.executable, str(tmp_path)), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await server.communicate()

    assert server.returncode == 1
    assert b"must be pipes to a client" in errors
    assert b"Traceback" not in errors
