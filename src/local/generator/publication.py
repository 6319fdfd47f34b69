"""A finished turn on its way to the memory, and to all who wait for the answer.

It is stored first and published then, so that a receiver can rely on the answer being in the memory
(decision 0034). A turn that the stream does not accept waits here, behind the earlier ones, until
the stream accepts it.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import structlog

from local.bus.connection import Connection, Headers
from local.bus.identity import bearer
from local.bus.streams import publish_durably
from local.errors import BusError, ErrorCode, TooLargeError
from local.protocol import subjects
from local.protocol.envelope import Sender, encode, seal
from local.protocol.payloads import ErrorReply, Generation

ATTEMPTS = 3
"""Attempts to store a turn before it is published with a warning. More would outlast a longer
outage, but the user waits for an answer that is ready."""
DELAY = 0.5
"""Seconds before the second attempt, and before the first of those in the background."""
LAST_DELAY = 5.0
"""Seconds: the longest pause of attempts in the background, which double theirs until then."""
PATIENCE = 2.0
"""Seconds for one attempt. Somebody waits for the answer meanwhile."""
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Bytes of turns that may wait for the stream. Bounds memory while a disk is full."""
RECORDED_CHARACTERS = 10_000
"""Characters of a tool's result that a turn records. Several complete results would exceed what a
message carries (1 MB by default)."""
NOT_YET_STORED = (
    "This turn is not stored yet: the bus does not take it. It is kept, and stored as soon as the "
    "bus does, unless the stack is stopped before. `local2 doctor` says what is wrong."
)
NOT_STORED = (
    "This turn is not stored, and nobody will remember it: `local2 doctor` says what is wrong."
)

log = structlog.get_logger()


class _TurnMessage(NamedTuple):
    """A turn as it is published."""

    data: bytes
    message_id: str
    query_id: str | None
    token: str | None
    """Goes to the stream only: everybody else receives the answer."""

    @property
    def headers(self) -> Headers:
        return {"Nats-Msg-Id": self.message_id}


class TurnPublisher:
    """Publishes the turns of one generator in their order; `close` logs those that are lost."""

    def __init__(self, bus: Connection) -> None:
        self._bus = bus
        self._waiting: deque[_TurnMessage] = deque()
        self._storing: asyncio.Task[None] | None = None

    async def publish(self, turn: Generation, caller: Sender) -> Generation:
        """Store the turn, shortened if it is too large for the bus, and publish it.

        Returns the turn as it was stored, or as it waits. A turn that is too large even in
        its shortest form, or for which there is no room to wait, becomes an error.

        Raises:
            BusError: It cannot even be published.
        """
        for shorter in _shorter_forms(turn):
            message = _message(shorter, caller)
            try:
                self._bus.check_size(message.data, message.headers)
            except TooLargeError as failure:
                log.warning("turn_shortened", query_id=turn.query_id, reason=str(failure))
            else:
                return await self._publish(shorter, message, caller)
        raise BusError(
            f"The turn {turn.query_id} is too large for the bus; nobody will remember it."
        )

    async def close(self) -> None:
        """Store the turns that wait, if the stream accepts them."""
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.wait((self._storing,))
        while self._waiting and await self._store(self._waiting[0]):
            self._waiting.popleft()
        if self._waiting:
            lost = [message.query_id for message in self._waiting]
            log.error("turns_lost", count=len(lost), query_ids=lost)

    async def _publish(self, turn: Generation, message: _TurnMessage, caller: Sender) -> Generation:
        if not self._waiting and await self._store_soon(message):
            await self._respond(message)
            return turn
        if not self._has_room(message):
            turn = response = _failed(turn, BusError.code, NOT_STORED)
        else:
            self._keep(message)
            not_yet = ErrorReply(code=BusError.code, message=NOT_YET_STORED)
            response = msgspec.structs.replace(turn, error=turn.error or not_yet)
        await self._respond(_message(response, caller))
        return turn

    async def _respond(self, message: _TurnMessage) -> None:
        await self._bus.publish(subjects.RESPONSE_GENERATION, message.data, headers=message.headers)

    async def _store_soon(self, message: _TurnMessage) -> bool:
        for attempt in range(1, ATTEMPTS + 1):
            if await self._store(message):
                return True
            if attempt < ATTEMPTS:
                await asyncio.sleep(DELAY * attempt)
        return False

    async def _store(self, message: _TurnMessage) -> bool:
        """Try once; return whether the stream accepted the turn."""
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

    def _has_room(self, message: _TurnMessage) -> bool:
        waiting = sum(len(one.data) for one in self._waiting)
        return waiting + len(message.data) <= MAX_WAITING_BYTES

    def _keep(self, message: _TurnMessage) -> None:
        self._waiting.append(message)
        if self._storing is None or self._storing.done():
            self._storing = asyncio.create_task(self._store_waiting())

    async def _store_waiting(self) -> None:
        delay = DELAY
        while self._waiting:
            if await self._store(self._waiting[0]):
                self._waiting.popleft()
                delay = DELAY
            else:
                await asyncio.sleep(delay)
                delay = min(delay * 2, LAST_DELAY)
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
    return _TurnMessage(encode(envelope), _message_id(turn, caller), turn.query_id, caller.token)


def _message_id(turn: Generation, caller: Sender) -> str:
    """Return an id for each turn: turns may share a query id, and a failure is another turn."""
    content = [turn.query, turn.answer, turn.error is None]
    parts = [caller.user, turn.session_id, turn.query_id, *content]
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()


def _shorter_forms(turn: Generation) -> Iterator[Generation]:
    """Yield the turn, the turn without what may be left out, and an error, which is not stored."""
    yield turn
    calls = [msgspec.structs.replace(call, args={}, content="") for call in turn.tool_calls]
    yield msgspec.structs.replace(turn, thinking=None, tool_calls=calls)
    message = "The turn is larger than the bus carries; nobody will remember it."
    yield _failed(turn, TooLargeError.code, message)


def _failed(turn: Generation, code: ErrorCode, message: str) -> Generation:
    return Generation(
        answer="",
        query=turn.query[:RECORDED_CHARACTERS],
        session_id=turn.session_id,
        query_id=turn.query_id,
        error=ErrorReply(code=code, message=message),
    )
