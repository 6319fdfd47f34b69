"""The MemoryAgent stores every turn, and the ratings of answers.

JetStream delivers the turns; each is acknowledged after the ledger has committed it. So a stack
that is killed in between loses none, and the ledger's ids prevent duplicates. Where several stacks
share the ledger, each turn is delivered to one of them. After nats-server was lost, what is still
in the stream is delivered again. A message that can never be stored becomes a dead letter.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from local2.background import in_background, read_text, waited_for
from local2.bus.connection import BusMessage, Connection
from local2.bus.dead_letters import store_dead_letter
from local2.bus.identity import user_of
from local2.bus.participant import Participant
from local2.bus.receiving import is_redirected
from local2.bus.streams import (
    UNACKNOWLEDGED_BYTES,
    Delivery,
    acknowledge,
    being_stored,
    delivery_of,
    delivery_subject,
    ensure_streams,
    many_at_a_time,
    request_redelivery,
    restart_turns_consumer,
    share_turns_consumer,
    stream_state,
    turns_stored,
    turns_stream,
    when_elected,
)
from local2.errors import (
    BusError,
    DeadlineError,
    Local2Error,
    RequestError,
    StorageError,
    abridged,
)
from local2.ledger.operations.turns import Delivered
from local2.ledger.records import LEDGER
from local2.memory.intake.conversations import Turn
from local2.memory.intake.echoes import UNANSWERED, find_echo
from local2.memory.intake.episodes import storable_metadata
from local2.memory.service import MemoryService
from local2.memory.tenant import Memories
from local2.protocol import subjects
from local2.protocol.envelope import Envelope, utc_now
from local2.protocol.lenient.turns import Reading, read_feedback, read_generation, source_of
from local2.protocol.memories import incomplete_reason, is_nothing
from local2.protocol.payloads import DeadLetter, Generation
from local2.telemetry import memory_operation

NAME = "memory_agent"
ACTION = "turn"
"""The action that the sender's role must permit."""
ATTEMPTS = 3
"""Deliveries of a failing message before it becomes a dead letter; some failures are temporary."""
RECONNECT_INTERVAL = 0.5
"""Seconds between two checks whether the connection was lost and made again."""
MAX_LOGGED_SOURCES = 1_000
"""Maximum number of sources in UnreadLog: it bounds the set, because senders choose the names."""
MAX_LOGGED_PATHS = 10
"""Maximum number of unreadable fields listed in one log line."""

log = structlog.get_logger()


