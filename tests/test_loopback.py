"""Servers of this machine: the token of their clients, and connections that stay open."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect

import local2.loopback
from local2.errors import ConfigError
from local2.loopback import listen, load_or_create_token

SERVERS = 8


def test_servers_that_start_together_have_the_same_token(tmp_path: Path) -> None:
    together = Barrier(SERVERS)

    def start(file: Path) -> str:
        together.wait()
        return load_or_create_token(file)

    with ThreadPoolExecutor(SERVERS) as servers:
        for number in range(20):
            file = tmp_path / str(number) / "token"
            tokens = set(servers.map(start, [file] * SERVERS))

            assert tokens == {file.read_text().strip()}
            assert [file] == list(file.parent.iterdir())


def test_a_port_that_is_taken_is_said_in_one_sentence() -> None:
    with listen(0, "LOCAL2_HTTP__PORT") as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as refused:
            listen(port, "LOCAL2_HTTP__PORT")

    assert refused.value.message == (
        f"The server cannot listen on 127.0.0.1:{port}: Address already in use."
    )


async def test_a_socket_stays_open_for_longer_than_a_request_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        socket = WebSocket(scope, receive, send)
        await socket.accept()
        await socket.send_text(await socket.receive_text())

    monkeypatch.setattr(local2.loopback, "REQUEST_SECONDS", 0.05)
    with local2.loopback.listen(0, "PORT") as listener:
        port = listener.getsockname()[1]
        serving = asyncio.create_task(
            local2.loopback.serve(
                listener, echo, lambda said, _: PlainTextResponse(said), with_sockets=True
            )
        )
        try:
            async with connect(f"ws://127.0.0.1:{port}") as socket:
                half, sends = await asyncio.open_connection("127.0.0.1", port)
                await half.read()  # it came later, and its time is over
                sends.close()
                await socket.send("still here")

                assert await socket.recv() == "still here"
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
