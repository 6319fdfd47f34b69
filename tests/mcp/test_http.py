"""Over HTTP, local clients with the token are served, and pages of other sites are not."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import httpx2
import pytest
import uvicorn
from mcp.client.streamable_http import streamable_http_client
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

import local2.loopback
from commands import local2 as local2_command
from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.loopback import TimelyProtocol
from mcp import Client
from mcp_clients import ERAS, text_of
from note_tool import Notes

START = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
CHOSEN = "of-the-test"
ACCEPT = {"Accept": "application/json, text/event-stream"}


class Served(NamedTuple):
    """A running `local2 mcp --http`."""

    url: str
    token: str
    home: Path


@contextmanager
def serving(home: Path, nats_url: str, **environment: str) -> Iterator[str]:
    """Run the command in a separate process, and yield its address and token."""
    with subprocess.Popen(
        [sys.executable, "-m", "local2", "mcp", "--http", "--port", "0", "--home", home],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LOCAL2_BUS__URL": nats_url, "LOCAL2_MCP__USER": "ada", **environment},
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0


@pytest.fixture(scope="module")
def served(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("home")
    with serving(home, nats_url) as url:
        yield Served(url, (home / ".local2" / "mcp-token").read_text().strip(), home)


@asynccontextmanager
async def client_of(served: Served, mode: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {served.token}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(served.url, http_client=http), mode=mode) as client,
    ):
        yield client


async def post(served: Served, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(headers=ACCEPT, trust_env=False) as http:
        return await http.post(served.url, json=START, headers=headers)


@pytest.mark.parametrize("era", ERAS)
async def test_clients_of_both_eras_are_served(
    served: Served, bus: Connection, notes: Notes, era: str
) -> None:
    async with ToolHost(bus, notes.tool()), client_of(served, era) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("note", {"text": "x"})

    assert "note" in listed
    assert text_of(result) == "Noted."
    ((caller, _),) = notes.noted
    assert caller.user == "ada"
    assert (caller.session_id is not None) == (era == "legacy")


async def test_a_connection_with_a_handshake_is_a_session(
    served: Served, bus: Connection, notes: Notes
) -> None:
    async with ToolHost(bus, notes.tool()):
        for _ in range(2):
            async with client_of(served, "legacy") as client:
                await client.call_tool("note", {"text": "x"})
                await client.call_tool("note", {"text": "y"})

    sessions = [caller.session_id for caller, _ in notes.noted]
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer {token}x"}, 401),
        ({"Authorization": "Basic {token}"}, 401),
        ({"Authorization": "Bearer {token}"}, 200),
        ({"Authorization": "Bearer {token}", "Host": "evil.example"}, 421),
        ({"Authorization": "Bearer {token}", "Host": "evil.example:80"}, 421),
        ({"Authorization": "Bearer {token}", "Origin": "https://evil.example"}, 403),
        ({"Authorization": "Bearer {token}", "Origin": "http://127.0.0.1:3000"}, 200),
        ({"Authorization": "Bearer {token}", "Host": "localhost:8642"}, 200),
        ({"Authorization": "Bearer {token}", "Host": "127.0.0.1"}, 200),
        ({"Authorization": "Bearer {token}", "Host": "[::1]:8642"}, 200),
        ({"Authorization": "Bearer {token}", "Host": "localhost:8642.evil.example"}, 421),
        ({"Authorization": "Bearer {token}", "Host": "localhost:evil.example"}, 421),
        ({"Authorization": "Bearer {token}", "Host": "localhost.evil.example:80"}, 421),
        ({"Authorization": "Bearer {token}", "Origin": "http://localhost:80.evil.example"}, 403),
        ({"Authorization": "Bearer {token}", "Origin": "http://localhost:80@evil.example"}, 403),
        ({"Authorization": "Bearer {token}", "Origin": "null"}, 403),
        ({"Host": "evil.example", "Origin": "https://evil.example"}, 421),
    ],
)
async def test_requests_without_the_token_or_from_another_site_are_refused(
    served: Served, headers: dict[str, str], status: int
) -> None:
    headers_with_token = {name: value.format(token=served.token) for name, value in headers.items()}

    assert (await post(served, **headers_with_token)).status_code == status


async def send(served: Served, body: bytes, **headers: str) -> httpx.Response:
    """Post a body as it is, with the token."""
    both = {**ACCEPT, "Content-Type": "application/json", **headers}
    async with httpx.AsyncClient(headers=both, trust_env=False) as http:
        authorization = {"Authorization": f"Bearer {served.token}"}
        return await http.post(served.url, content=body, headers=authorization)


async def test_half_an_emoji_is_read_over_http(served: Served) -> None:
    started = await post(served, Authorization=f"Bearer {served.token}")
    session = {"Mcp-Session-Id": started.headers["mcp-session-id"]}
    arguments = {"what": "half \ud83d, whole \U0001f389"}
    params = {"name": "remember_this", "arguments": arguments}
    request = {"jsonrpc": "2.0", "id": 2, "method": "prompts/get", "params": params}
    answer = await send(served, json.dumps(request).encode(), **session)

    assert answer.status_code == 200
    assert "half \ufffd, whole \U0001f389" in answer.text


@pytest.mark.parametrize("number", ["{}", "[1]", "null", "1.5", "true", "NaN"])
async def test_a_request_whose_id_cannot_be_read_is_refused(served: Served, number: str) -> None:
    started = await post(served, Authorization=f"Bearer {served.token}")
    session = {"Mcp-Session-Id": started.headers["mcp-session-id"]}
    body = f'{{"jsonrpc": "2.0", "id": {number}, "method": "ping"}}'
    answer = await send(served, body.encode(), **session)

    error = answer.json()["error"]
    assert (answer.status_code, answer.json()["id"]) == (400, None)
    assert error["code"] == (-32700 if number == "NaN" else -32600)
    assert error["message"].startswith("The message cannot be read")


async def test_a_notification_is_accepted(served: Served) -> None:
    started = await post(served, Authorization=f"Bearer {served.token}")
    session = {"Mcp-Session-Id": started.headers["mcp-session-id"]}
    body = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'

    assert (await send(served, body, **session)).status_code == 202


@asynccontextmanager
async def timely_server(app: ASGIApp) -> AsyncIterator[int]:
    """Serve an app with the protocol of the server; yield the port."""
    config = uvicorn.Config(app, http=TimelyProtocol, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = asyncio.create_task(server.serve([listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await running


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"POST /mcp HTTP/1.1\r\nHost: x\r\n", id="a part of the headers"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", id="a body"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / H", id="a part of the next request"),
    ],
)
async def test_a_request_that_never_arrives_is_closed_and_one_that_did_is_answered(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    closed = asyncio.Event()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        if scope["path"] == "/slow":
            await closed.wait()
        await PlainTextResponse("done")(scope, receive, send)

    monkeypatch.setattr(local2.loopback, "REQUEST_SECONDS", 0.05)
    async with timely_server(answer) as port:
        slow, asks = await asyncio.open_connection("127.0.0.1", port)
        asks.write(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        half, sends = await asyncio.open_connection("127.0.0.1", port)
        sends.write(sent)
        await half.read()
        closed.set()

        assert (await slow.read()).endswith(b"done")
        for writer in (asks, sends):
            writer.close()


async def test_a_refusal_says_where_the_token_is(served: Served) -> None:
    refused = await post(served, Authorization="Bearer wrong")

    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert refused.json()["error"] == "invalid_token"
    assert str(served.home / ".local2" / "mcp-token") in refused.json()["error_description"]
    assert served.token not in refused.text


async def test_a_token_may_be_configured(tmp_path: Path, nats_url: str) -> None:
    with serving(tmp_path, nats_url, LOCAL2_MCP__TOKEN=CHOSEN) as url:
        chosen: Any = await post(Served(url, "", tmp_path), Authorization=f"Bearer {CHOSEN}")

        assert chosen.status_code == 200
        assert not (tmp_path / ".local2" / "mcp-token").exists()


def test_a_port_in_use_is_reported_and_the_private_token_stays_the_same(
    served: Served, nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL2_BUS__URL", nats_url)
    port = served.url.rpartition(":")[2].partition("/")[0]
    done = local2_command(served.home, "mcp", "--http", "--port", port)

    assert done.returncode == 1
    assert "Choose another port with --port" in done.stderr
    file = served.home / ".local2" / "mcp-token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().strip() == served.token
