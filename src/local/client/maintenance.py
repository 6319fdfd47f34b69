"""What an operator does over the bus: status, reindex, and dead letters."""

from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
import nats.errors
import nats.js.errors
from nats.js.api import RawStreamMsg

from local.bus.connection import Connection
from local.bus.streams import (
    dead_letters_stream,
    publish_durably,
    turns_stream,
)
from local.errors import BadRequestError, BusError, InvalidArgumentsError, quoted
from local.protocol import subjects
from local.protocol.envelope import decode, encode, seal
from local.protocol.payloads import DeadLetter, Empty, MemoryStatus, Reindex

RETRIED_SUBJECTS = frozenset({subjects.RESPONSE_GENERATION, subjects.RESPONSE_FEEDBACK})
"""Only these become memories, so publishing any other message again would change nothing."""
REINDEX_TIMEOUT = 60.0
"""Seconds for the answer to a reindex, which comes once the index has been emptied."""

T = TypeVar("T")


class StoredLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter, with its number in the stream."""

    sequence: int
    at: datetime
    letter: DeadLetter


async def letters(bus: Connection, tenant: str) -> AsyncIterator[StoredLetter]:
    """All letters, oldest first.

    Raises:
        BusError: The server does not answer, or has no such stream.
    """
    sequence = 0
    while True:
        sequence += 1
        try:
            raw = await _asked(
                bus.client.jsm().get_msg(
                    dead_letters_stream(tenant),
                    seq=sequence,
                    subject=">",
                    next=True,
                )
            )
        except _NotThereError:
            return
        stored = _letter(raw)
        sequence = stored.sequence
        yield stored


async def letter_at(bus: Connection, sequence: int, tenant: str) -> StoredLetter:
    """The letter of this number.

    Raises:
        InvalidArgumentsError: There is none.
        BusError: The server does not answer.
    """
    try:
        raw = await _asked(bus.client.jsm().get_msg(dead_letters_stream(tenant), seq=sequence))
    except _NotThereError as error:
        raise InvalidArgumentsError(
            f"There is no dead letter {sequence}.", remedy="`local2 dead-letters list` shows them."
        ) from error
    return _letter(raw)


async def count_letters(bus: Connection, tenant: str) -> int:
    """The number of letters.

    Raises:
        BusError: The server does not answer.
    """
    return await _count(bus, dead_letters_stream(tenant))


async def count_turns(bus: Connection, tenant: str) -> int:
    """The number of turns and ratings that are not in the ledger yet.

    Raises:
        BusError: The server does not answer.
    """
    return await _count(bus, turns_stream(tenant))


async def _count(bus: Connection, stream: str) -> int:
    try:
        info = await _asked(bus.client.jsm().stream_info(stream))
    except _NotThereError:
        return 0
    return int(info.state.messages)


async def publish_again(bus: Connection, stored: StoredLetter, tenant: str) -> None:
    """Publish the message of a letter again, and drop the letter once JetStream has stored it.

    Raises:
        BadRequestError: The message is not complete, or neither a turn nor a rating.
        BusError: The stream did not store it; the letter stays.
    """
    letter = stored.letter
    if letter.cut:
        raise BadRequestError(
            f"Of dead letter {stored.sequence} only the beginning was kept.",
            remedy="Let its source publish the message again, and drop the letter.",
        )
    if letter.subject not in RETRIED_SUBJECTS:
        raise BadRequestError(
            f"Dead letter {stored.sequence} is for {quoted(letter.subject)}, "
            "which nobody remembers.",
            remedy="Drop it.",
        )
    await publish_durably(bus, letter.subject, letter.message.encode())
    await drop(bus, stored.sequence, tenant)


async def drop(bus: Connection, sequence: int, tenant: str) -> None:
    """Delete one letter.

    Raises:
        BusError: The server does not answer.
    """
    await _asked(bus.client.jsm().delete_msg(dead_letters_stream(tenant), sequence))


class _NotThereError(Exception):
    """The stream does not exist, or the message is not in it."""


async def _asked(request: Awaitable[T]) -> T:
    """The answer of JetStream, with its errors as ours."""
    try:
        return await request
    except nats.js.errors.NotFoundError as error:
        raise _NotThereError from error
    except (nats.js.errors.Error, nats.errors.Error, TimeoutError) as error:
        raise BusError(f"JetStream does not tell of dead letters: {error!r}.") from error


def _letter(raw: RawStreamMsg) -> StoredLetter:
    data = raw.data or b""
    try:
        letter = decode(data, DeadLetter).payload
    except (BadRequestError, InvalidArgumentsError):
        letter = DeadLetter(
            subject=str(raw.subject),
            reason="This letter itself cannot be read.",
            message=data.decode("utf-8", "replace"),
            cut=True,
        )
    return StoredLetter(sequence=int(raw.seq or 0), at=raw.time or datetime.now(UTC), letter=letter)


async def memory_status(bus: Connection) -> MemoryStatus:
    """Ask whether ledger and index agree, and what is wrong if they do not."""
    return await _ask(bus, subjects.MEMORY_STATUS, None)


async def start_reindex(bus: Connection, embedder: str | None = None) -> MemoryStatus:
    """Have the index emptied and filled again; `waiting` of later statuses counts down.

    With an embedder, another index is filled while the one there is serves: see `next` in later
    statuses.
    """
    return await _ask(bus, subjects.MEMORY_REINDEX, REINDEX_TIMEOUT, Reindex(embedder=embedder))


async def _ask(
    bus: Connection, subject: str, seconds: float | None, payload: msgspec.Struct | None = None
) -> MemoryStatus:
    ask = encode(seal(payload or Empty(), type="request", source="client"))
    answer = await bus.request(subject, ask, timeout=seconds)
    return decode(answer.data, MemoryStatus).payload
