"""JetStream: the turns and ratings that must not be lost, and the letters nobody could read.

A tenant has a stream of its own, since deduplication by `Nats-Msg-Id` spans a whole stream. Turns
stay in it until the MemoryAgent has committed them to the ledger, for however long that takes.
"""

from datetime import datetime
from typing import NamedTuple

import nats.errors
import nats.js.errors
import structlog
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig

from local.bus.connection import Connection, Headers, Message
from local.errors import BusError
from local.protocol import subjects

DUPLICATE_WINDOW = 120.0
ACK_WAIT = 30.0
UNACKNOWLEDGED_BYTES = 4 * 1024 * 1024
"""Of turns on their way, behind which everybody else's requests wait."""
RETRY_DELAY = 1.0
PUBLISH_TIMEOUT = 5.0
DEAD_LETTER_AGE = 30 * 24 * 3600.0
DEAD_LETTER_BYTES = 64 * 1024 * 1024
LEAST_FREE = 100
"""Megabytes: JetStream lays claim to the above, and to three quarters of what is free at most."""
NO_STORAGE = 10047
"""JetStream's code where a stream's share is not there."""

log = structlog.get_logger()


def turns_stream(tenant: str) -> str:
    return f"local2-turns-{tenant}"


def dead_letters_stream(tenant: str) -> str:
    return f"local2-dead-letters-{tenant}"


class Stored(NamedTuple):
    """What a stream knows of a message that it delivers."""

    sequence: int
    at: datetime
    deliveries: int
    """This one included."""


async def ensure_streams(bus: Connection, tenant: str = "default") -> None:
    """Create the tenant's streams, or bring those of an earlier version up to date.

    Raises:
        BusError: The server has no JetStream, or refuses the streams.
    """
    turns = StreamConfig(
        name=turns_stream(tenant),
        subjects=[
            subjects.RESPONSE_GENERATION,
            subjects.RESPONSE_FEEDBACK,
            subjects.MEMORY_TURN,
            subjects.MEMORY_PROBE,
        ],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
        duplicate_window=DUPLICATE_WINDOW,
    )
    dead_letters = StreamConfig(
        name=dead_letters_stream(tenant),
        subjects=[subjects.MEMORY_DEAD_LETTER],
        storage=StorageType.FILE,
        max_age=DEAD_LETTER_AGE,
        max_bytes=DEAD_LETTER_BYTES,
    )
    try:
        for stream in (turns, dead_letters):
            await _ensure_stream(bus, stream)
    except (nats.js.errors.Error, nats.errors.Error, TimeoutError) as error:
        if isinstance(error, nats.js.errors.APIError) and error.err_code == NO_STORAGE:
            raise BusError(
                f"JetStream at {bus.url} has no room for its streams.",
                remedy=f"Make room on its disk: at least {LEAST_FREE} MB must be free.",
            ) from error
        raise BusError(
            f"The NATS server at {bus.url} refuses JetStream: {error}.",
            remedy="Start it with `jetstream { … }`, or leave `url` empty for the embedded one.",
        ) from error


async def _ensure_stream(bus: Connection, stream: StreamConfig) -> None:
    jetstream = bus.client.jetstream()
    try:
        await jetstream.update_stream(stream)
    except nats.js.errors.NotFoundError:
        await jetstream.add_stream(stream)


async def publish_durably(
    bus: Connection,
    subject: str,
    data: bytes,
    *,
    message_id: str | None = None,
    timeout: float = PUBLISH_TIMEOUT,  # noqa: ASYNC109 - it is the caller's to choose
) -> None:
    """Publish into a stream; returns once the server has it on disk.

    Args:
        bus: The connection to publish over.
        subject: One of a stream's subjects.
        data: The encoded envelope.
        message_id: Within two minutes a second message of the same id is dropped by the server.
        timeout: Seconds to wait for the acknowledgement.

    Raises:
        BusError: No acknowledgement came: it may or may not be stored. Send it again.
    """
    headers: Headers | None = {"Nats-Msg-Id": message_id} if message_id else None
    bus.check_size(data, headers)
    try:
        acknowledgement = await bus.client.jetstream().publish(
            subject, data, timeout=timeout, headers=headers
        )
    except (nats.js.errors.Error, nats.errors.Error, TimeoutError) as error:
        raise BusError(f"{subject} was not acknowledged by JetStream: {error!r}.") from error
    if acknowledgement.duplicate:
        log.warning("duplicate_dropped", subject=subject, message_id=message_id)


async def ensure_turns_consumer(bus: Connection, name: str, tenant: str = "default") -> str:
    """Create the durable consumer of a tenant's turns; returns the subject it delivers to.

    A push consumer, because a pull stalls over a server's restart. So few messages are under way
    that there is room for them even if each is as large as the bus carries. Every message comes
    again until `acknowledge` is called for it.
    """
    deliver_subject = f"local2.deliver.{name}.{tenant}"
    consumer = ConsumerConfig(
        durable_name=name,
        deliver_subject=deliver_subject,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=ACK_WAIT,
        max_ack_pending=max(1, UNACKNOWLEDGED_BYTES // bus.client.max_payload),
    )
    try:
        await bus.client.jetstream().add_consumer(turns_stream(tenant), consumer)
    except (nats.js.errors.Error, nats.errors.Error, TimeoutError) as error:
        raise BusError(f"JetStream refuses the consumer {name}: {error}.") from error
    return deliver_subject


def stored(bus: Connection, message: Message) -> Stored | None:
    """When the stream took a message that it delivers; None if it does not come from one."""
    try:
        metadata = Msg(bus.client, reply=message.reply).metadata
    except nats.errors.NotJSMessageError:
        return None
    return Stored(
        sequence=metadata.sequence.stream,
        at=metadata.timestamp,
        deliveries=metadata.num_delivered,
    )


async def acknowledge(bus: Connection, message: Message) -> None:
    """Tell JetStream that the message is done with."""
    await bus.publish(message.reply, b"+ACK")


async def ask_again(bus: Connection, message: Message) -> None:
    """Tell JetStream to deliver the message once more, in a second."""
    await bus.publish(message.reply, b'-NAK {"delay": %d}' % int(RETRY_DELAY * 1e9))
