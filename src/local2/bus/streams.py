"""The JetStream streams of a tenant: one for turns and ratings, one for dead letters.

Turns and ratings must not be lost, so they stay in their stream until the MemoryAgent has committed
them to the ledger. Each tenant has its own streams, because deduplication by
`Nats-Msg-Id` spans a whole stream (decision 0001).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from typing import NamedTuple, ParamSpec, TypeVar

import nats.errors
import nats.js.errors
from nats.aio.msg import Msg
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    RawStreamMsg,
    RetentionPolicy,
    StorageType,
    StreamConfig,
    StreamState,
)

from local2.bus.connection import BusMessage, Connection, Headers
from local2.errors import BusError, LeaseHeldError
from local2.logs import get_logger
from local2.protocol import subjects

TURNS_STORED_TIMEOUT = 30.0
"""Seconds to wait for turns to be stored. One that takes longer keeps failing until something is
repaired."""
POLL_INTERVAL = 0.05
"""Seconds between two reads of a stream's state."""
STORING_SECONDS = 0.0005
"""Seconds that storing a turn takes at least: so long, nobody asks whether many are stored."""
ELECTION_TIMEOUT = 20.0
"""Seconds for which a stack that starts waits for a cluster to elect who leads JetStream."""
RELOAD_TIMEOUT = 2.0
"""Seconds to repeat a request for which there is no JetStream: a server that reads its accounts
again has none for a moment."""
DUPLICATE_WINDOW = 120.0
"""Seconds in which the server drops another message with the same id. It covers a sender that
retries after a restart; the server keeps every id for that long."""
ACK_WAIT = 30.0
"""Seconds until an unacknowledged turn is delivered again. The maximum of `turn_timeout` is below
it, so that no turn is delivered twice while it is being stored."""
SHARED_ACK_WAIT = 4.0
"""The same where several stacks store turns: what a killed one had received, another stores soon.
A turn that takes longer is reported as being stored, every WORKING_INTERVAL seconds."""
WORKING_INTERVAL = 1.5
UNACKNOWLEDGED_BYTES = 4 * 1024 * 1024
"""Maximum bytes of delivered, unacknowledged turns: requests queue behind them on the same
connection (decision 0001)."""
SHARED_FACTOR = 4
"""How many times as much may be unacknowledged where several stacks store turns: a killed one holds
its part of it until SHARED_ACK_WAIT is over, and the others go on."""
SMALL_TURNS = 64
"""Maximum number of unacknowledged turns while all that wait fit into UNACKNOWLEDGED_BYTES: they
are committed together."""
REMOVAL_TIMEOUT = 1.0
"""Seconds for which acknowledged turns may still be in the stream: removing one takes
milliseconds."""
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
MIN_FREE_MB = 100
"""Megabytes of free disk space that a start needs: JetStream uses at most three quarters of the
free space, and DEAD_LETTER_BYTES must fit (decision 0002)."""
REPLICAS = 3
"""Copies of a stream in a cluster: any one of three servers may be lost."""
TOO_FEW_SERVERS = (10005, 10074)
"""JetStream's error codes when the cluster has, or reaches, too few servers for the copies."""
INSUFFICIENT_STORAGE = 10047
"""JetStream's error code when it cannot reserve the bytes of a stream."""

log = get_logger()

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


def turns_stream(tenant: str) -> str:
    return f"local2-turns-{tenant}"


def dead_letters_stream(tenant: str) -> str:
    return f"local2-dead-letters-{tenant}"


def dead_letters_subject(bus: Connection, tenant: str) -> str:
    """The subject that stores dead letters; with accounts, one that no agent can receive."""
    return subjects.dead_letters_of(tenant) if bus.by_tenant else subjects.MEMORY_DEAD_LETTER


class Delivery(NamedTuple):
    """A stream's metadata of a delivered message; `at` is when the stream stored it."""

    sequence: int
    at: datetime
    deliveries: int
    """The number of deliveries so far, including this one."""


def delivery_subject(name: str) -> str:
    """The subject to which the durable consumers of all tenants deliver turns.

    It has no wildcard, because a consumer does not notice subscriptions with one.
    """
    return f"local2.deliver.{name}"


async def ensure_streams(bus: Connection, tenant: str) -> None:
    """Create the tenant's streams, or update those that an earlier version created.

    Raises:
        BusError: The server has no JetStream, or refuses the streams.
    """
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
        subjects=[dead_letters_subject(bus, tenant)],
        storage=StorageType.FILE,
        max_age=DEAD_LETTER_AGE,
        max_bytes=DEAD_LETTER_BYTES,
    )
    try:
        for stream in (turns, dead_letters):
            jetstream = bus.client.jetstream()
            try:
                found = await jetstream.stream_info(stream.name or "")
                put, copies = jetstream.update_stream, found.config.num_replicas or 1
            except nats.js.errors.NotFoundError:
                put, copies = jetstream.add_stream, 1
            if is_clustered(bus):  # with as many copies as the cluster can hold
                try:
                    await put(stream.evolve(num_replicas=REPLICAS))
                    continue
                except nats.js.errors.APIError as error:
                    if error.err_code not in TOO_FEW_SERVERS:
                        raise
                    log.warning("fewer_copies", stream=stream.name, copies=copies)
            await put(stream.evolve(num_replicas=copies))
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


