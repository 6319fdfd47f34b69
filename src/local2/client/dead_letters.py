"""Ask the memory for dead letters, publish their messages again, and drop them."""

from collections.abc import AsyncIterator

from local2.bus.connection import Connection
from local2.bus.streams import publish_durably
from local2.client.access import ask
from local2.errors import BadRequestError, InvalidArgumentsError, quoted
from local2.protocol import subjects
from local2.protocol.maintenance import LetterAction, LetterFound, LetterRequest, StoredLetter

RETRIED_SUBJECTS = frozenset({subjects.RESPONSE_GENERATION, subjects.RESPONSE_FEEDBACK})
"""Subjects whose messages are stored. Publishing any other message again would change nothing."""


async def all_letters(bus: Connection) -> AsyncIterator[StoredLetter]:
    """Yield all dead letters, oldest first.

    Raises:
        ForbiddenError: The caller may not see them.
        BusError: The memory does not answer.
    """
    number = 0
    while (found := await _request_letter(bus, "next", number + 1)) is not None:
        number = found.sequence
        yield found


async def letter_at(bus: Connection, number: int) -> StoredLetter:
    """The dead letter with this number.

    Raises:
        InvalidArgumentsError: No letter has this number.
        BusError: The memory does not answer.
    """
    if (found := await _request_letter(bus, "show", number)) is None:
        raise InvalidArgumentsError(f"There is no dead letter {number}.")
    return found


async def publish_again(bus: Connection, stored: StoredLetter) -> None:
    """Publish the message of a dead letter again; return once JetStream has stored it.

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
    await publish_durably(bus, letter.subject, letter.message.encode())


async def drop_letter(bus: Connection, number: int) -> None:
    """Delete one dead letter.

    Raises:
        InvalidArgumentsError: No letter has this number.
        BusError: The memory does not answer.
    """
    await _request_letter(bus, "drop", number)


async def _request_letter(
    bus: Connection, action: LetterAction, number: int
) -> StoredLetter | None:
    wanted = LetterRequest(action=action, number=number)
    return (await ask(bus, subjects.MEMORY_DEAD_LETTER_REQUEST, wanted, LetterFound)).found
