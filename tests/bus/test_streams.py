"""JetStream stores each message once and keeps it until a consumer acknowledges it."""

from pathlib import Path

import pytest
from nats.js.api import RetentionPolicy, StreamConfig

from local2.bus import streams
from local2.bus.connection import BusMessage, Connection, Handler, Subscription, connect
from local2.bus.lease import Holder, Lease
from local2.bus.streams import (
    acknowledge,
    ensure_streams,
    many_at_a_time,
    publish_durably,
    request_redelivery,
    restart_turns_consumer,
    turns_stream,
)
from local2.errors import BusError
from nats_servers import nats_server
from turns import all_done, in_stream
from waiting import eventually


@pytest.fixture
def bus(bus_with_streams: Connection) -> Connection:
    return bus_with_streams


async def read_with(bus: Connection, handler: Handler) -> Subscription:
    """Pass the turns to a handler, over a new consumer."""
    delivery = await restart_turns_consumer(bus, "reader", "default")
    return await bus.subscribe(delivery, handler, queue="reader")


async def test_a_repeated_message_id_is_stored_once(bus: Connection) -> None:
    for _ in range(3):
        await publish_durably(bus, "response.generation", b"turn", message_id="q1")
    await publish_durably(bus, "response.generation", b"turn", message_id="q2")

    assert await in_stream(bus) == 2


async def test_messages_wait_for_a_consumer_and_are_removed_once_acknowledged(
    bus: Connection,
) -> None:
    for number in range(20):
        await publish_durably(bus, "response.generation", b"%d" % number)
    seen: list[bytes] = []

    async def collect(message: BusMessage) -> None:
        seen.append(message.data)
        await acknowledge(bus, message)

    await read_with(bus, collect)

    await eventually(lambda: len(seen) == 20)
    assert sorted(seen, key=int) == [b"%d" % n for n in range(20)]
    await all_done(bus)


async def test_messages_whose_consumer_died_are_delivered_again_at_once(
    bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits until the time for their acknowledgement has passed."""
    monkeypatch.setattr(streams, "ACK_WAIT", 3600.0)
    seen: list[bytes] = []

    async def die(message: BusMessage) -> None:
        seen.append(message.data)
        raise ConnectionError("died before the acknowledgement")

    async def collect(message: BusMessage) -> None:
        seen.append(message.data)
        await acknowledge(bus, message)

    first = await read_with(bus, die)
    turns = [b"%d" % number for number in range(20)]
    for turn in turns:
        await publish_durably(bus, "response.generation", turn)
    await eventually(lambda: len(seen) >= 1)
    await first.stop(grace=1)
    seen.clear()
    await read_with(bus, collect)

    await eventually(lambda: sorted(seen, key=int) == turns)
    await all_done(bus)


async def test_small_turns_are_delivered_many_at_a_time_where_that_is_asked_for(
    bus: Connection,
) -> None:
    seen: list[bytes] = []

    async def hold(message: BusMessage) -> None:
        seen.append(message.data)

    async def at_a_time() -> int:
        info = await bus.client.jsm().consumer_info(turns_stream("default"), "reader")
        return int(info.config.max_ack_pending)

    await read_with(bus, hold)
    usual = await at_a_time()
    for number in range(20):
        await publish_durably(bus, "response.generation", b"%d" % number)
    assert usual < 20

    async with many_at_a_time(bus, "reader", "default"):
        await eventually(lambda: len(seen) == 20)

    assert await at_a_time() == usual


async def test_a_refused_message_is_redelivered_soon(
    bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "RETRY_DELAY", 0.05)
    seen: list[bytes] = []

    async def refuse_once(message: BusMessage) -> None:
        seen.append(message.data)
        await (request_redelivery if len(seen) == 1 else acknowledge)(bus, message)

    await read_with(bus, refuse_once)
    await publish_durably(bus, "response.generation", b"turn")

    await eventually(lambda: len(seen) == 2)


async def test_creating_streams_and_consumers_again_changes_nothing(bus: Connection) -> None:
    await publish_durably(bus, "response.feedback", b"rating")
    for _ in range(2):
        await ensure_streams(bus, "default")
        await restart_turns_consumer(bus, "reader", "default")

    assert await in_stream(bus) == 1


async def test_publishing_to_a_subject_without_a_stream_is_an_error(bus: Connection) -> None:
    with pytest.raises(BusError, match="was not acknowledged"):
        await publish_durably(bus, "response.elsewhere", b"turn")


async def test_a_disk_without_room_for_the_streams_is_a_clear_error(tmp_path: Path) -> None:
    """JetStream's limit is three quarters of the free space; 60 MB simulates 80 MB free."""
    small = f'jetstream {{ store_dir: "{tmp_path}", max_file_store: 60M }}'
    with nats_server(tmp_path, small) as url:
        async with connect(url, name="test") as bus:
            with pytest.raises(BusError, match="not have enough disk space") as refused:
                await ensure_streams(bus, "default")

    assert "at least 100 MB" in str(refused.value.remedy)


async def test_streams_of_an_earlier_version_are_given_the_new_subjects(bus: Connection) -> None:
    await bus.client.jetstream().delete_stream(turns_stream("default"))
    earlier = ["response.generation", "response.feedback"]
    await bus.client.jetstream().add_stream(
        StreamConfig(
            name=turns_stream("default"), subjects=earlier, retention=RetentionPolicy.WORK_QUEUE
        )
    )
    await publish_durably(bus, "response.generation", b"turn")

    await ensure_streams(bus, "default")
    await publish_durably(bus, "memory.turn", b"turn")

    assert await in_stream(bus) == 2


async def test_a_server_without_jetstream_is_a_clear_error(tmp_path: Path) -> None:
    with nats_server(tmp_path) as url:
        async with connect(url, name="test") as bus:
            with pytest.raises(BusError, match="refuses JetStream"):
                await ensure_streams(bus, "default")
            with pytest.raises(BusError, match="grants no lease") as caught:
                await Lease(bus, Holder.for_folder(tmp_path), in_memory=False).acquire()
            assert "It needs JetStream" in str(caught.value)
