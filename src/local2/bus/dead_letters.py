"""Dead letters: messages that the memory could not store, kept in a stream for each tenant.

Only some are unreadable; `MemoryAgent` lists the causes. They stay until an admin drops them, or
until they expire.
"""

from datetime import UTC, datetime

import msgspec
import nats.js.errors
from nats.js.api import RawStreamMsg

from local2.bus.connection import Connection
from local2.bus.identity import bearer
from local2.bus.streams import (
    call_jetstream,
    dead_letters_stream,
    dead_letters_subject,
    delete_message,
    next_message,
    publish_durably,
    stream_state,
)
from local2.errors import (
    BadRequestError,
    InvalidArgumentsError,
    TooLargeError,
    abridged,
    quoted,
)
from local2.protocol import subjects
from local2.protocol.envelope import decode, encode, seal
from local2.protocol.maintenance import StoredLetter
from local2.protocol.payloads import DeadLetter

RETRIED_SUBJECTS = frozenset({subjects.RESPONSE_GENERATION, subjects.RESPONSE_FEEDBACK})
"""Subjects whose messages are stored. Publishing any other message again would change nothing."""
WITHHELD_REASON = "Only those who run the memory may read the message and the reason."
"""With accounts, all agents of a tenant are notified of a dead letter with this text."""


async def store_dead_letter(
    bus: Connection, letter: DeadLetter, *, source: str, message_id: str | None, tenant: str
) -> None:
    """Store a message that was given up as a dead letter, shortened if it is too long.

    Args:
        bus: The connection to publish over.
        letter: The message, and why it cannot be stored.
        source: The participant that gave it up.
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
                bus, dead_letters_subject(bus, tenant), data, message_id=message_id
            )
        except TooLargeError:
            if not letter.message:
                raise
            letter = shortened(letter, bus.client.max_payload / len(data))
        else:
            break
    if bus.by_tenant:
        # All agents of the tenant are notified, without any text that a person wrote.
        withheld = DeadLetter(subject=letter.subject, reason=WITHHELD_REASON, message="", cut=True)
        data = encode(seal(withheld, type="dead_letter", source=source))
        await bus.publish(subjects.MEMORY_DEAD_LETTER, data, tenant=tenant)


def shortened(letter: DeadLetter, fraction: float) -> DeadLetter:
    """Shorten the letter's message to less than this fraction of its bytes."""
    length = int(len(letter.message) * fraction * 0.9)
    return msgspec.structs.replace(letter, message=letter.message[:length], cut=True)


async def next_letter(bus: Connection, sequence: int, tenant: str) -> StoredLetter | None:
    """Read the first dead letter with this number or a higher one; None if there is none.

    Raises:
        BusError: The server does not answer, or has no such stream.
    """
    raw = await next_message(bus, dead_letters_stream(tenant), sequence)
    return _letter(raw) if raw is not None else None


async def read_letter(bus: Connection, sequence: int, tenant: str) -> StoredLetter:
    """Read the dead letter with this number.

    Raises:
        InvalidArgumentsError: There is no such letter.
        BusError: The server does not answer.
    """
    try:
        raw = await call_jetstream(bus.client.jsm().get_msg, dead_letters_stream(tenant), sequence)
    except nats.js.errors.NotFoundError as error:
        raise InvalidArgumentsError(
            f"There is no dead letter {sequence}.",
            remedy="`local2 dead-letters list` shows them.",
        ) from error
    return _letter(raw)


async def publish_again(
    bus: Connection, stored: StoredLetter, tenant: str, token: str | None = None
) -> None:
    """Publish the message of a dead letter again; return once JetStream has stored it.

    With accounts, the turn or rating is that of the user whom `token` names: letters have none.

    Raises:
        BadRequestError: The message is incomplete, or is neither a turn nor a rating.
        BusError: The stream did not store it; the letter stays.
    """
    letter = stored.letter
    if letter.cut:
        raise BadRequestError(
            f"Only the beginning of dead letter {stored.sequence} was stored.",
            remedy="Let its source publish the message again, and drop the letter.",
        )
    if letter.subject not in RETRIED_SUBJECTS:
        raise BadRequestError(
            f"Dead letter {stored.sequence} is for {quoted(letter.subject)}, "
            "which is not stored in the memory.",
            remedy="Drop it.",
        )
    subject = bus.incoming_subject(letter.subject, tenant)
    await publish_durably(bus, subject, letter.message.encode(), headers=bearer(token))


async def delete_letter(bus: Connection, sequence: int, tenant: str) -> None:
    """Delete one dead letter.

    Raises:
        BusError: The server does not answer.
    """
    await delete_message(bus, dead_letters_stream(tenant), sequence)


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


async def count_letters(bus: Connection, tenant: str) -> int:
    """Count a tenant's dead letters.

    Raises:
        BusError: The server does not answer.
    """
    return (await stream_state(bus, dead_letters_stream(tenant))).messages
