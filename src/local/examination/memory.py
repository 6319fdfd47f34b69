"""What the status of a memory says of its health."""

from collections.abc import Sequence

from local.examination.result import CheckResult, Verdict
from local.ledger.records import Counts
from local.ledger.tasks import TaskCounts
from local.protocol.answers import ConsolidationStatus
from local.protocol.envelope import utc_now
from local.protocol.maintenance import BackupStatus, MemoryStatus, NextIndex, TasksSetAside
from local.settings import MemorySettings

BACKUP = "backups"
STALLED = 30.0
"""Seconds without a newly indexed record, while some wait; a batch takes fewer."""


def index(status: MemoryStatus) -> CheckResult:
    counts = counted(status)
    stalled = _stalled_seconds(status)
    if stalled > STALLED:
        counts += f", none of them indexed for {stalled:.0f} s"
    if status.problem is not None:
        return CheckResult(name="index", verdict="broken", detail=counts, remedy=status.problem)
    if stalled > STALLED:
        remedy = "The vector worker takes long or hangs: see its log; then start the stack again."
        return CheckResult(name="index", verdict="broken", detail=counts, remedy=remedy)
    if status.in_index != status.indexed:
        detail = f"{counts}; the index holds {status.in_index}"
        verdict: Verdict = "note" if status.waiting else "broken"
        return CheckResult(name="index", verdict=verdict, detail=detail, remedy="`local2 reindex`")
    return CheckResult(name="index", verdict="ok", detail=f"{counts} ({status.embedder})")


def next_index(indexed: int, following: NextIndex) -> CheckResult:
    detail = f"{max(indexed - following.waiting, 0)} of {indexed} records ({following.embedder})"
    verdict: Verdict = "ok" if following.problem is None else "broken"
    return CheckResult(name="next index", verdict=verdict, detail=detail, remedy=following.problem)


def tasks(counts: Sequence[TasksSetAside | TaskCounts]) -> CheckResult:
    aside = [f"{n.aside} of kind {n.kind} ({'; '.join(n.errors)})" for n in counts if n.aside]
    if not aside:
        return CheckResult(name="tasks", verdict="ok", detail="none was set aside")
    detail = f"Set aside after failing again and again: {', '.join(aside)}"
    remedy = "The log says which. Each is tried once more when the stack starts."
    return CheckResult(name="tasks", verdict="broken", detail=detail, remedy=remedy)


def consolidation(status: ConsolidationStatus | None) -> CheckResult:
    name = "consolidation"
    if status is None or (status.run is None and status.problem is None):
        return CheckResult(name=name, verdict="ok", detail="there was none yet")
    when = f"{status.began_at:%Y-%m-%d %H:%M}" if status.began_at else "never"
    detail = f"last at {when}: {status.changed} changes, run {status.run}"
    if status.problem is not None:
        remedy = "`local2 consolidate` tries again at once; by itself it does after its hours."
        return CheckResult(name=name, verdict="broken", detail=status.problem, remedy=remedy)
    if status.failed:
        detail += f"; {status.failed} failed"
        remedy = "The log says which, and why. The next one tries them again."
        return CheckResult(name=name, verdict="broken", detail=detail, remedy=remedy)
    if status.ended_at is None and not status.under_way:
        detail += "; it was interrupted"
        return CheckResult(name=name, verdict="note", detail=detail, remedy="The next one goes on.")
    return CheckResult(name=name, verdict="ok", detail=detail)


def backups(status: BackupStatus) -> CheckResult:
    if status.problem is not None:
        return CheckResult(name=BACKUP, verdict="broken", detail=status.problem)
    if status.scheduled is None:
        remedy = "Set backup_folder in config/memory.yaml, or run `local2 backup DIR`."
        return CheckResult(name=BACKUP, verdict="note", detail="none by themselves", remedy=remedy)
    when = f"the newest of {status.newest:%Y-%m-%d %H:%M}" if status.newest else "none yet"
    return CheckResult(name=BACKUP, verdict="ok", detail=f"{when}, in {status.scheduled}")


def turns(status: MemoryStatus) -> CheckResult:
    if status.turns_problem is None:
        return CheckResult(name="turns", verdict="ok", detail="JetStream takes them")
    return CheckResult(name="turns", verdict="broken", detail=status.turns_problem)


def retention(status: MemoryStatus, memory: MemorySettings) -> CheckResult:
    due = f"{status.to_anonymise} records, retired {memory.anonymise_after_days} days ago or longer"
    if memory.anonymise == "on":
        return CheckResult(name="retention", verdict="ok", detail=f"anonymises {due}")
    detail = f"would anonymise {due} (anonymise: {memory.anonymise})"
    remedy = "Set `anonymise: on` in config/memory.yaml to do so."
    return CheckResult(name="retention", verdict="note", detail=detail, remedy=remedy)


def dead_letters(status: MemoryStatus) -> CheckResult:
    """Unreadable messages are no fault of the stack, but their senders should know."""
    if not status.dead_letters:
        return CheckResult(name="dead letters", verdict="ok", detail="every message could be read")
    return CheckResult(
        name="dead letters",
        verdict="note",
        detail=f"{status.dead_letters} messages could not be read",
        remedy="`local2 dead-letters list` says why.",
    )


def counted(counts: Counts | MemoryStatus) -> str:
    return f"{counts.records} records, {counts.indexed} indexed, {counts.waiting} waiting"


def _stalled_seconds(status: MemoryStatus) -> float:
    """Seconds for which records have been waiting while none was indexed."""
    if not status.waiting or status.waiting_since is None:
        return 0.0
    return (utc_now() - status.waiting_since).total_seconds()
