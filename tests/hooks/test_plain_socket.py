"""Requests over a plain socket to a real NATS server return answers in order and in time."""

import asyncio
from collections.abc import Iterator

import pytest

from factories import ConnectBus
from local2.bus.connection import BusMessage
from local2.errors import BusError, BusTimeoutError, NoRespondersError, StackNotRunningError
from local2.hooks.wire import Wire, WireRequest
from nats_servers import nats_server

LONG = 60.0


async def ask(url: str, *requests: WireRequest, within: float = LONG) -> list[bytes | None]:
    def send_and_wait() -> list[bytes | None]:
        with Wire(url, None, within=within) as wire:
            return wire.ask(requests)

    return await asyncio.to_thread(send_and_wait)


@pytest.fixture
async def echo(connect_bus: ConnectBus) -> None:
    """Echo requests on `echo.*` in reverse order, but never answer `echo.late`."""
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
async def test_answers_are_returned_in_the_order_of_the_requests(nats_url: str) -> None:
    large = b"x" * 500_000
    requests = (
        WireRequest("echo.a", b"a"),
        WireRequest("echo.b", large),
        WireRequest("echo.last", b"\r\n"),
    )

    assert await ask(nats_url, *requests) == [b"a", large, b"\r\n"]


@pytest.mark.usefixtures("echo")
async def test_answers_that_arrive_in_time_are_returned(nats_url: str) -> None:
    found = await ask(
        nats_url, WireRequest("echo.late", b"a"), WireRequest("echo.last", b"b"), within=2.0
    )

    assert found == [None, b"b"]


@pytest.mark.usefixtures("echo")
async def test_no_answer_in_time_is_an_error(nats_url: str) -> None:
    with pytest.raises(BusTimeoutError):
        await ask(nats_url, WireRequest("echo.late", b"a"), within=0.5)


async def test_a_request_without_a_responder_fails_at_once(nats_url: str) -> None:
    with pytest.raises(NoRespondersError):
        await ask(nats_url, WireRequest("nobody.here", b""))


async def test_a_missing_server_is_reported_without_the_password() -> None:
    with pytest.raises(StackNotRunningError) as raised:
        await ask("nats://ada:secret@127.0.0.1:1", WireRequest("echo.a", b""))

    assert "secret" not in str(raised.value)


@pytest.fixture(scope="module")
def server_with_password(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a server that requires a password, without the password."""
    asks = 'authorization { user: "ada", password: "a/b" }'
    with nats_server(tmp_path_factory.mktemp("nats"), asks) as url:
        yield url.removeprefix("nats://")


async def test_the_password_in_the_address_is_sent_to_the_server(server_with_password: str) -> None:
    with pytest.raises(NoRespondersError):
        await ask(f"nats://ada:a%2Fb@{server_with_password}", WireRequest("echo.a", b""))


@pytest.mark.parametrize("user_info", ["", "ada:wrong@"])
async def test_wrong_credentials_are_an_error(user_info: str, server_with_password: str) -> None:
    with pytest.raises(BusError, match=r"Authorization Violation|connection was lost"):
        await ask(f"nats://{user_info}{server_with_password}", WireRequest("echo.a", b""))
