"""A finished turn on its way to whoever remembers it.

It is stored first and told to everybody then, so that whoever hears an answer may rely on it. One
that the stream does not take waits here, behind those before it, until the stream takes it.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import structlog

from local.bus.connection import Connection, Headers
from local.bus.streams import publish_durably
from local.errors import BusError, ErrorCode, TooLargeError
from local.protocol import subjects
from local.protocol.envelope import Caller, encode, seal
from local.protocol.payloads import ErrorReply, Generation

ATTEMPTS = 3
DELAY = 0.5
LAST_DELAY = 5.0
PATIENCE = 2.0
"""Seconds for one attempt: somebody waits for the answer."""
KEPT_BYTES = 64 * 1024 * 1024
"""Of turns that wait until the stream takes them."""
RECORDED_CHARACTERS = 10_000
"""What a turn records of a tool's result; several whole ones are more than a message carries."""
KEPT = (
    "This turn is not stored yet: the bus does not take it. It is kept, and stored as soon as the "
    "bus does, unless the stack is stopped before. `local2 doctor` says what is wrong."
)
LOST = "This turn is not stored, and nobody will remember it: `local2 doctor` says what is wrong."

log = structlog.get_logger()


class _Message(NamedTuple):
    data: bytes
    message_id: str
    query_id: str | None

    @property
    def headers(self) -> Headers:
        return {"Nats-Msg-Id": self.message_id}


class Publications:
    """One generator's turns, in their order; `close` says which of them are lost."""

    def __init__(self, bus: Connection) -> None:
        self._bus = bus
        self._kept: deque[_Message] = deque()
        self._storing: asyncio.Task[None] | None = None

    async def publish(self, turn: Generation, caller: Caller) -> Generation:
        """Store the turn, shortened if the bus does not carry it whole, and tell everybody.

        Returns it as it was stored or is kept: a turn that is too large at its shortest, or that
        there is no room to keep, becomes an error.

        Raises:
            BusError: It cannot even be told.
        """
        for shorter in _ever_shorter(turn):
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
        """Store what is kept, as far as the stream takes it."""
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.wait((self._storing,))
        while self._kept and await self._stored(self._kept[0]):
            self._kept.popleft()
        if self._kept:
            lost = [message.query_id for message in self._kept]
            log.error("turns_lost", count=len(lost), query_ids=lost)

    async def _publish(self, turn: Generation, message: _Message, caller: Caller) -> Generation:
        if not self._kept and await self._stored_soon(message):
            await self._bus.publish(
                subjects.RESPONSE_GENERATION, message.data, headers=message.headers
            )
            return turn
        if not self._has_room(message):
            turn = _failed(turn, BusError.code, LOST)
            told = turn
        else:
            self._keep(message)
            not_yet = ErrorReply(code=BusError.code, message=KEPT)
            told = msgspec.structs.replace(turn, error=turn.error or not_yet)
        telling = _message(told, caller)
        await self._bus.publish(subjects.RESPONSE_GENERATION, telling.data, headers=telling.headers)
        return turn

    async def _stored_soon(self, message: _Message) -> bool:
        for attempt in range(1, ATTEMPTS + 1):
            if await self._stored(message):
                return True
            if attempt < ATTEMPTS:
                await asyncio.sleep(DELAY * attempt)
        return False

    async def _stored(self, message: _Message) -> bool:
        try:
            await publish_durably(
                self._bus,
                subjects.MEMORY_TURN,
                message.data,
                message_id=message.message_id,
                timeout=PATIENCE,
            )
        except BusError as failure:
            log.warning("turn_not_stored", query_id=message.query_id, reason=str(failure))
            return False
        return True

    def _has_room(self, message: _Message) -> bool:
        return sum(len(kept.data) for kept in self._kept) + len(message.data) <= KEPT_BYTES

    def _keep(self, message: _Message) -> None:
        self._kept.append(message)
        if self._storing is None or self._storing.done():
            self._storing = asyncio.create_task(self._store_kept())

    async def _store_kept(self) -> None:
        delay = DELAY
        while self._kept:
            if await self._stored(self._kept[0]):
                self._kept.popleft()
                delay = DELAY
            else:
                await asyncio.sleep(delay)
                delay = min(delay * 2, LAST_DELAY)
        log.info("kept_turns_stored")


def _message(turn: Generation, caller: Caller) -> _Message:
    envelope = seal(
        turn,
        type="response",
        source=caller.agent or "",
        user=caller.user,
        session_id=turn.session_id,
        query_id=turn.query_id,
    )
    return _Message(encode(envelope), _message_id(turn, caller), turn.query_id)


def _message_id(turn: Generation, caller: Caller) -> str:
    """One for each turn: the same query id may stand for several, and a failure is none of them."""
    said = [turn.query, turn.answer, turn.error is None]
    parts = [caller.user, turn.session_id, turn.query_id, *said]
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()


def _ever_shorter(turn: Generation) -> Iterator[Generation]:
    """The turn; without what may be left out; and that it was too large, which is no memory."""
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
