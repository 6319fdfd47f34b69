"""Whoever asks a participant is answered, also when it fails, and the statistics count it."""

from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from local.bus.connection import BusMessage, Connection
from local.bus.participant import Participant
from local.client.access import ask
from local.errors import BusError, InvalidArgumentsError, Local2Error, TooLargeError
from local.protocol import subjects
from local.protocol.envelope import decode

SUBJECT = "test.greeting"
REMEMBERED = "what somebody remembers"


class Greeting(msgspec.Struct):
    text: str


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
    async def asked(name: str) -> str:
        return (await ask(bus, SUBJECT, Greeting(text=name), Greeting)).text

    async with Greeter(bus):
        yield asked


async def failures(bus: Connection) -> tuple[int, str]:
    """How many failures the statistics name, and the last one's code."""
    answer = await bus.request(subjects.discovery("STATS", "greeter"), b"")
    [endpoint] = msgspec.json.decode(answer.data)["endpoints"]
    return endpoint.get("num_errors", 0), endpoint.get("last_error", "")


async def test_a_payload_is_the_answer(bus: Connection, greet: Greet) -> None:
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
async def test_an_error_is_an_answer_that_is_counted(
    bus: Connection, greet: Greet, name: str, error: type[Local2Error], code: str
) -> None:
    with pytest.raises(error) as raised:
        await greet(name)

    assert REMEMBERED not in str(raised.value)
    assert await failures(bus) == (1, code)
    assert await greet("Ada") == "Hello Ada!", "it goes on"


@pytest.mark.usefixtures("greet")
async def test_an_error_stands_in_the_headers_of_nats_services_too(bus: Connection) -> None:
    refused = await bus.request(SUBJECT, b'{"payload": {"text": ""}}')

    assert refused.headers == {
        "Nats-Service-Error": "text: a name is needed.",
        "Nats-Service-Error-Code": "invalid_arguments",
    }
