"""Ask the memory for dead letters, to publish their messages again, and to drop them."""

from collections.abc import AsyncIterator

from local2.bus.connection import Connection
from local2.client.access import ask
from local2.errors import InvalidArgumentsError
from local2.protocol import subjects
from local2.protocol.maintenance import LetterAction, LetterFound, LetterRequest, StoredLetter


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


async def retry_letter(bus: Connection, number: int) -> None:
    """Publish the message of a dead letter again, and drop the letter once JetStream has stored it.

    Raises:
        InvalidArgumentsError: No letter has this number.
        BadRequestError: The message is incomplete, or is neither a turn nor a rating.
        BusError: The memory does not answer, or the stream did not store it; the letter stays.
    """
    await _request_letter(bus, "retry", number)


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
