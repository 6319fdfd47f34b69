"""A finished turn on its way to whoever remembers it."""

import asyncio
import hashlib
from collections.abc import Iterator

import msgspec
import structlog

from local.bus.connection import Connection
from local.bus.streams import publish_durably
from local.errors import BusError, TooLargeError
from local.protocol import subjects
from local.protocol.caller import Caller
from local.protocol.codec import encode
from local.protocol.envelope import seal
from local.protocol.payloads import ErrorReply, Generation

ATTEMPTS = 3
DELAY = 0.5
RECORDED_CHARACTERS = 10_000
"""What a turn records of a tool's result; several whole ones are more than a message carries."""

log = structlog.get_logger()


async def publish_turn(bus: Connection, turn: Generation, caller: Caller) -> Generation:
    """Store the turn in the stream, shortened if the bus does not carry it whole.

    Returns it as it was stored: a turn that is too large at its shortest becomes an error.

    Raises:
        BusError: The stream did not take it.
    """
    for shorter in _ever_shorter(turn):
        try:
            await _store(bus, shorter, caller)
        except TooLargeError as failure:
            log.warning("turn_shortened", query_id=turn.query_id, reason=str(failure))
        else:
            return shorter
    raise BusError(f"The turn {turn.query_id} is too large for the bus; nobody will remember it.")


async def _store(bus: Connection, turn: Generation, caller: Caller) -> None:
    envelope = seal(
        turn,
        type="response",
        source=caller.agent or "",
        user=caller.user,
        session_id=turn.session_id,
        query_id=turn.query_id,
    )
    message_id = _message_id(turn, caller)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            await publish_durably(
                bus, subjects.RESPONSE_GENERATION, encode(envelope), message_id=message_id
            )
        except BusError as failure:
            log.warning("turn_not_stored", attempt=attempt, reason=str(failure))
            await asyncio.sleep(DELAY * attempt)
        else:
            return
    raise BusError(f"The turn {turn.query_id} could not be stored; nobody will remember it.")


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
    yield Generation(
        answer="",
        query=turn.query[:RECORDED_CHARACTERS],
        session_id=turn.session_id,
        query_id=turn.query_id,
        error=ErrorReply(code=TooLargeError.code, message=message),
    )
