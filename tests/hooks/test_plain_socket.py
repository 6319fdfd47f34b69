"""Requests over a plain socket, against a real NATS server: in time, in order, or not at all."""

import asyncio
import json
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from factories import ConnectBus
from local.bus.connection import BusMessage
from local.bus.server import find_server
from local.errors import BusError, BusTimeoutError, NoRespondersError, StackNotRunningError
from local.hooks.wire import Request, Wire
from waiting import eventually

LONG = 60.0


async def ask(url: str, *requests: Request, within: float = LONG) -> list[bytes | None]:
    def asked() -> list[bytes | None]:
        with Wire(url, None, within=within) as wire:
            return wire.ask(requests)

    return await asyncio.to_thread(asked)


@pytest.fixture
async def echo(connect_bus: ConnectBus) -> None:
    """Answers on `echo.*` what it was sent, the last question first; never `echo.late`."""
    bus = await connect_bus()
    held: list[BusMessage] = []

    async def answer(message: BusMessage) -> None:
        held.append(message)
        if message.subject == "echo.last":
            for each in reversed(held):
                if each.subject != "echo.late":
                    await bus.publish(each.reply, each.data)
            held.clear()

    await bus.subscribe("echo.*", answer)
    await bus.flush()


@pytest.mark.usefixtures("echo")
async def test_answers_come_in_the_order_of_the_requests(nats_url: str) -> None:
    large = b"x" * 500_000
    requests = (Request("echo.a", b"a"), Request("echo.b", large), Request("echo.last", b"\r\n"))

    assert await ask(nats_url, *requests) == [b"a", large, b"\r\n"]


@pytest.mark.usefixtures("echo")
async def test_what_came_in_time_is_returned(nats_url: str) -> None:
    found = await ask(nats_url, Request("echo.late", b"a"), Request("echo.last", b"b"), within=2.0)

    assert found == [None, b"b"]


@pytest.mark.usefixtures("echo")
async def test_nothing_in_time_is_an_error(nats_url: str) -> None:
    with pytest.raises(BusTimeoutError):
        await ask(nats_url, Request("echo.late", b"a"), within=0.5)


async def test_where_nobody_serves_nobody_is_waited_for(nats_url: str) -> None:
    with pytest.raises(NoRespondersError):
        await ask(nats_url, Request("nobody.here", b""))


async def test_where_no_server_is_that_is_said_without_the_password() -> None:
    with pytest.raises(StackNotRunningError) as raised:
        await ask("nats://ada:secret@127.0.0.1:1", Request("echo.a", b""))

    assert "secret" not in str(raised.value)


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[str]:
    """The address, without a password, of a server that asks for one."""
    config = tmp_path / "server.conf"
    config.write_text(
        f'listen: "127.0.0.1:-1"\nports_file_dir: "{tmp_path}"\n'
        'authorization { user: "ada", password: "a/b" }\n'
    )
    server = await asyncio.create_subprocess_exec(find_server(), "-c", config, stderr=DEVNULL)
    ports = tmp_path / f"nats-server_{server.pid}.ports"
    await eventually(lambda: ports.exists() and ports.read_text().endswith("}"), within=LONG)
    yield str(json.loads(ports.read_text())["nats"][0]).removeprefix("nats://")
    server.terminate()
    await server.wait()


async def test_a_server_that_asks_for_a_password_gets_it(guarded: str) -> None:
    with pytest.raises(NoRespondersError):
        await ask(f"nats://ada:a%2Fb@{guarded}", Request("echo.a", b""))


@pytest.mark.parametrize("who", ["", "ada:wrong@"])
async def test_who_is_refused_is_told_so(who: str, guarded: str) -> None:
    with pytest.raises(BusError, match=r"Authorization Violation|connection was lost"):
        await ask(f"nats://{who}{guarded}", Request("echo.a", b""))