class MemoryAgent(Participant):
    """Consumes `response.generation` and `response.feedback` of every tenant."""

    def __init__(
        self,
        bus: Connection,
        memories: Memories,
        *,
        turn_timeout: float,
        is_shared: bool = False,
    ) -> None:
        """`turn_timeout`: maximum seconds for handling one message.

        `is_shared`: whether other stacks may store turns of the same memories, too.
        """
        super().__init__(bus, name=NAME, description="Remembers every turn and every rating.")
        self._memories = memories
        self._turn_timeout = turn_timeout
        self._is_shared = is_shared
        self._background = AsyncExitStack()
        self._unread = UnreadLog()
        self.serve(delivery_subject(NAME), self._receive, queue=NAME, tenant=None)

    async def started(self) -> None:
        await in_background(self._background, deliveries=self._restart_deliveries())

    async def stopping(self) -> None:
        await self._background.aclose()

    async def _restart_deliveries(self) -> None:
        """Start the deliveries again after each reconnection, until cancelled.

        The server may have restarted, and have forgotten what was acknowledged, or how much of it.
        Storing a turn again changes nothing.
        """
        statistics = self.bus.client.stats
        delivering_since = statistics["reconnects"]
        while True:
            await asyncio.sleep(RECONNECT_INTERVAL)
            reconnects = statistics["reconnects"]
            if reconnects == delivering_since:
                continue
            try:
                for memory in list(self._memories):
                    await _start_consumer(self.bus, memory.tenant, is_shared=self._is_shared)
            except BusError as error:  # tried again soon
                log.warning("turns_not_delivered", reason=error.message)
            else:
                delivering_since = reconnects

    async def _receive(self, message: BusMessage) -> None:
        try:
            with (
                self._memories.storing_turn(message.tenant),
                being_stored(self.bus, message),
            ):
                await self._handle(message)
        except Local2Error as error:
            log.warning("message_postponed", subject=message.subject, reason=error.logged)
            await request_redelivery(self.bus, message)
        else:
            await acknowledge(self.bus, message)

    async def _handle(self, message: BusMessage) -> None:
        """Store the message, or turn it into a dead letter if it can never be stored.

        What fails decides, and few dead letters are unreadable:

        - the message, its sender's role or token, the tenant's quota (RequestError): a dead letter
        - it takes longer than `turn_timeout`, or the code has a bug: one after ATTEMPTS deliveries
        - the ledger, also one that is held up, the bus, a full queue (other errors): no dead
          letter. It is redelivered until they are back, however long that takes, because the turn
          itself is in order
        """
        seconds = self._turn_timeout
        delivery = delivery_of(self.bus, message)
        try:
            async with asyncio.timeout(seconds):
                if is_redirected(message):
                    log.warning("answer_ignored", subject=message.subject)
                elif message.subject == subjects.RESPONSE_FEEDBACK:
                    await self._store_rating(message, delivery)
                elif message.subject != subjects.MEMORY_PROBE:
                    await self._store_turn(message, delivery)
        except RequestError as error:
            await self._give_up(message, delivery, error)
        except TimeoutError as error:
            if waited_for(LEDGER, error):
                held_up = f"The ledger did not store the message within {seconds:g} s."
                raise StorageError(held_up) from error
            # It is a RequestError, but raised behind the clause for those: redelivered at first.
            late = DeadlineError(
                f"The message was not handled within {seconds:g} s (turn_timeout)."
            )
            await self._retry_or_give_up(message, delivery, late)
        except Local2Error:
            raise
        except Exception:
            log.exception("message_failed", subject=message.subject)
            fault = Local2Error("The message could not be handled; the server's log says where.")
            await self._retry_or_give_up(message, delivery, fault)

    async def _retry_or_give_up(
        self, message: BusMessage, delivery: Delivery | None, error: Local2Error
    ) -> None:
        """Raise the error, so that the message is redelivered; give up after ATTEMPTS."""
        if delivery is not None and delivery.deliveries < ATTEMPTS:
            raise error
        await self._give_up(message, delivery, error)

    async def _store_turn(self, message: BusMessage, delivery: Delivery | None) -> None:
        reading, unsure = await read_text(_read_turn, len(message.data), message.data)
        envelope, turn = reading.envelope, reading.envelope.payload
        self._unread.warn(message.subject, envelope.source, reading.unread)
        said = turn.query.strip() or turn.answer.strip() or turn.tool_calls
        if turn.error is not None and not said:
            return  # the outcome of a query that was refused
        answered = bool(turn.answer.strip()) and not unsure
        remembered = Turn(
            query=turn.query,
            answer=turn.answer if answered else None,
            at=_sent_at(envelope, delivery),
            tool_calls=turn.tool_calls,
            session_id=turn.session_id,
            query_id=turn.query_id,
            metadata=storable_metadata(turn.metadata),
            shown=turn.shown,
            delivered=Delivered(sequence=delivery.sequence, at=delivery.at) if delivery else None,
        )
        memory = await self._memory_of(message, envelope, delivery)
        with memory_operation("upsert_memory", memory.caller.tenant):
            written = await memory.intake.store_turn(remembered)
        log.info(
            "turn_remembered",
            id=written.id,
            was_new=written.was_new,
            answered=answered,
            session_id=remembered.session_id,
            query_id=remembered.query_id,
        )

    async def _store_rating(self, message: BusMessage, delivery: Delivery | None) -> None:
        reading = read_feedback(message.data)
        envelope, rating = reading.envelope, reading.envelope.payload
        self._unread.warn(message.subject, envelope.source, reading.unread)
        memory = await self._memory_of(message, envelope, delivery)
        await memory.intake.store_rating(
            rating.query_id,
            rating.score,
            rating.comment,
            session_id=rating.session_id,
            at=_sent_at(envelope, delivery),
        )
        log.info("answer_rated", query_id=rating.query_id, score=rating.score)

    async def _memory_of(
        self, message: BusMessage, envelope: Envelope[Any], delivery: Delivery | None
    ) -> MemoryService:
        """Open the sender's memory; the token must have been valid when the stream stored it."""
        at = delivery.at if delivery else None
        caller = self.bus.identity.caller_of(message, envelope, at)
        return await self._memories.admit(caller, ACTION)

    async def _give_up(
        self, message: BusMessage, delivery: Delivery | None, error: Local2Error
    ) -> None:
        log.warning("message_refused", subject=message.subject, reason=error.logged)
        text = message.data.decode("utf-8", "replace")
        letter = DeadLetter(
            subject=message.subject,
            reason=error.message,
            message=text,
            source=await read_text(source_of, len(message.data), message.data),
            cut=text.encode() != message.data,
            user=user_of(self.bus.identity, message, None, delivery.at if delivery else None),
        )
        message_id = f"{delivery.sequence}" if delivery else None
        await store_dead_letter(
            self.bus, letter, source=NAME, message_id=message_id, tenant=message.tenant
        )


