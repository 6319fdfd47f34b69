"""A flood is refused at once, and neither side of the bus loses its connection.

The environment variable FLOOD sets the number of 870 kB messages (400 in the field).
"""

import asyncio
import json
import os

import pytest
from nats.aio.subscription import Subscription as NatsSubscription

from local2.admission import Admission
from local2.bus.connection import BusMessage, Connection, connect
from local2.bus.nats_client import MESSAGES_BEFORE_YIELD
from local2.bus.streams import (
    UNACKNOWLEDGED_BYTES,
    acknowledge,
    ensure_streams,
    restart_turns_consumer,
    turns_stream,
)
from local2.bus.tool_host import ToolHost
from local2.protocol.envelope import decode
from local2.protocol.payloads import ToolResult
from local2.settings import LimitSettings
from note_tool import Notes
from waiting import eventually

MESSAGES = int(os.environ.get("FLOOD", "60"))
LARGE = "x" * 870_000
PATIENCE = 60.0
SMALL = 20 * MESSAGES_BEFORE_YIELD


@pytest.fixture
def bus(bus_with_streams: Connection) -> Connection:
    return bus_with_streams


def _request(number: int) -> bytes:
    """Return a large request: the host ignores `padding`, but the bus carries it."""
    return json.dumps(
        {"id": f"{number}", "user": "eve", "padding": LARGE, "payload": {"args": {"text": "x"}}}
    ).encode()


@pytest.mark.timeout(180)
async def test_requests_over_the_limit_are_refused_at_once_and_the_others_answered(
    bus: Connection, notes: Notes
) -> None:
    notes.may_finish.clear()
    codes: list[str] = []

    async def collect(message: BusMessage) -> None:
        error = decode(message.data, ToolResult).payload.error
        codes.append(error.code if error else "ok")

    async with (
        ToolHost(
            bus, notes.tool(), admission=Admission(LimitSettings(requests=4, user_requests=3))
        ),
        connect(bus.url, name="flooding") as flooding,
    ):
        inbox = flooding.client.new_inbox()
        await flooding.subscribe(inbox, collect)
        for number in range(MESSAGES):
            await flooding.publish("tool.request.note", _request(number), reply=inbox)
        admitted = 32 * 1024 * 1024 // len(_request(0))
        await eventually(lambda: len(codes) >= MESSAGES - admitted, within=PATIENCE)
        assert set(codes) == {"overloaded"}
        notes.may_finish.set()
        await eventually(lambda: len(codes) == MESSAGES, within=PATIENCE)

        assert codes.count("ok") == admitted
        assert (bus.client.stats["reconnects"], flooding.client.stats["reconnects"]) == (0, 0)


@pytest.mark.timeout(180)
async def test_a_backlog_of_turns_is_handled_completely_a_few_at_a_time(
    bus: Connection,
) -> None:
    for number in range(MESSAGES):
        turn = json.dumps({"number": number, "padding": LARGE}).encode()
        await bus.client.jetstream().publish("response.generation", turn)
    may_finish = asyncio.Event()
    begun: set[int] = set()
    done: set[int] = set()

    async def take(message: BusMessage) -> None:
        number = json.loads(message.data)["number"]
        begun.add(number)
        await may_finish.wait()
        await acknowledge(bus, message)
        done.add(number)

    await bus.subscribe(
        await restart_turns_consumer(bus, "reader", "default"), take, queue="reader"
    )
    expected_unacknowledged = UNACKNOWLEDGED_BYTES // bus.client.max_payload
    await eventually(lambda: len(begun) == expected_unacknowledged)
    info = await bus.client.jetstream().consumer_info(turns_stream("default"), "reader")
    assert (info.num_ack_pending, info.num_pending) == (
        expected_unacknowledged,
        MESSAGES - expected_unacknowledged,
    )
    may_finish.set()

    await eventually(lambda: len(done) == MESSAGES, within=PATIENCE)
    assert bus.client.stats["reconnects"] == 0


async def test_a_consumer_of_an_older_version_is_limited_too(bus: Connection) -> None:
    await restart_turns_consumer(bus, "reader", "default")
    stream = turns_stream("default")
    config = (await bus.client.jetstream().consumer_info(stream, "reader")).config
    config.max_ack_pending = 1000
    await bus.client.jetstream().add_consumer(stream, config)

    await ensure_streams(bus, "default")
    await restart_turns_consumer(bus, "reader", "default")

    info = await bus.client.jetstream().consumer_info(stream, "reader")
    assert info.config.max_ack_pending == UNACKNOWLEDGED_BYTES // bus.client.max_payload


async def test_reading_many_messages_does_not_block_the_event_loop(bus: Connection) -> None:
    received = turns = 0

    async def receive(_: BusMessage) -> None:
        nonlocal received
        received += 1

    async def run_alongside() -> None:
        nonlocal turns
        while received < SMALL:
            turns += 1
            await asyncio.sleep(0)

    subscription = await bus.subscribe("flood.small", receive)
    source = subscription._source
    assert isinstance(source, NatsSubscription)
    alongside = asyncio.create_task(run_alongside())

    await bus.client._ps.parse(b"MSG flood.small %d 1\r\nx\r\n" % source._id * SMALL)
    await alongside

    assert turns >= SMALL // MESSAGES_BEFORE_YIELD
