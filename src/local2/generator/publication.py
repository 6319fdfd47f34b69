"""Store finished turns in the stream, then publish them to everybody who waits for an answer.

A turn is stored before it is published, so that receivers can rely on the answer being in the
memory (decision 0002). Turns that the stream does not accept queue here, in order, until it does.
"""

import asyncio
import hashlib
from collections import deque
from typing import NamedTuple

import msgspec
import structlog

from local2.background import Backoff
from local2.bus.connection import Connection, Headers
from local2.bus.identity import bearer
from local2.bus.streams import publish_durably
from local2.errors import BusError, ErrorCode, TooLargeError
from local2.protocol import subjects
from local2.protocol.envelope import Sender, encode, seal
from local2.protocol.payloads import ErrorReply, Generation

ATTEMPTS = 3
"""Attempts to store a turn before it is published with a warning. More attempts would outlast a
longer outage, but the user is waiting for an answer that is ready."""
RETRY_DELAY = 0.5
"""Seconds before the second attempt, and between the first two attempts in the background."""
MAX_RETRY_DELAY = 5.0
"""Maximum seconds between attempts in the background; the delay doubles up to it."""
PATIENCE = 2.0
"""Seconds that one attempt may take, while somebody waits for the answer."""
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Maximum bytes of turns that wait for the stream. Bounds memory while a disk is full."""
RECORDED_CHARACTERS = 10_000
"""Maximum characters of a tool's result that a turn records. Several complete results would exceed
the size of a message (1 MB by default)."""
NOT_YET_STORED = (
    "This turn is not stored yet, because the bus does not accept it. It is kept, and stored as "
    "soon as the bus accepts it, unless the stack stops first. `local2 doctor` says what is wrong."
)
NOT_STORED = (
    "This turn is not stored, and nobody will remember it: `local2 doctor` says what is wrong."
)

log = structlog.get_logger()


class _TurnMessage(NamedTuple):
    """A turn as a message, ready to be stored and published."""

    data: bytes
    message_id: str
    query_id: str | None
    token: str | None
    """Sent to the stream only, because everybody else receives the published answer."""

    @property
    def headers(self) -> Headers:
        return {"Nats-Msg-Id": self.message_id}


class TurnPublisher:
    """Stores and publishes the turns of one generator in order; `close` logs lost turns."""

    def __init__(self, bus: Connection) -> None:
        self._bus = bus
        self._waiting: deque[_TurnMessage] = deque()
        self._storing: asyncio.Task[None] | None = None

    async def publish(self, turn: Generation, caller: Sender) -> Generation:
        """Store the turn, shortened if it is too large for the bus, and publish it.

        Returns the turn as it was stored, or as it waits to be stored. A turn that is too large
        even in its shortest form, or that finds the queue full, becomes an error.

        Raises:
            BusError: Not even an error can be published.
        """
        calls = [msgspec.structs.replace(call, args={}, content="") for call in turn.tool_calls]
        too_large = "The turn is too large for the bus; nobody will remember it."
        for shorter in (
            turn,
            msgspec.structs.replace(turn, thinking=None, tool_calls=calls),
            _error_turn(turn, TooLargeError.code, too_large),
        ):
            message = _message(shorter, caller)
            try:
                self._bus.check_size(message.data, message.headers)
            except TooLargeError as failure:
                log.warning("turn_shortened", query_id=turn.query_id, reason=str(failure))
            else:
                break
        else:
            raise BusError(
                f"The turn {turn.query_id} is too large for the bus; nobody will remember it."
            )
        turn = shorter
        if not self._waiting:
            for attempt in range(1, ATTEMPTS + 1):
                if await self._store(message):
                    await self._respond(message)
                    return turn
                if attempt < ATTEMPTS:
                    await asyncio.sleep(RETRY_DELAY * attempt)
        waiting = sum(len(other.data) for other in self._waiting)
        if waiting + len(message.data) > MAX_WAITING_BYTES:
            turn = response = _error_turn(turn, BusError.code, NOT_STORED)
        else:
            self._waiting.append(message)
            if self._storing is None or self._storing.done():
                self._storing = asyncio.create_task(self._store_waiting())
            not_yet = ErrorReply(code=BusError.code, message=NOT_YET_STORED)
            response = msgspec.structs.replace(turn, error=turn.error or not_yet)
        await self._respond(_message(response, caller))
        return turn

    async def close(self) -> None:
        """Store the waiting turns if the stream accepts them; log those that are lost."""
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.wait((self._storing,))
        while self._waiting and await self._store(self._waiting[0]):
            self._waiting.popleft()
        if self._waiting:
            lost = [message.query_id for message in self._waiting]
            log.error("turns_lost", count=len(lost), query_ids=lost)

    async def _respond(self, message: _TurnMessage) -> None:
        await self._bus.publish(subjects.RESPONSE_GENERATION, message.data, headers=message.headers)

    async def _store(self, message: _TurnMessage) -> bool:
        """Try once to store a turn; return whether the stream accepted it."""
        try:
            await publish_durably(
                self._bus,
                subjects.MEMORY_TURN,
                message.data,
                message_id=message.message_id,
                headers=bearer(message.token),
                timeout=PATIENCE,
            )
        except BusError as failure:
            log.warning("turn_not_stored", query_id=message.query_id, reason=str(failure))
            return False
        return True

    async def _store_waiting(self) -> None:
        backoff = Backoff(RETRY_DELAY, MAX_RETRY_DELAY)
        while self._waiting:
            if await self._store(self._waiting[0]):
                self._waiting.popleft()
                backoff.reset()
            else:
                await asyncio.sleep(backoff.next_pause())
        log.info("kept_turns_stored")


def _message(turn: Generation, caller: Sender) -> _TurnMessage:
    envelope = seal(
        turn,
        type="response",
        source=caller.agent or "",
        user=caller.user,
        session_id=turn.session_id,
        query_id=turn.query_id,
    )
    # Turns may share a query id, and a failure is a separate turn.
    content = [turn.query, turn.answer, turn.error is None]
    parts = [caller.user, turn.session_id, turn.query_id, *content]
    message_id = hashlib.blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()
    return _TurnMessage(encode(envelope), message_id, turn.query_id, caller.token)


def _error_turn(turn: Generation, code: ErrorCode, message: str) -> Generation:
    return Generation(
        answer="",
        query=turn.query[:RECORDED_CHARACTERS],
        session_id=turn.session_id,
        query_id=turn.query_id,
        error=ErrorReply(code=code, message=message),
    )
