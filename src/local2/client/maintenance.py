"""Operator requests over the bus: status, readiness, reindex, backups, transfers."""

import asyncio

from local2.bus.connection import Connection
from local2.client.access import ask, connected
from local2.protocol import subjects
from local2.protocol.browsing import Browse, BrowsedPage, Growth, GrowthRequest, Overview
from local2.protocol.envelope import Sender
from local2.protocol.explaining import Explain, Explained
from local2.protocol.maintenance import (
    BackupList,
    BackupRequest,
    BackupsFound,
    BackupStatus,
    CheckResult,
    ExportPage,
    ExportRequest,
    Findings,
    ImportReport,
    ImportRequest,
    MemoryStatus,
    Readiness,
    Reindex,
    RetentionReport,
    TaskReport,
    TaskRequest,
    VerificationRequest,
)
from local2.protocol.payloads import Empty
from local2.settings import Settings
from local2.tenants.directory import Entries

REINDEX_TIMEOUT = 60.0
"""Seconds to wait for the reply to a reindex, which is sent once the index has been emptied."""
READY_PATIENCE = 2.0
"""Seconds to wait for a server; a running one answers at once."""
PAGE_PATIENCE = 60.0
"""Seconds to wait for a page of an export or import, which may queue after other work."""


async def memory_status(bus: Connection) -> MemoryStatus:
    """Ask whether ledger and index agree, and if not, what is wrong."""
    return await ask(bus, subjects.MEMORY_STATUS, Empty(), MemoryStatus)


async def findings(bus: Connection) -> list[CheckResult]:
    """Ask what works, what does not, and what to do."""
    return (await ask(bus, subjects.MEMORY_FINDINGS, Empty(), Findings)).findings


async def retention(bus: Connection) -> RetentionReport:
    """Ask which retired records are due for anonymisation.

    Raises:
        ForbiddenError: The caller may not.
        BusError: The memory does not answer.
    """
    return await ask(bus, subjects.MEMORY_RETENTION, Empty(), RetentionReport)


async def start_reindex(bus: Connection, embedder: str | None = None) -> MemoryStatus:
    """Empty the index and fill it again; `waiting` in later statuses counts down.

    With an embedder, fill another index while the present one serves; see `next` in later statuses.
    """
    wanted = Reindex(embedder=embedder)
    return await ask(bus, subjects.MEMORY_REINDEX, wanted, MemoryStatus, timeout=REINDEX_TIMEOUT)


async def tasks(bus: Connection, request: TaskRequest) -> TaskReport:
    """Ask for the work on records, and to try again or discard what was set aside.

    Raises:
        ForbiddenError: The caller may not.
        InvalidArgumentsError: There are no such tasks, or they may not be discarded.
        BusError: The memory does not answer.
    """
    return await ask(bus, subjects.MEMORY_TASKS, request, TaskReport, timeout=PAGE_PATIENCE)


async def begin_backup(bus: Connection, request: BackupRequest) -> BackupStatus:
    """Start a backup, or without a folder only return the progress of the running one.

    Raises:
        ForbiddenError: The caller may not make backups.
        InvalidArgumentsError: The folder, or the number to keep, is wrong.
        OverloadedError: A backup is already running.
        BusError: The memory does not answer.
    """
    return await ask(bus, subjects.MEMORY_BACKUP, request, BackupStatus)


async def backup_status(bus: Connection) -> BackupStatus:
    """Ask for the progress of the running backup, and how the previous one ended."""
    return await begin_backup(bus, BackupRequest())


async def list_backups(bus: Connection, folder: str | None = None) -> BackupsFound:
    """List the backups in a folder on the stack's machine, by default the automatic ones.

    Raises:
        InvalidArgumentsError: No folder is named, and there are no automatic backups.
        UnavailableError: It is not a folder of backups.
        BusError: The memory does not answer.
    """
    return await ask(bus, subjects.MEMORY_BACKUP_LIST, BackupList(folder=folder), BackupsFound)


