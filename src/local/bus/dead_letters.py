"""Dead letters where they are stored: listed, read, counted and dropped, a tenant's at a time."""

from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime
from typing import TypeVar

import nats.errors
import nats.js.errors
from nats.js.api import RawStreamMsg

from local.bus.connection import Connection
from local.bus.streams import dead_letters_stream
from local.errors import BadRequestError, BusError, InvalidArgumentsError
from local.protocol.envelope import decode
from local.protocol.payloads import DeadLetter, StoredLetter

T = TypeVar("T")


async def letters(bus: Connection, tenant: str) -> AsyncIterator[StoredLetter]:
    """All letters, oldest first.

    Raises:
        BusError: The server does not answer, or has no such stream.
    """
    sequence = 0
    while (stored := await next_letter(bus, sequence + 1, tenant)) is not None:
        sequence = stored.sequence
        yield stored


async def next_letter(bus: Connection, sequence: int, tenant: str) -> StoredLetter | None:
    """The first letter of this number or a higher one; None if there is none.

    Raises:
        BusError: The server does not answer, or has no such stream.
    """
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
        return None
    return _letter(raw)


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
