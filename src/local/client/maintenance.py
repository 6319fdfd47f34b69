"""What an operator does over the bus: status, reindex, backups and dead letters."""

from collections.abc import AsyncIterator

from local.bus.connection import Connection
from local.bus.streams import publish_durably
from local.client.asking import ask
from local.errors import BadRequestError, InvalidArgumentsError, quoted
from local.protocol import subjects
from local.protocol.backups import BackupRequest, BackupStatus
from local.protocol.payloads import (
    Empty,
    LetterAction,
    LetterFound,
    LetterRequest,
    MemoryStatus,
    Reindex,
    StoredLetter,
)

RETRIED_SUBJECTS = frozenset({subjects.RESPONSE_GENERATION, subjects.RESPONSE_FEEDBACK})
"""Only these become memories, so publishing any other message again would change nothing."""
REINDEX_TIMEOUT = 60.0
"""Seconds for the answer to a reindex, which comes once the index has been emptied."""


async def letters(bus: Connection) -> AsyncIterator[StoredLetter]:
    """All letters, oldest first.

    Raises:
        ForbiddenError: Whoever asks may not see them.
        BusError: The memory does not answer.
    """
    number = 0
    while (found := await _of_letters(bus, "next", number + 1)) is not None:
        number = found.sequence
        yield found


async def letter_at(bus: Connection, number: int) -> StoredLetter:
    """The letter of this number.

    Raises:
        InvalidArgumentsError: There is none.
        BusError: The memory does not answer.
    """
    if (found := await _of_letters(bus, "show", number)) is None:
        raise InvalidArgumentsError(f"There is no dead letter {number}.")
    return found


async def publish_again(bus: Connection, stored: StoredLetter) -> None:
    """Publish the message of a letter again; return once JetStream has stored it.

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


async def drop(bus: Connection, number: int) -> None:
    """Delete one letter.

    Raises:
        InvalidArgumentsError: There is none.
        BusError: The memory does not answer.
    """
    await _of_letters(bus, "drop", number)


async def _of_letters(bus: Connection, action: LetterAction, number: int) -> StoredLetter | None:
    wanted = LetterRequest(action=action, number=number)
    return (await ask(bus, subjects.MEMORY_DEAD_LETTERS, wanted, LetterFound)).found


async def memory_status(bus: Connection) -> MemoryStatus:
    """Ask whether ledger and index agree, and what is wrong if they do not."""
    return await ask(bus, subjects.MEMORY_STATUS, Empty(), MemoryStatus)


async def start_reindex(bus: Connection, embedder: str | None = None) -> MemoryStatus:
    """Have the index emptied and filled again; `waiting` of later statuses counts down.

    With an embedder, another index is filled while the one there is serves: see `next` in later
    statuses.
    """
    wanted = Reindex(embedder=embedder)
    return await ask(bus, subjects.MEMORY_REINDEX, wanted, MemoryStatus, timeout=REINDEX_TIMEOUT)


async def begin_backup(bus: Connection, request: BackupRequest) -> BackupStatus:
    """Begin one; without a folder, only ask how far it is.

    Raises:
        ForbiddenError: Whoever asks may not.
        InvalidArgumentsError: The folder, or how many to keep.
        OverloadedError: One is under way.
        BusError: Nobody answers.
    """
    return await ask(bus, subjects.MEMORY_BACKUP, request, BackupStatus)


async def backup_status(bus: Connection) -> BackupStatus:
    """How far the one under way is, and what became of the one before."""
    return await begin_backup(bus, BackupRequest())