async def verify_backup(bus: Connection, request: VerificationRequest) -> BackupStatus:
    """Let the stack begin to read a backup whole; `backup_status` says what was found.

    Raises:
        InvalidArgumentsError: No folder is named, and there are no automatic backups.
        OverloadedError: Another backup is made or read at present.
        BusError: The memory does not answer.
    """
    return await ask(bus, subjects.MEMORY_BACKUP_VERIFY, request, BackupStatus)


async def readiness(settings: Settings) -> Readiness:
    """Ask whether the stack serves requests; with accounts, those of every tenant.

    Raises:
        BusError: No stack answers.
        ForbiddenError: The stack refuses the credentials.
        ConfigError: The accounts cannot be read.
    """
    entries = Entries.read(settings.bus.accounts)
    ready_subjects = [subjects.MEMORY_READY]
    if entries is not None:
        ready_subjects = [
            subjects.from_tenant(tenant, subjects.MEMORY_READY) for tenant in entries.tenants
        ]
    async with connected(settings, name="cli", patience=READY_PATIENCE, operator=True) as bus:
        replies = await asyncio.gather(
            *(ask(bus, subject, Empty(), Readiness) for subject in ready_subjects)
        )
    reasons = [reason for reply in replies for reason in reply.reasons]
    return Readiness(ready=all(reply.ready for reply in replies), reasons=reasons)


async def browse(bus: Connection, wanted: Browse, caller: Sender) -> BrowsedPage:
    """Fetch a page of memories: the caller's and those for everybody, or with BrowseAll, all.

    Raises:
        ForbiddenError: The caller's role may not look through the memories of others.
        InvalidArgumentsError: A condition is not valid.
        BusError: There is no reply.
    """
    return await ask(bus, wanted.subject, wanted, BrowsedPage, caller, timeout=PAGE_PATIENCE)


async def overview(bus: Connection, caller: Sender, *, everybody: bool = False) -> Overview:
    """Ask what the caller's memory consists of, or everybody's.

    Raises:
        ForbiddenError: The caller's role may not look through the memories of others.
        BusError: There is no reply.
    """
    subject = subjects.MEMORY_OVERVIEW_ALL if everybody else subjects.MEMORY_OVERVIEW
    return await ask(bus, subject, Empty(), Overview, caller, timeout=PAGE_PATIENCE)


async def explain(bus: Connection, asked: Explain, caller: Sender) -> Explained:
    """Ask why a question finds some memories, and not another one.

    Raises:
        InvalidArgumentsError: The question is not valid.
        BusError: There is no reply.
    """
    return await ask(bus, subjects.MEMORY_EXPLAIN, asked, Explained, caller, timeout=PAGE_PATIENCE)


async def growth(
    bus: Connection, wanted: GrowthRequest, caller: Sender, *, everybody: bool = False
) -> Growth:
    """Ask how many memories each day has: the caller's, or everybody's.

    Raises:
        ForbiddenError: The caller's role may not look through the memories of others.
        BusError: There is no reply.
    """
    subject = subjects.MEMORY_GROWTH_ALL if everybody else subjects.MEMORY_GROWTH
    return await ask(bus, subject, wanted, Growth, caller, timeout=PAGE_PATIENCE)


async def export_page(bus: Connection, wanted: ExportRequest, caller: Sender) -> ExportPage:
    """Fetch the next page of an export.

    Raises:
        InvalidArgumentsError: The scope needs an identity that the caller lacks.
        BusError: There is no reply, or it holds no page.
    """
    return await ask(bus, subjects.MEMORY_EXPORT, wanted, ExportPage, caller, timeout=PAGE_PATIENCE)


async def import_lines(bus: Connection, wanted: ImportRequest, caller: Sender) -> ImportReport:
    """Store all the lines or none.

    Raises:
        BadRequestError: A line was refused.
        BusError: There is no reply, or nothing could be stored.
    """
    return await ask(
        bus, subjects.MEMORY_IMPORT, wanted, ImportReport, caller, timeout=PAGE_PATIENCE
    )
