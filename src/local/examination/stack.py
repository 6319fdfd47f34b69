"""Asks the running stack, or reads the ledger itself where none runs."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path

import msgspec

from local.backup.ledgers import ledger_files
from local.client.access import connected
from local.client.maintenance import backup_status, memory_status
from local.errors import (
    RESTORE,
    BusError,
    ConfigError,
    FolderLockedError,
    ForbiddenError,
    StorageError,
)
from local.examination.memory import (
    backups,
    consolidation,
    counted,
    dead_letters,
    index,
    next_index,
    retention,
    tasks,
    turns,
)
from local.examination.result import CheckResult, broken
from local.folder import folder_lock
from local.ledger.records import Counts
from local.opening import Ledgers, content_keys, open_ledgers, tenants_of
from local.protocol.envelope import DEFAULT_TENANT
from local.settings import MemorySettings, Settings
from local.vectors.config import count_vectors
from local.vectors.names import name_of

PATIENCE = 2.0
"""Seconds to wait for a stack; one that runs answers at once."""
WHOLE = "whole ledger"
UNANSWERED = (
    "Wait a moment if it has only been started. If it stays silent its log says why: end that "
    "process, with SIGKILL if need be, and start the stack again; nothing that was acknowledged is "
    "lost."
)
STOP_FIRST = "Stop the stack, which writes it meanwhile, and ask again."


async def check_stack(settings: Settings, *, deep: bool) -> AsyncIterator[CheckResult]:
    try:
        async with connected(settings, name="cli", patience=PATIENCE) as bus:
            yield CheckResult(name="stack", verdict="ok", detail=f"running at {bus.url}")
            status = await memory_status(bus)
            yield index(status)
            if status.next is not None:
                yield next_index(status.indexed, status.next)
            yield tasks(status.set_aside)
            yield consolidation(status.consolidation)
            yield turns(status)
            async with connected(settings, name="cli", operator=True) as own:
                yield backups(await backup_status(own))
            if status.to_anonymise:
                yield retention(status, settings.memory)
            yield dead_letters(status)
            if deep:
                yield CheckResult(name=WHOLE, verdict="note", detail="not read", remedy=STOP_FIRST)
    except ForbiddenError as error:
        yield CheckResult(name="stack", verdict="note", detail=error.message, remedy=error.remedy)
    except BusError as error:
        yield CheckResult(name="stack", verdict="note", detail=error.message, remedy=error.remedy)
        async for finding in _ledgers(settings, deep=deep):
            yield finding


async def _ledgers(settings: Settings, *, deep: bool) -> AsyncIterator[CheckResult]:
    """Without a stack every ledger is read; its index is compared at the next start."""
    memory = settings.memory
    if memory.data_dir.is_file():  # the check of the folder reports it
        return
    whole: set[Path] = set()
    try:
        with folder_lock(memory.data_dir) if ledger_files(memory.data_dir) else nullcontext():
            async with open_ledgers(memory, content_keys(settings)) as ledgers:
                for tenant in tenants_of(settings):
                    async for finding in _ledger(memory, ledgers, tenant, whole if deep else None):
                        yield _of(tenant, finding)
    except FolderLockedError as error:
        detail = f"Not read: process {error.holder} works on it, and does not answer on the bus."
        yield CheckResult(name="ledger", verdict="broken", detail=detail, remedy=UNANSWERED)
    except (StorageError, ConfigError) as error:
        yield broken("ledger", error)


async def _ledger(
    memory: MemorySettings, ledgers: Ledgers, tenant: str, whole: set[Path] | None
) -> AsyncIterator[CheckResult]:
    """Of one tenant; `whole`: files of which all was read, None where that is not wanted."""
    try:
        path = await ledgers.found(tenant)
        if path is None:
            yield CheckResult(name="ledger", verdict="ok", detail="nothing is remembered yet")
            return
        async with ledgers.opened(tenant) as ledger:
            counts = await ledger.counts()
            yield CheckResult(name="ledger", verdict="ok", detail=counted(counts))
            yield tasks(await ledger.backlog.counts())
            if whole is None:
                return
            if path not in whole:  # tenants without a key share one
                whole.add(path)
                yield _whole(await ledger.unsound())
            collection = name_of(memory.collection, tenant, "serving")
            yield _compared(counts, count_vectors(memory.chroma_path, collection))
    except StorageError as error:
        yield broken("ledger", error)


def _of(tenant: str, finding: CheckResult) -> CheckResult:
    name = finding.name if tenant == DEFAULT_TENANT else f"{finding.name} of {tenant}"
    return msgspec.structs.replace(finding, name=name)


def _whole(problems: list[str]) -> CheckResult:
    if not problems:
        return CheckResult(name=WHOLE, verdict="ok", detail="every page, record and word is there")
    return CheckResult(name=WHOLE, verdict="broken", detail=" ".join(problems), remedy=RESTORE)


def _compared(counts: Counts, vectors: int) -> CheckResult:
    detail = f"{vectors} vectors of {counts.indexed} indexed records"
    if vectors == counts.indexed:
        return CheckResult(name="index", verdict="ok", detail=detail)
    return CheckResult(
        name="index", verdict="note", detail=detail, remedy="It is mended at the next start."
    )