async def when_elected(bus: Connection, work: Callable[[], Awaitable[Answer]]) -> Answer:
    """Do work with JetStream again while a cluster elects the servers that lead it.

    Raises:
        BusError: It fails for ELECTION_TIMEOUT, or at once without a cluster.
    """
    deadline = asyncio.get_running_loop().time() + ELECTION_TIMEOUT
    while True:
        try:
            return await work()
        except LeaseHeldError:
            raise
        except BusError:
            if not is_clustered(bus) or asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(RETRY_DELAY)


def is_clustered(bus: Connection) -> bool:
    """Whether the server is one of a cluster."""
    return bool(bus.client._server_info.get("cluster"))  # noqa: SLF001 - nats-py shows it nowhere else


async def publish_durably(
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


async def restart_turns_consumer(
    bus: Connection, name: str, tenant: str, *, is_shared: bool = False
) -> str:
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
        config = _turns_consumer(bus, name, is_shared=is_shared)
        await jetstream.add_consumer(turns_stream(tenant), config)
    return delivery_subject(name)


async def share_turns_consumer(bus: Connection, name: str, tenant: str) -> None:
    """Create the durable consumer of a tenant's turns, unless other stacks have it already.

    It delivers each turn to one of the stacks. It is created anew if it would not deliver all.

    Raises:
        BusError: JetStream refuses the consumer.
    """
    if await _has_passed_turns(bus, name, tenant):
        log.warning("turns_delivered_again", tenant=tenant)
        await restart_turns_consumer(bus, name, tenant, is_shared=True)
        return
    with _consumer_errors(name):
        config = _turns_consumer(bus, name, is_shared=True)
        await bus.client.jetstream().add_consumer(turns_stream(tenant), config)


async def _has_passed_turns(bus: Connection, name: str, tenant: str) -> bool:
    """Whether the stream holds messages that the consumer never delivers.

    A message is removed once it is acknowledged. If the server ends before that is on its disk,
    which may be full, the message is there again, while the consumer has kept its acknowledgement.

    Raises:
        BusError: The server does not answer.
    """
    stream = turns_stream(tenant)
    deadline = asyncio.get_running_loop().time() + REMOVAL_TIMEOUT
    while True:
        held = (await stream_state(bus, stream)).messages
        try:
            consumer = await call_jetstream(bus.client.jsm().consumer_info, stream, name)
        except nats.js.errors.NotFoundError:
            return False
        if held <= (consumer.num_pending or 0) + (consumer.num_ack_pending or 0):
            return False
        # Some may have been acknowledged between the two reads, or are being removed.
        if asyncio.get_running_loop().time() > deadline:
            return True
        await asyncio.sleep(POLL_INTERVAL)


@asynccontextmanager
async def many_at_a_time(bus: Connection, name: str, tenant: str) -> AsyncIterator[None]:
    """Let the durable consumer deliver SMALL_TURNS at a time while the context lasts.

    Only for turns that are known to be small: what is unacknowledged is not limited in bytes.

    Raises:
        BusError: JetStream refuses the consumer.
    """
    usual = _turns_consumer(bus, name, is_shared=False)
    hurried = usual.evolve(max_ack_pending=SMALL_TURNS)
    jetstream = bus.client.jetstream()
    with _consumer_errors(name):
        await jetstream.add_consumer(turns_stream(tenant), hurried)
    try:
        yield
    finally:
        with _consumer_errors(name):
            await jetstream.add_consumer(turns_stream(tenant), usual)


def _turns_consumer(bus: Connection, name: str, *, is_shared: bool) -> ConsumerConfig:
    unacknowledged = max(1, UNACKNOWLEDGED_BYTES // bus.client.max_payload)
    return ConsumerConfig(
        durable_name=name,
        deliver_subject=delivery_subject(name),
        deliver_group=name,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=SHARED_ACK_WAIT if is_shared else ACK_WAIT,
        max_ack_pending=SHARED_FACTOR * unacknowledged if is_shared else unacknowledged,
    )


@contextmanager
def _consumer_errors(name: str) -> Iterator[None]:
    """Turn errors of nats-py into BusError."""
    try:
        yield
    except (nats.js.errors.Error, nats.errors.Error, TimeoutError) as error:
        raise BusError(f"JetStream refuses the consumer {name}: {error}.") from error


def delivery_of(bus: Connection, message: BusMessage) -> Delivery | None:
    """Read the stream's metadata of a message; None if no stream delivered it."""
    try:
        metadata = Msg(bus.client, reply=message.reply).metadata
    except nats.errors.NotJSMessageError:
        return None
    return Delivery(
        sequence=metadata.sequence.stream,
        at=metadata.timestamp,
        deliveries=metadata.num_delivered,
    )


@contextmanager
def being_stored(bus: Connection, message: BusMessage) -> Iterator[None]:
    """Keep JetStream from delivering a message again while the context lasts."""
    loop = asyncio.get_running_loop()
    reporting: asyncio.TimerHandle

    def report() -> None:
        nonlocal reporting
        bus.publish_soon(message.reply, lambda: b"+WPI")
        reporting = loop.call_later(WORKING_INTERVAL, report)

    reporting = loop.call_later(WORKING_INTERVAL, report)
    try:
        yield
    finally:
        reporting.cancel()


async def acknowledge(bus: Connection, message: BusMessage) -> None:
    """Tell JetStream not to deliver the message again."""
    await bus.publish(message.reply, b"+ACK")


async def request_redelivery(bus: Connection, message: BusMessage) -> None:
    """Ask JetStream to deliver the message again after RETRY_DELAY."""
    await bus.publish(message.reply, b'-NAK {"delay": %d}' % int(RETRY_DELAY * 1e9))


async def count_turns(bus: Connection, tenant: str) -> int:
    """Count the turns and ratings that are not in the ledger yet.

    Raises:
        BusError: The server does not answer.
    """
    return (await stream_state(bus, turns_stream(tenant))).messages


async def count_undelivered(bus: Connection, consumer: str, tenant: str) -> tuple[int, int]:
    """Count the turns and ratings that wait for their delivery, or for another one.

    And those that were delivered once and are not acknowledged.

    Raises:
        BusError: The server does not answer.
    """
    try:
        found = await call_jetstream(bus.client.jsm().consumer_info, turns_stream(tenant), consumer)
    except nats.js.errors.NotFoundError:
        return await count_turns(bus, tenant), 0
    again = found.num_redelivered or 0
    return (found.num_pending or 0) + again, max(0, (found.num_ack_pending or 0) - again)


async def stream_state(bus: Connection, stream: str) -> StreamState:
    """Read a stream's message count and sequence numbers; zeros if it does not exist.

    Raises:
        BusError: The server does not answer.
    """
    try:
        return (await call_jetstream(bus.client.jsm().stream_info, stream)).state
    except nats.js.errors.NotFoundError:
        return StreamState(messages=0, bytes=0, first_seq=0, last_seq=0, consumer_count=0)


async def turns_stored(bus: Connection, *tenants: str, within: float = TURNS_STORED_TIMEOUT) -> int:
    """Wait until the ledger has every turn now in the streams; return how many it still lacks.

    It does not wait for later turns: under load a stream is never empty.

    Raises:
        BusError: The server does not answer.
    """
    states = [await stream_state(bus, turns_stream(tenant)) for tenant in tenants]
    deadline = asyncio.get_running_loop().time() + within
    left = 0
    for tenant, before in zip(tenants, states, strict=True):
        while True:
            now = await stream_state(bus, turns_stream(tenant))
            # An upper bound of the messages up to the one that was the last.
            count = max(0, min(now.messages, before.last_seq - now.first_seq + 1))
            remaining = deadline - asyncio.get_running_loop().time()
            if not count or remaining < 0:
                break
            await asyncio.sleep(min(POLL_INTERVAL + count * STORING_SECONDS, remaining))
        left += count
    return left


async def next_message(bus: Connection, stream: str, sequence: int) -> RawStreamMsg | None:
    """Read the first message with this number or a higher one; None if there is none."""
    get = bus.client.jsm().get_msg
    try:
        return await call_jetstream(get, stream, sequence, subject=">", next=True)
    except nats.js.errors.NotFoundError:
        return None


async def delete_message(bus: Connection, stream: str, sequence: int) -> None:
    """Delete a message of a stream, unless it is gone already.

    Raises:
        BusError: The server does not answer, or cannot delete it.
    """
    try:
        await call_jetstream(bus.client.jsm().delete_msg, stream, sequence)
    except BusError:
        # The server says the same of a message that was acknowledged or deleted meanwhile.
        with suppress(nats.js.errors.NotFoundError):
            await call_jetstream(bus.client.jsm().get_msg, stream, sequence)
            raise


async def call_jetstream(
    method: Callable[Parameters, Awaitable[Answer]],
    *args: Parameters.args,
    **kwargs: Parameters.kwargs,
) -> Answer:
    """Call a method of JetStream's API, for up to RELOAD_TIMEOUT if there is no JetStream.

    Raises:
        NotFoundError: The server has no such stream or message.
        BusError: The server does not answer, or refuses the request.
    """
    deadline = asyncio.get_running_loop().time() + RELOAD_TIMEOUT
    while True:
        try:
            return await method(*args, **kwargs)
        except nats.js.errors.NotFoundError:
            raise
        except (nats.js.errors.Error, nats.errors.Error, TimeoutError) as error:
            is_reloading = isinstance(error, nats.js.errors.ServiceUnavailableError)
            if not is_reloading or asyncio.get_running_loop().time() > deadline:
                raise BusError(f"JetStream failed: {str(error) or repr(error)}.") from error
        await asyncio.sleep(POLL_INTERVAL)
