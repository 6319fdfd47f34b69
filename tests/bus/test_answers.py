"""A participant answers every query, also when it fails, and its statistics count failures."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from factories import ConnectBus
from local2.bus.connection import BusMessage, Connection
from local2.bus.participant import Participant
from local2.client.access import ask_service, await_while_connected
from local2.errors import (
    BusError,
    InvalidArgumentsError,
    Local2Error,
    StackNotRunningError,
    TooLargeError,
)
from local2.protocol import subjects
from local2.protocol.envelope import decode
from local2.protocol.services import ServiceDeclaration

SUBJECT = "test.greeting"
REMEMBERED = "what somebody remembers"


class Greeting(msgspec.Struct):
    text: str


GREETING = ServiceDeclaration(
    subject=SUBJECT, title="Greet by name", request=Greeting, answer=Greeting
)


class Greeter(Participant):
    def __init__(self, bus: Connection) -> None:
        super().__init__(bus, name="greeter", description="Greets.")
        self.answer(SUBJECT, self._greet)

    async def _greet(self, message: BusMessage) -> Greeting:
        match decode(message.data, Greeting).payload.text:
            case "":
                raise InvalidArgumentsError("text: a name is needed.")
            case "crowd":
                return Greeting(text="Hello! " * self.bus.client.max_payload)
            case "nobody":
                raise KeyError(REMEMBERED)
            case name:
                return Greeting(text=f"Hello {name}!")


Greet = Callable[[str], Awaitable[str]]


@pytest.fixture
async def greet(bus: Connection) -> AsyncIterator[Greet]:
    async def greet_by_name(name: str) -> str:
        return (await ask_service(bus, GREETING, Greeting(text=name))).text

    async with Greeter(bus):
        yield greet_by_name


@pytest.mark.parametrize("reads_only", [True, False])
async def test_a_request_outlasts_a_moment_without_its_service(
    bus: Connection, connect_bus: ConnectBus, refused: asyncio.Event, *, reads_only: bool
) -> None:
    service = msgspec.structs.replace(GREETING, reads_only=reads_only)
    serving = await connect_bus()
    async with Greeter(serving):
        await ask_service(bus, service, Greeting(text="Ada"))
    await serving.flush()
    asking = asyncio.create_task(ask_service(bus, service, Greeting(text="Ada")))
    await refused.wait()
    async with Greeter(serving):
        assert (await asking).text == "Hello Ada!"


async def failures(bus: Connection) -> tuple[int, str]:
    """Return the number of failures in the statistics, and the code of the last one."""
    answer = await bus.request(subjects.discovery("STATS", "greeter"), b"")
    [endpoint] = msgspec.json.decode(answer.data)["endpoints"]
    return endpoint.get("num_errors", 0), endpoint.get("last_error", "")


async def test_the_answer_carries_the_returned_payload(bus: Connection, greet: Greet) -> None:
    assert await greet("Ada") == "Hello Ada!"
    assert await failures(bus) == (0, "")


@pytest.mark.parametrize(
    ("name", "error", "code"),
    [
        pytest.param("", InvalidArgumentsError, "invalid_arguments", id="refused"),
        pytest.param("crowd", TooLargeError, "too_large", id="larger than the bus carries"),
        pytest.param("nobody", BusError, "internal", id="a fault"),
    ],
)
async def test_an_error_is_answered_and_counted(
    bus: Connection, greet: Greet, name: str, error: type[Local2Error], code: str
) -> None:
    with pytest.raises(error) as raised:
        await greet(name)

    assert REMEMBERED not in str(raised.value)
    assert await failures(bus) == (1, code)
    assert await greet("Ada") == "Hello Ada!", "the participant goes on answering"


@pytest.mark.usefixtures("greet")
async def test_an_error_is_also_in_the_headers_of_nats_services(bus: Connection) -> None:
    refused = await bus.request(SUBJECT, b'{"payload": {"text": ""}}')

    assert refused.headers == {
        "Nats-Service-Error": "text: a name is needed.",
        "Nats-Service-Error-Code": "invalid_arguments",
    }


async def test_a_request_over_a_lost_connection_fails_at_once(connect_bus: ConnectBus) -> None:
    """It would wait for an answer until its timeout, even after the connection was replaced."""
    bus = await connect_bus()
    bus.lost.set()

    with pytest.raises(StackNotRunningError, match="The memory stopped"):
        await await_while_connected(bus, bus.request(SUBJECT, b""))
