"""The JetStream streams of a tenant: one for turns and ratings, one for dead letters.

Turns and ratings must not be lost, so they stay in their stream until the MemoryAgent has committed
them to the ledger. Dead letters are messages that could not be read; they stay until an admin
drops them, or until they expire. Each tenant has its own streams, because deduplication by
`Nats-Msg-Id` spans a whole stream (decision 0001).
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from typing import NamedTuple

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.msg import Msg
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)

from local2.bus.connection import BusMessage, Connection, Headers
from local2.errors import BusError, TooLargeError, abridged
from local2.logs import get_logger
from local2.protocol import subjects
from local2.protocol.envelope import encode, seal
from local2.protocol.payloads import DeadLetter

DUPLICATE_WINDOW = 120.0
"""Seconds in which the server drops another message with the same id. It covers a sender that
retries after a restart; the server keeps every id for that long."""
ACK_WAIT = 30.0
"""Seconds until an unacknowledged turn is delivered again. The maximum of `turn_timeout` is below
it, so that no turn is delivered twice while it is being stored."""
UNACKNOWLEDGED_BYTES = 4 * 1024 * 1024
"""Maximum bytes of delivered, unacknowledged turns: requests queue behind them on the same
connection (decision 0001)."""
SMALL_TURNS = 64
"""Maximum number of unacknowledged turns while all that wait fit into UNACKNOWLEDGED_BYTES: they
are committed together."""
RETRY_DELAY = 1.0
"""Seconds until JetStream redelivers a turn that could not be stored: a busy disk needs a pause,
but a turn should not be missing for long."""
PUBLISH_TIMEOUT = 5.0
"""Seconds to wait for JetStream's acknowledgement, which includes a sync of the disk."""
DEAD_LETTER_AGE = 30 * 24 * 3600.0
"""Seconds (a month) until dead letters expire: time to notice and fix a sender, without storing
other people's text indefinitely."""
DEAD_LETTER_BYTES = 64 * 1024 * 1024
"""Maximum bytes of a tenant's dead letters. JetStream reserves them when it creates the stream, so
a higher value would raise MIN_FREE_MB."""
WITHHELD_REASON = "Only those who run the memory may read the message and the reason."
"""With accounts, all agents of a tenant are notified of a dead letter with this text."""
MIN_FREE_MB = 100
"""Megabytes of free disk space that a start needs: JetStream uses at most three quarters of the
free space, and DEAD_LETTER_BYTES must fit (decision 0002)."""
INSUFFICIENT_STORAGE = 10047
"""JetStream's error code when it cannot reserve the bytes of a stream."""

log = get_logger()


def turns_stream(tenant: str) -> str:
    return f"local2-turns-{tenant}"


def dead_letters_stream(tenant: str) -> str:
    return f"local2-dead-letters-{tenant}"


def _dead_letters_subject(bus: Connection, tenant: str) -> str:
    """Return the subject that stores dead letters; with accounts, one that no agent can receive."""
    return subjects.dead_letters_of(tenant) if bus.by_tenant else subjects.MEMORY_DEAD_LETTER


class Delivery(NamedTuple):
    """A stream's metadata of a delivered message; `at` is when the stream stored it."""

    sequence: int
    at: datetime
    deliveries: int
    """The number of deliveries so far, including this one."""


def delivery_subject(name: str) -> str:
    """Return the subject to which the durable consumers of all tenants deliver turns.

    It has no wildcard, because a consumer does not notice subscriptions with one.
    """
    return f"local2.deliver.{name}"


