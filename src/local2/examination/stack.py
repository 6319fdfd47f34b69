"""Checks of the running stack and its memory, or of the ledger if no stack runs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext

import msgspec

from local2.backup.files import ledger_files
from local2.backup.service import BY_POSTGRESQL
from local2.client.access import connected
from local2.client.maintenance import backup_status, memory_status
from local2.errors import (
    RESTORE,
    BusError,
    ConfigError,
    FolderLockedError,
    ForbiddenError,
    StorageError,
)
from local2.examination.models import embedding_server
from local2.home import folder_lock
from local2.ledger.ledger import Ledger
from local2.ledger.records import Counts, TaskCounts
from local2.protocol.envelope import DEFAULT_TENANT, utc_now
from local2.protocol.maintenance import (
    BackupStatus,
    CheckResult,
    ConsolidationStatus,
    LiveStack,
    MemoryStatus,
    ModelStatus,
    NextIndex,
    TasksSetAside,
    Verdict,
)
from local2.settings import MemorySettings, Settings
from local2.stack.ledgers import Ledgers, content_keys, open_ledgers, tenants_of
from local2.vectors.config import collection_name, count_vectors

PATIENCE = 2.0
"""Seconds to wait for a stack; a running one answers at once."""
WHOLE_LEDGER = "whole ledger"
SILENT_STACK = (
    "Wait a moment if it has just been started. If it still does not answer, its log says why: end "
    "that process, with SIGKILL if necessary, and start the stack again; nothing that was "
    "acknowledged is lost."
)
STOP_FIRST = "Stop the stack, which keeps writing to the ledger, and try again."
BACKUPS = "backups"
SILENT_SECONDS = 5.0
"""Seconds after which a stack that shares the ledger counts as silent: it speaks every two."""
STALLED_SECONDS = 30.0
"""Seconds after which indexing counts as stalled, if records wait and none is indexed. A batch
takes less."""


async def check_stack(settings: Settings, *, deep: bool) -> AsyncIterator[CheckResult]:
    try:
        async with connected(settings, name="cli", patience=PATIENCE) as bus:
            yield CheckResult("stack", "ok", f"running at {bus.url}")
            status = await memory_status(bus)
            if status.stacks:
                yield stacks(status.stacks)
            yield index(status, settings.memory)
            if status.next is not None:
                yield next_index(status.indexed, status.next)
            yield tasks(status.set_aside)
            if status.models is not None:
                yield models(status.models)
            yield consolidation(status.consolidation)
            yield turns(status)
            async with connected(settings, name="cli", operator=True) as own:
                yield backups(await backup_status(own), settings.memory)
            if status.to_anonymise:
                yield retention(status, settings.memory)
            yield dead_letters(status)
            if deep:
                yield CheckResult(WHOLE_LEDGER, "note", "not read", remedy=STOP_FIRST)
    except ForbiddenError as error:
        yield CheckResult("stack", "note", error.message, remedy=error.remedy)
    except BusError as error:
        yield CheckResult("stack", "note", error.message, remedy=error.remedy)
        async for finding in _ledgers(settings, deep=deep):
            yield finding


async def _ledgers(settings: Settings, *, deep: bool) -> AsyncIterator[CheckResult]:
    """Read every ledger while no stack runs. Starts compare their indexes, and so does `deep`."""
    memory = settings.memory
    if memory.data_dir.is_file():  # the check of the folder reports it
        return
    whole: set[str] = set()
    try:
        with folder_lock(memory.data_dir) if ledger_files(memory.data_dir) else nullcontext():
            async with open_ledgers(memory, content_keys(settings)) as ledgers:
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
            yield tasks(await ledger.backlog.counts())
            if whole is None:
                return
            if path not in whole:  # tenants without a key share a file
                whole.add(path)
                if problems := await ledger.problems():
                    detail = " ".join(problems)
                    yield CheckResult(WHOLE_LEDGER, "broken", detail, remedy=RESTORE)
                else:
                    yield CheckResult(WHOLE_LEDGER, "ok", "every page, record and word is intact")
            vectors = await _count_vectors(memory, ledger)
            detail = f"{vectors} vectors of {counts.indexed} indexed records"
            if vectors == counts.indexed:
                yield CheckResult("index", "ok", detail)
            else:
                remedy = "It is repaired at the next start."
                yield CheckResult("index", "note", detail, remedy=remedy)
    except StorageError as error:
        yield CheckResult.broken("ledger", error)


async def _count_vectors(memory: MemorySettings, ledger: Ledger) -> int:
    if ledger.vectors is None:
        collection = collection_name(memory.collection, ledger.tenant, "serving")
        return count_vectors(memory.chroma_path, collection)
    serving = (await ledger.vectors.embedders()).serving
    return 0 if serving is None else await ledger.vectors.count(serving)


def index(status: MemoryStatus, memory: MemorySettings) -> CheckResult:
    counts = describe_counts(status)
    stalled = 0.0  # seconds for which records have been waiting while none was indexed
    if status.waiting and status.waiting_since is not None:
        stalled = (utc_now() - status.waiting_since).total_seconds()
    if stalled > STALLED_SECONDS:
        counts += f", none of them indexed for {stalled:.0f} s"
    if status.problem is not None:
        return CheckResult("index", "broken", counts, remedy=status.problem)
    if stalled > STALLED_SECONDS:
        # The worker has just answered, so a batch waits for the embedder's server, if it has one.
        server = embedding_server(status.embedder, memory)
        remedy = "The vector worker is slow or hangs: see its log, then restart the stack."
        if server is not None:
            remedy = f"{server} is slow to embed a batch, or hangs: see its log, and restart it."
        return CheckResult("index", "broken", counts, remedy=remedy)
    if status.in_index != status.indexed:
        detail = f"{counts}; the index holds {status.in_index}"
        verdict: Verdict = "note" if status.waiting else "broken"
        return CheckResult("index", verdict, detail, remedy="`local2 reindex`")
    return CheckResult("index", "ok", f"{counts} ({status.embedder})")


def stacks(live: Sequence[LiveStack]) -> CheckResult:
    """List the stacks that share the ledger."""
    names = [f"{stack.name}, since {stack.began_at:%Y-%m-%d %H:%M}" for stack in live]
    detail = f"{len(live)} share the ledger: {'; '.join(names)}"
    silent = [stack for stack in live if stack.silent > SILENT_SECONDS]
    if silent:
        detail += f"; {len(silent)} of them silent for up to {max(s.silent for s in silent):.0f} s"
        remedy = "Others take over what a silent stack does. If it stays away, see its log."
        return CheckResult("stacks", "note", detail, remedy=remedy)
    return CheckResult("stacks", "ok", detail)


def next_index(indexed: int, next_: NextIndex) -> CheckResult:
    detail = f"{max(indexed - next_.waiting, 0)} of {indexed} records ({next_.embedder})"
    verdict: Verdict = "ok" if next_.problem is None else "broken"
    return CheckResult("next index", verdict, detail, remedy=next_.problem)


def tasks(counts: Sequence[TasksSetAside | TaskCounts]) -> CheckResult:
    aside = [f"{n.aside} of kind {n.kind} ({'; '.join(n.errors)})" for n in counts if n.aside]
    if not aside:
        return CheckResult("tasks", "ok", "none was set aside")
    detail = f"Set aside after repeated failures: {', '.join(aside)}"
    remedy = "The log says which. Each is tried once more when the stack starts."
    return CheckResult("tasks", "broken", detail, remedy=remedy)


def models(status: ModelStatus) -> CheckResult:
    if not any(use.problem for use in status.uses):
        return CheckResult("memory's models", "ok", str(status))
    remedy = "Rules do it meanwhile. A model that failed is asked again by itself."
    return CheckResult("memory's models", "note", str(status), remedy=remedy)


def consolidation(status: ConsolidationStatus | None) -> CheckResult:
    name = "consolidation"
    if status is None or (status.run is None and status.problem is None):
        return CheckResult(name, "ok", "none has run yet")
    when = f"{status.began_at:%Y-%m-%d %H:%M}" if status.began_at else "never"
    detail = f"last at {when}: {status.changed} changes, run {status.run}"
    if status.problem is not None:
        remedy = "`local2 consolidate` tries again at once; else the next scheduled run does."
        return CheckResult(name, "broken", status.problem, remedy=remedy)
    if status.failed:
        detail += f"; {status.failed} failed"
        remedy = "The log says which, and why. The next run tries them again."
        return CheckResult(name, "broken", detail, remedy=remedy)
    if status.ended_at is None and not status.under_way:
        detail += "; it was interrupted"
        return CheckResult(name, "note", detail, remedy="The next run continues it.")
    return CheckResult(name, "ok", detail)


def backups(status: BackupStatus, memory: MemorySettings) -> CheckResult:
    if memory.ledger is not None:
        return CheckResult(BACKUPS, "note", BY_POSTGRESQL.message, remedy=BY_POSTGRESQL.remedy)
    if status.problem is not None:
        return CheckResult(BACKUPS, "broken", status.problem)
    if status.scheduled is None:
        remedy = "Set backup_folder in config/memory.yaml, or run `local2 backup DIR`."
        return CheckResult(BACKUPS, "note", "none are scheduled", remedy=remedy)
    when = f"the newest of {status.newest:%Y-%m-%d %H:%M}" if status.newest else "none yet"
    return CheckResult(BACKUPS, "ok", f"{when}, in {status.scheduled}")


def turns(status: MemoryStatus) -> CheckResult:
    if status.turns_problem is not None:
        return CheckResult("turns", "broken", status.turns_problem)
    if status.turns_waiting:
        detail = f"{status.turns_waiting} wait to be stored"
        return CheckResult("turns", "note", detail, remedy="The log names those that fail.")
    return CheckResult("turns", "ok", "JetStream accepts them")


def retention(status: MemoryStatus, memory: MemorySettings) -> CheckResult:
    due = f"{status.to_anonymise} records, retired {memory.anonymise_after_days} days ago or longer"
    if memory.anonymise == "on":
        return CheckResult("retention", "ok", f"anonymises {due}")
    detail = f"would anonymise {due} (anonymise: {memory.anonymise})"
    remedy = "Set `anonymise: on` in config/memory.yaml to do so."
    return CheckResult("retention", "note", detail, remedy=remedy)


def dead_letters(status: MemoryStatus) -> CheckResult:
    """Report messages that were given up. The reason says whether the sender is at fault."""
    if not status.dead_letters:
        return CheckResult("dead letters", "ok", "every message could be stored")
    return CheckResult(
        "dead letters",
        "note",
        f"{status.dead_letters} messages could not be stored",
        remedy="`local2 dead-letters list` says why.",
    )


def describe_counts(counts: Counts | MemoryStatus) -> str:
    return f"{counts.records} records, {counts.indexed} indexed, {counts.waiting} waiting"