async def deliver_turns(bus: Connection, tenant: str, *, is_shared: bool = False) -> None:
    """Start the delivery of a tenant's turns, with those that an earlier stack left.

    Creates the streams if necessary. `is_shared`: whether other stacks may store turns, too.

    Raises:
        BusError: JetStream refuses a stream or the consumer.
    """
    await when_elected(bus, partial(ensure_streams, bus, tenant))
    await _start_consumer(bus, tenant, is_shared=is_shared)


async def _start_consumer(bus: Connection, tenant: str, *, is_shared: bool) -> None:
    """Have all turns in the stream delivered that no stack is storing."""
    if is_shared:
        await when_elected(bus, partial(share_turns_consumer, bus, NAME, tenant))
    else:
        await restart_turns_consumer(bus, NAME, tenant)


async def catch_up(bus: Connection, tenant: str) -> None:
    """Have the turns that an earlier stack left delivered many at a time, if they are small."""
    try:
        left = await stream_state(bus, turns_stream(tenant))
        if left.messages and left.bytes <= UNACKNOWLEDGED_BYTES:
            async with many_at_a_time(bus, NAME, tenant):
                await turns_stored(bus, tenant)
    except BusError as error:  # they are stored all the same, a few at a time
        log.warning("not_caught_up", tenant=tenant, reason=error.message)


def _sent_at(envelope: Envelope[Any], delivery: Delivery | None) -> datetime:
    """When a message was sent, or stored: the same time for every delivery."""
    return envelope.timestamp_utc or (delivery.at if delivery else utc_now())


def _read_turn(data: bytes) -> tuple[Reading[Generation], bool]:
    """Read a turn, and whether its answer is unsure; slow for long turns."""
    reading = read_generation(data)
    return reading, is_unsure(reading.envelope.payload)


def is_unsure(turn: Generation) -> bool:
    """Whether the answer only says that an incomplete search found nothing."""
    results = [call.content for call in turn.tool_calls]
    if not (any(map(incomplete_reason, results)) and all(map(is_nothing, results))):
        return False
    return UNANSWERED in find_echo(turn.query, turn.answer, (), results).of_answer


class UnreadLog:
    """Logs unreadable fields once per source, because a source repeats its mistakes."""

    def __init__(self) -> None:
        self._sources: set[str] = set()

    def warn(self, subject: str, source: str, unread: Sequence[str]) -> None:
        """Log the paths of unreadable fields, unless this source was logged before."""
        if unread and source not in self._sources and len(self._sources) < MAX_LOGGED_SOURCES:
            self._sources.add(source)
            first = [abridged(line) for line in unread[:MAX_LOGGED_PATHS]]
            log.warning(
                "read_in_part", subject=subject, source=source, unread=first, count=len(unread)
            )