async def ensure_streams(bus: Connection, tenant: str) -> None:
    """Create the tenant's streams, or update those that an earlier version created.

    Raises:
        BusError: The server has no JetStream, or refuses the streams.
    """
    try:
        for stream in _streams_of(bus, tenant):
            await _ensure_stream(bus, stream)
    except (nats.js.errors.Error, nats.errors.Error, TimeoutError) as error:
        if isinstance(error, nats.js.errors.APIError) and error.err_code == INSUFFICIENT_STORAGE:
            raise BusError(
                f"JetStream at {bus.url} does not have enough disk space for its streams.",
                remedy=f"Free space on its disk: it needs at least {MIN_FREE_MB} MB.",
            ) from error
        raise BusError(
            f"The NATS server at {bus.url} refuses JetStream: {error}.",
            remedy="Start it with `jetstream { … }`, or leave `url` empty for the embedded one.",
        ) from error


def _streams_of(bus: Connection, tenant: str) -> tuple[StreamConfig, StreamConfig]:
    stored = (*subjects.STORED, subjects.MEMORY_PROBE)
    turns = StreamConfig(
        name=turns_stream(tenant),
        subjects=[bus.incoming_subject(subject, tenant) for subject in stored],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
        duplicate_window=DUPLICATE_WINDOW,
    )
    dead_letters = StreamConfig(
        name=dead_letters_stream(tenant),
        subjects=[_dead_letters_subject(bus, tenant)],
        storage=StorageType.FILE,
        max_age=DEAD_LETTER_AGE,
        max_bytes=DEAD_LETTER_BYTES,
    )
    return turns, dead_letters


async def _ensure_stream(bus: Connection, stream: StreamConfig) -> None:
    jetstream = bus.client.jetstream()
    try:
        await jetstream.update_stream(stream)
    except nats.js.errors.NotFoundError:
        await jetstream.add_stream(stream)


async def publish_durably(  # noqa: PLR0913 - the parts of a message
    bus: Connection,
    subject: str,
    data: bytes,
    *,
    message_id: str | None = None,
    headers: Headers | None = None,
    timeout: float = PUBLISH_TIMEOUT,  # noqa: ASYNC109 - the caller chooses it
) -> None:
    """Publish to a stream; return once the server has synced the message to disk.

    Args:
        bus: The connection to publish over.
        subject: One of a stream's subjects.
        data: The encoded envelope.
        message_id: The server drops another message with this id within DUPLICATE_WINDOW.
        headers: Additional headers.
        timeout: Seconds to wait for the acknowledgement.

    Raises:
        BusError: No acknowledgement arrived. The message may or may not be stored; send it again.
    """
    named: Headers = {"Nats-Msg-Id": message_id} if message_id else {}
    headers = bus.with_token({**named, **(headers or {})} or None)
    bus.check_size(data, headers)
    try:
        acknowledgement = await bus.client.jetstream().publish(
            subject, data, timeout=timeout, headers=headers
        )
    except (nats.js.errors.Error, nats.errors.Error, TimeoutError) as error:
        raise BusError(f"{subject} was not acknowledged by JetStream: {error!r}.") from error
    if acknowledgement.duplicate:
        log.warning("duplicate_dropped", subject=subject, message_id=message_id)


async def restart_turns_consumer(bus: Connection, name: str, tenant: str) -> str:
    """Create the durable consumer of a tenant's turns anew; return the subject it delivers to.

    It delivers everything in the stream at once. The former consumer would first wait ACK_WAIT for
    the acknowledgement of what a killed stack had received, and deliver nothing else meanwhile.

    It is a push consumer, because pulling stalls when the server restarts. The number of
    unacknowledged messages is limited so that, at the maximum message size, they fit into
    UNACKNOWLEDGED_BYTES. Every message is redelivered until `acknowledge` is called for it.

    Raises:
        BusError: JetStream refuses the consumer.
    """
    with _consumer_errors(name):
        jetstream = bus.client.jetstream()
        with suppress(nats.js.errors.NotFoundError):
            await jetstream.delete_consumer(turns_stream(tenant), name)
        await jetstream.add_consumer(turns_stream(tenant), _turns_consumer(bus, name))
    return delivery_subject(name)


