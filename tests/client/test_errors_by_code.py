"""Every error code of the protocol is raised as an exception of the one tree."""

from typing import get_args

import pytest
from msgspec import Struct

import local2
from factories import ConnectBus
from local2 import errors
from local2.bus.connection import BusMessage
from local2.bus.participant import Participant
from local2.bus.tool_host import ToolHost
from local2.errors import CODES, ErrorCode, Local2Error, error_from_code
from local2.protocol.items import ItemKey
from local2.protocol.memory_tools import Arguments, MemoryTool
from note_tool import Notes

CODES_AND_ERRORS = {
    "bad_request": local2.BadRequestError,
    "invalid_arguments": local2.InvalidArgumentsError,
    "invalid_configuration": local2.ConfigError,
    "unknown_tool": local2.UnknownToolError,
    "too_large": local2.TooLargeError,
    "deadline_exceeded": local2.DeadlineError,
    "cancelled": local2.CancelledCallError,
    "forbidden": local2.ForbiddenError,
    "unavailable": local2.UnavailableError,
    "overloaded": local2.OverloadedError,
    "quota_exceeded": local2.QuotaError,
    "embedder_mismatch": local2.EmbedderMismatchError,
    "index_damaged": local2.IndexDamagedError,
    "tool_failed": local2.ToolFailedError,
    "internal": local2.Local2Error,
}


def test_the_table_has_every_code() -> None:
    assert set(CODES_AND_ERRORS) == set(get_args(ErrorCode)) == set(CODES)


def test_an_unknown_code_is_a_failure_of_the_tool() -> None:
    assert type(error_from_code("teapot", "It is one.")) is local2.ToolFailedError


def every_error(kind: type[Local2Error] = Local2Error) -> list[type[Local2Error]]:
    """Return the classes of the public tree; some modules derive private ones."""
    descendants = (one for child in kind.__subclasses__() for one in every_error(child))
    return [kind, *(one for one in descendants if one.__module__ == errors.__name__)]


@pytest.mark.parametrize("kind", every_error())
def test_the_exception_of_a_code_is_related_to_every_error_with_that_code(
    kind: type[Local2Error],
) -> None:
    """Callers receive the class of the code, not the class raised inside the stack."""
    received = type(error_from_code(kind.code, ""))

    assert issubclass(kind, received) or issubclass(received, kind)


async def test_an_error_of_a_tool_is_raised_with_its_class_and_message(
    connect_bus: ConnectBus, nats_url: str
) -> None:
    notes = Notes()
    async with (
        ToolHost(await connect_bus(), notes.tool()),
        local2.connect(url=nats_url) as memory,
    ):
        for code in CODES:
            if code == "internal":
                continue
            notes.failure = error_from_code(code, f"It fails as {code}.", 1.5)
            with pytest.raises(Local2Error) as caught:
                await memory.call("note", text="hello")

            assert type(caught.value) is CODES_AND_ERRORS[code]
            assert caught.value.message == f"It fails as {code}."
            assert caught.value.retry_after == 1.5


class Text(Arguments, frozen=True):
    text: str


OTHER_NOTE = MemoryTool(
    name="note",
    description="Note.",
    args=Text,
    answer=local2.SessionNotes,
    role="reader",
)


async def test_an_answer_of_another_form_is_an_error(
    connect_bus: ConnectBus, nats_url: str
) -> None:
    """The tool `note` of these tests returns data of another form than the memory's."""
    async with (
        ToolHost(await connect_bus(), Notes().tool()),
        local2.connect(url=nats_url) as memory,
    ):
        with pytest.raises(local2.InvalidArgumentsError):
            await memory.note("hello")
        with pytest.raises(local2.ToolFailedError, match="data of another form"):
            await memory._calls.ask(OTHER_NOTE, Text(text="hello"))


async def test_an_overloaded_service_names_the_time_to_retry_once(
    connect_bus: ConnectBus, nats_url: str
) -> None:
    async def refuse(_: BusMessage) -> Struct:
        raise local2.OverloadedError(retry_after=2.5)

    service = Participant(await connect_bus(), name="service", description="Has too much to do.")
    service.answer("memory.items.get", refuse)
    async with service, local2.connect(url=nats_url) as memory:
        with pytest.raises(local2.OverloadedError) as caught:
            await memory.items("test").get([ItemKey(namespace=(), key="a")])

    assert caught.value.retry_after == 2.5
    assert str(caught.value) == str(local2.OverloadedError(retry_after=2.5))
