"""Checks of the running stack and its memory, or of the ledger if no stack runs."""

from collections.abc import AsyncIterator
from contextlib import nullcontext

import msgspec

from local2.agents.findings import check_backups, check_tasks, describe_counts
from local2.backup.files import ledger_files
from local2.client.access import ask_service, connected
from local2.errors import (
    RESTORE,
    BusError,
    ConfigError,
    FolderLockedError,
    ForbiddenError,
    StackNotRunningError,
    StorageError,
)
from local2.home import SILENT_STACK, folder_lock, require_own_stack
from local2.protocol.envelope import DEFAULT_TENANT
from local2.protocol.maintenance import BackupRequest, CheckResult
from local2.protocol.payloads import Empty
from local2.protocol.services import BACKUP, FINDINGS, READY
from local2.settings import MemorySettings, Settings
from local2.stack.ledgers import Ledgers, content_keys, tenants_of
from local2.tenants.credentials import has_accounts
from local2.vectors.config import collection_name, count_vectors

PATIENCE = 2.0
"""Seconds to wait for a stack; a running one answers at once."""
WHOLE_LEDGER = "whole ledger"
STOP_FIRST = "Stop the stack, which keeps writing to the ledger, and try again."


async def check_stack(settings: Settings, *, deep: bool) -> AsyncIterator[CheckResult]:
    try:
        async with connected(settings, name="cli", patience=PATIENCE) as bus:
            yield CheckResult("stack", "ok", f"running at {bus.url}")
            ready = await ask_service(bus, READY, Empty())
            async for finding in _missing_here(settings, ready.stacks):
                yield finding
            for finding in (await ask_service(bus, FINDINGS, Empty())).findings:
                yield finding
            if has_accounts(settings.bus):  # a tenant is not told of the backups of all
                async with connected(settings, name="cli", operator=True) as own:
                    status = await ask_service(own, BACKUP, BackupRequest())
                    yield check_backups(status, settings.memory)
            if deep:
                yield CheckResult(WHOLE_LEDGER, "note", "not read", remedy=STOP_FIRST)
    except (ForbiddenError, BusError) as error:
        yield CheckResult("stack", "note", error.message, remedy=error.remedy)
        if not isinstance(error, ForbiddenError):
            async for finding in _ledgers(settings, deep=deep):
                yield finding


async def _missing_here(settings: Settings, live: list[str]) -> AsyncIterator[CheckResult]:
    """Report that others answer, but not the stack of this folder, and what keeps it from that."""
    try:
        require_own_stack(settings, live)
    except StackNotRunningError as error:
        yield CheckResult("stack here", "broken", f"{error.message} Others answer.", error.remedy)
        async for finding in _ledgers(settings, deep=False):
            if finding.verdict == "broken":
                yield finding


async def _ledgers(settings: Settings, *, deep: bool) -> AsyncIterator[CheckResult]:
    """Read every ledger while no stack runs. Starts compare their indexes, and so does `deep`."""
    memory = settings.memory
    if memory.data_dir.is_file():  # the check of the folder reports it
        return
    whole: set[str] = set()
    try:
        with folder_lock(memory.data_dir) if ledger_files(memory.data_dir) else nullcontext():
            async with Ledgers(memory, content_keys(settings)) as ledgers:
                for tenant in tenants_of(settings):
                    async for finding in _ledger(memory, ledgers, tenant, whole if deep else None):
                        if tenant != DEFAULT_TENANT:
                            name = f"{finding.name} of {tenant}"
                            yield msgspec.structs.replace(finding, name=name)
                        else:
                            yield finding
    except FolderLockedError as error:
        detail = f"Not read: process {error.holder} works on it, and does not answer on the bus."
        yield CheckResult("ledger", "broken", detail, remedy=SILENT_STACK)
    except (StorageError, ConfigError) as error:
        yield CheckResult.broken("ledger", error)


async def _ledger(
    memory: MemorySettings, ledgers: Ledgers, tenant: str, whole: set[str] | None
) -> AsyncIterator[CheckResult]:
    """Check a tenant's ledger.

    `whole` holds the files that were read completely so far; None means not to read whole files.
    """
    try:
        path = await ledgers.find(tenant)
        if path is None:
            yield CheckResult("ledger", "ok", "nothing is remembered yet")
            return
        async with ledgers.open(tenant) as ledger:
            counts = await ledger.counts()
            yield CheckResult("ledger", "ok", describe_counts(counts))
            yield check_tasks(await ledger.backlog.counts())
            if whole is None:
                return
            if path not in whole:  # tenants without a key share a file
                whole.add(path)
                if problems := await ledger.problems():
                    detail = " ".join(problems)
                    yield CheckResult(WHOLE_LEDGER, "broken", detail, remedy=RESTORE)
                else:
                    yield CheckResult(WHOLE_LEDGER, "ok", "every page, record and word is intact")
            if ledger.vectors is None:
                collection = collection_name(memory.collection, tenant, "serving")
                vectors = count_vectors(memory.chroma_path, collection)
            else:
                serving = (await ledger.vectors.embedders()).serving
                vectors = 0 if serving is None else await ledger.vectors.count(serving)
            detail = f"{vectors} vectors of {counts.indexed} indexed records"
            if vectors == counts.indexed:
                yield CheckResult("index", "ok", detail)
            else:
                remedy = "It is repaired at the next start."
                yield CheckResult("index", "note", detail, remedy=remedy)
    except StorageError as error:
        yield CheckResult.broken("ledger", error)