@asynccontextmanager
async def many_at_a_time(bus: Connection, name: str, tenant: str) -> AsyncIterator[None]:
    """Let the durable consumer deliver SMALL_TURNS at a time while the context lasts.

    Only for turns that are known to be small: what is unacknowledged is not limited in bytes.

    Raises:
        BusError: JetStream refuses the consumer.
    """
    usual = _turns_consumer(bus, name)
    hurried = usual.evolve(max_ack_pending=SMALL_TURNS)
    jetstream = bus.client.jetstream()
    with _consumer_errors(name):
        await jetstream.add_consumer(turns_stream(tenant), hurried)
    try:
        yield
    finally:
        with _consumer_errors(name):
            await jetstream.add_consumer(turns_stream(tenant), usual)


def _turns_consumer(bus: Connection, name: str) -> ConsumerConfig:
    return ConsumerConfig(
        durable_name=name,
        deliver_subject=delivery_subject(name),
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=ACK_WAIT,
        max_ack_pending=max(1, UNACKNOWLEDGED_BYTES // bus.client.max_payload),
    )


@contextmanager
def _consumer_errors(name: str) -> Iterator[None]:
    """Turn errors of nats-py into BusError."""
    try:
        yield
    except (nats.js.errors.Error, nats.errors.Error, TimeoutError) as error:
        raise BusError(f"JetStream refuses the consumer {name}: {error}.") from error


def delivery_of(bus: Connection, message: BusMessage) -> Delivery | None:
    """Return the stream's metadata of a message; None if no stream delivered it."""
    try:
        metadata = Msg(bus.client, reply=message.reply).metadata
    except nats.errors.NotJSMessageError:
        return None
    return Delivery(
        sequence=metadata.sequence.stream,
        at=metadata.timestamp,
        deliveries=metadata.num_delivered,
    )


async def acknowledge(bus: Connection, message: BusMessage) -> None:
    """Tell JetStream not to deliver the message again."""
    await bus.publish(message.reply, b"+ACK")


async def redeliver(bus: Connection, message: BusMessage) -> None:
    """Ask JetStream to deliver the message again after RETRY_DELAY."""
    await bus.publish(message.reply, b'-NAK {"delay": %d}' % int(RETRY_DELAY * 1e9))


async def store_dead_letter(
    bus: Connection, letter: DeadLetter, *, source: str, message_id: str | None, tenant: str
) -> None:
    """Store a message that cannot be read as a dead letter, shortened if it is too long.

    Args:
        bus: The connection to publish over.
        letter: The message, and why it cannot be read.
        source: The participant that could not read the message.
        message_id: Identifies the message; the server drops a second letter with the same id.
        tenant: The tenant that sent the message.

    Raises:
        BusError: The stream did not store the letter.
    """
    letter = msgspec.structs.replace(letter, reason=abridged(letter.reason))
    while True:
        data = encode(seal(letter, type="dead_letter", source=source))
        try:
            await publish_durably(
                bus, _dead_letters_subject(bus, tenant), data, message_id=message_id
            )
        except TooLargeError:
            if not letter.message:
                raise
            letter = shortened(letter, bus.client.max_payload / len(data))
        else:
            break
    if bus.by_tenant:
        await _announce_letter(bus, letter, source=source, tenant=tenant)


async def _announce_letter(
    bus: Connection, letter: DeadLetter, *, source: str, tenant: str
) -> None:
    """Notify a tenant's agents of a dead letter, without any text that a person wrote."""
    announced = DeadLetter(subject=letter.subject, reason=WITHHELD_REASON, message="", cut=True)
    data = encode(seal(announced, type="dead_letter", source=source))
    await bus.publish(subjects.MEMORY_DEAD_LETTER, data, tenant=tenant)


def shortened(letter: DeadLetter, share: float) -> DeadLetter:
    """Return the letter with its message shortened to less than this share of its bytes."""
    length = int(len(letter.message) * share * 0.9)
    return msgspec.structs.replace(letter, message=letter.message[:length], cut=True)
