"""An unreadable message does not keep other requests from being answered."""

import pytest

from fuzz.wire import NO_RESPONDERS, wired
from local2.bus.connection import BusMessage, Connection
from local2.bus.tool_host import ToolHost
from local2.protocol.payloads import MAX_HEADER
from note_tool import Notes

REQUEST = b'{"payload": {"args": {"text": "x"}}}'
SUBJECT = b"tool.request.note"
NOT_UTF_8 = b"\xff\xfe\xff"


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(b"NATS/1.0 \xff\xff\xff\r\n\r\n", id="a status that is not UTF-8"),
        pytest.param(b"NATS/1.0 200 \xff\r\n\r\n", id="a description that is not UTF-8"),
        pytest.param(b"\0", id="one byte"),
        pytest.param(b"NATS/1.0", id="no end"),
    ],
)
async def test_a_request_with_unreadable_headers_is_answered_as_if_it_had_none(
    bus: Connection, notes: Notes, headers: bytes
) -> None:
    async with ToolHost(bus, notes.tool()), wired(bus.url) as wire:
        first = await wire.request(SUBJECT, REQUEST, headers)
        after = await wire.request(SUBJECT, REQUEST)

        assert await wire.answered(0, within=10)
        assert [b'"ok":true' in wire.answers[one][0].data for one in (first, after)] == [True, True]


@pytest.mark.parametrize(
    ("subject", "reply"),
    [
        pytest.param(b"unreadable." + NOT_UTF_8, b"", id="subject"),
        pytest.param(SUBJECT, NOT_UTF_8, id="reply"),
    ],
)
async def test_a_message_with_an_unreadable_subject_or_reply_is_dropped(
    bus: Connection, notes: Notes, subject: bytes, reply: bytes
) -> None:
    async def fail(_: BusMessage) -> None:
        raise AssertionError

    await bus.subscribe("unreadable.*", fail)
    async with ToolHost(bus, notes.tool()), wired(bus.url) as wire:
        await wire.send(subject, REQUEST, reply=reply)
        number = await wire.request(SUBJECT, REQUEST)

        assert await wire.answered(0, within=10)
        (answer,) = wire.answers[number]
        assert b'"ok":true' in answer.data


async def test_a_request_that_nobody_serves_is_answered_by_the_server(bus: Connection) -> None:
    async with wired(bus.url) as wire:
        number = await wire.request(b"tool.request.nobody", REQUEST)

        assert await wire.answered(0, within=10)
        assert wire.answers[number][0].headers.startswith(NO_RESPONDERS)


async def test_a_trace_too_long_for_the_bus_is_cut_in_the_answer(
    bus: Connection, notes: Notes
) -> None:
    """If it were returned whole, no answer would fit, not even an error."""
    trace = b"0" * (bus.client.max_payload - 1_000)
    async with ToolHost(bus, notes.tool()), wired(bus.url) as wire:
        headers = b"NATS/1.0\r\ntraceparent: " + trace + b"\r\n\r\n"
        number = await wire.request(SUBJECT, REQUEST, headers)

        assert await wire.answered(0, within=10)
        (answer,) = wire.answers[number]
        assert b"traceparent: " + b"0" * MAX_HEADER + b"\r\n" in answer.headers
