"""Dead letters as people deal with them: shown, published again, dropped."""

from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
import nats.errors
import nats.js.errors
from nats.js.api import RawStreamMsg

from local.bus.connection import Connection
from local.bus.streams import dead_letters_stream, publish_durably
from local.errors import BadRequestError, BusError, InvalidArgumentsError, quoted
from local.protocol import subjects
from local.protocol.envelope import decode
from local.protocol.payloads import DeadLetter

TO_PUBLISH_AGAIN = frozenset({subjects.RESPONSE_GENERATION, subjects.RESPONSE_FEEDBACK})

T = TypeVar("T")


class StoredLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A letter in its stream, by the number it has there."""

    sequence: int
    at: datetime
    letter: DeadLetter


async def letters(bus: Connection, tenant: str = "default") -> AsyncIterator[StoredLetter]:
    """All letters, oldest first.

    Raises:
        BusError: The server does not answer, or has no such stream.
    """
    sequence = 0
    while True:
        sequence += 1
        try:
            found = await _asked(
                bus.client.jsm().get_msg(
                    dead_letters_stream(tenant),
                    seq=sequence,
                    subject=subjects.MEMORY_DEAD_LETTER,
                    next=True,
                )
            )
        except _NotThereError:
            return
        stored = _letter(found)
        sequence = stored.sequence
        yield stored


async def letter_at(bus: Connection, sequence: int, tenant: str = "default") -> StoredLetter:
    """One letter.

    Raises:
        InvalidArgumentsError: There is none of this number.
        BusError: The server does not answer.
    """
    try:
        found = await _asked(bus.client.jsm().get_msg(dead_letters_stream(tenant), seq=sequence))
    except _NotThereError as error:
        raise InvalidArgumentsError(
            f"There is no dead letter {sequence}.", remedy="`local2 dead-letters list` shows them."
        ) from error
    return _letter(found)


async def count_letters(bus: Connection, tenant: str = "default") -> int:
    """How many there are.

    Raises:
        BusError: The server does not answer.
    """
    try:
        info = await _asked(bus.client.jsm().stream_info(dead_letters_stream(tenant)))
    except _NotThereError:
        return 0
    return int(info.state.messages)


async def publish_again(bus: Connection, stored: StoredLetter, tenant: str = "default") -> None:
    """Publish a letter's message under its subject, and drop the letter once JetStream has it.

    Raises:
        BadRequestError: The message is not whole, or no turn and no rating.
        BusError: The stream did not take it; the letter stays.
    """
    letter = stored.letter
    if letter.cut:
        raise BadRequestError(
            f"Of dead letter {stored.sequence} only the beginning was kept.",
            remedy="Let its source publish the message again, and drop the letter.",
        )
    if letter.subject not in TO_PUBLISH_AGAIN:
        raise BadRequestError(
            f"Dead letter {stored.sequence} is for {quoted(letter.subject)}, "
            "which nobody remembers.",
            remedy="Drop it.",
        )
    await publish_durably(bus, letter.subject, letter.message.encode())
    await drop(bus, stored.sequence, tenant)


async def drop(bus: Connection, sequence: int, tenant: str = "default") -> None:
    """Remove one letter for good.

    Raises:
        BusError: The server does not answer.
    """
    await _asked(bus.client.jsm().delete_msg(dead_letters_stream(tenant), sequence))


class _NotThereError(Exception):
    """The stream, or the message in it."""


async def _asked(request: Awaitable[T]) -> T:
    try:
        return await request
    except nats.js.errors.NotFoundError as error:
        raise _NotThereError from error
    except (nats.js.errors.Error, nats.errors.Error, TimeoutError) as error:
        raise BusError(f"JetStream does not tell of dead letters: {error!r}.") from error


def _letter(found: RawStreamMsg) -> StoredLetter:
    data = found.data or b""
    try:
        letter = decode(data, DeadLetter).payload
    except (BadRequestError, InvalidArgumentsError):
        letter = DeadLetter(
            subject=str(found.subject),
            reason="This letter itself cannot be read.",
            message=data.decode("utf-8", "replace"),
            cut=True,
        )
    return StoredLetter(
        sequence=int(found.seq or 0), at=found.time or datetime.now(UTC), letter=letter
    )
