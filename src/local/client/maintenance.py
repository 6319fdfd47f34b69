"""What an operator does over the bus: status, readiness, reindex, letters, backups, transfers."""

import asyncio
from collections.abc import AsyncIterator

from local.bus.connection import Connection
from local.bus.streams import publish_durably
from local.client.access import ask, connected
from local.errors import BadRequestError, InvalidArgumentsError, quoted
from local.protocol import subjects
from local.protocol.envelope import Sender
from local.protocol.maintenance import (
    BackupRequest,
    BackupStatus,
    ExportPage,
    ExportRequest,
    ImportReport,
    ImportRequest,
    LetterAction,
    LetterFound,
    LetterRequest,
    MemoryStatus,
    Readiness,
    Reindex,
    StoredLetter,
)
from local.protocol.payloads import Empty
from local.settings import Settings
from local.tenants.directory import Entries

RETRIED_SUBJECTS = frozenset({subjects.RESPONSE_GENERATION, subjects.RESPONSE_FEEDBACK})
"""Only these are stored, so publishing any other message again would change nothing."""
REINDEX_TIMEOUT = 60.0
"""Seconds for the answer to a reindex, which comes once the index has been emptied."""
READY_PATIENCE = 2.0
"""Seconds to wait for a server; one that runs answers at once."""
PAGE_PATIENCE = 60.0
"""Seconds for a page, which may wait behind other work."""


async def all_letters(bus: Connection) -> AsyncIterator[StoredLetter]:
    """Yield all letters, oldest first.

    Raises:
        ForbiddenError: The caller may not see them.
        BusError: The memory does not answer.
    """
    number = 0
    while (found := await _of_letters(bus, "next", number + 1)) is not None:
        number = found.sequence
        yield found


async def letter_at(bus: Connection, number: int) -> StoredLetter:
    """Return the letter of this number.

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
        BadRequestError: The message is incomplete, or neither a turn nor a rating.
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
            "which is not stored in the memory.",
            remedy="Drop it.",
        )
    await publish_durably(bus, letter.subject, letter.message.encode())


async def drop_letter(bus: Connection, number: int) -> None:
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
    """Return whether ledger and index agree, and what is wrong if they do not."""
    return await ask(bus, subjects.MEMORY_STATUS, Empty(), MemoryStatus)


async def start_reindex(bus: Connection, embedder: str | None = None) -> MemoryStatus:
    """Empty the index and fill it again; `waiting` of later statuses counts down.

    With an embedder, another index is filled while the present one serves: see `next` in later
    statuses.
    """
    wanted = Reindex(embedder=embedder)
    return await ask(bus, subjects.MEMORY_REINDEX, wanted, MemoryStatus, timeout=REINDEX_TIMEOUT)


async def begin_backup(bus: Connection, request: BackupRequest) -> BackupStatus:
    """Start a backup; without a folder, only return how far one is.

    Raises:
        ForbiddenError: The caller may not.
        InvalidArgumentsError: The folder, or the number to keep, is wrong.
        OverloadedError: A backup is running.
        BusError: Nobody answers.
    """
    return await ask(bus, subjects.MEMORY_BACKUP, request, BackupStatus)


async def backup_status(bus: Connection) -> BackupStatus:
    """Return how far the running backup is, and how the one before ended."""
    return await begin_backup(bus, BackupRequest())


async def readiness(settings: Settings) -> Readiness:
    """Return whether the stack serves everybody; with accounts, whether it serves each tenant.

    Raises:
        BusError: No stack answers.
        ForbiddenError: It refuses the credentials.
        ConfigError: The accounts cannot be read.
    """
    entries = Entries.read(settings.bus.accounts)
    asked = [subjects.MEMORY_READY]
    if entries is not None:
        asked = [subjects.from_tenant(name, subjects.MEMORY_READY) for name in entries.tenants]
    async with connected(settings, name="cli", patience=READY_PATIENCE, operator=True) as bus:
        answers = await asyncio.gather(*(ask(bus, one, Empty(), Readiness) for one in asked))
    reasons = [reason for answer in answers for reason in answer.reasons]
    return Readiness(ready=all(answer.ready for answer in answers), reasons=reasons)


async def export_page(bus: Connection, wanted: ExportRequest, caller: Sender) -> ExportPage:
    """Return the next page of an export.

    Raises:
        InvalidArgumentsError: The scope needs an identity that the caller lacks.
        BusError: There is no answer, or none with a page.
    """
    return await ask(bus, subjects.MEMORY_EXPORT, wanted, ExportPage, caller, timeout=PAGE_PATIENCE)


async def import_lines(bus: Connection, wanted: ImportRequest, caller: Sender) -> ImportReport:
    """Store the lines, all or none.

    Raises:
        BadRequestError: A line was refused.
        BusError: There is no answer, or nothing could be stored.
    """
    return await ask(
        bus, subjects.MEMORY_IMPORT, wanted, ImportReport, caller, timeout=PAGE_PATIENCE
    )
