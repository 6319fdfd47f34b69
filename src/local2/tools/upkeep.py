"""Tools for upkeep: consolidate facts, undo runs, list changes, erase records."""

from collections import Counter
from typing import Annotated

import msgspec

from local2.ledger.upkeep import Change
from local2.memory.service import MemoryService
from local2.memory.upkeep.consolidation import Consolidated
from local2.protocol.answers import (
    AuditEntry,
    AuditTrail,
    ConsolidationChange,
    ConsolidationReport,
    Receipt,
    UndoReport,
)
from local2.protocol.envelope import Name
from local2.protocol.tool import ToolOutput
from local2.tools.base import DATA_BYTES, ERASES, READS, WRITES, Args, MemoryTool, shortened

CONSOLIDATE_DESCRIPTION = (
    "Keep the caller's facts and those for everybody in order: archive what is stale, merge "
    "duplicates, resolve contradictions, raise the importance of what is recalled. Every change "
    "is in the audit, and `undo` reverses the whole run."
)


class Consolidate(Args, frozen=True):
    dry_run: Annotated[
        bool, msgspec.Meta(description="Only list what would be changed, and change nothing.")
    ] = False


async def consolidate(memory: MemoryService, args: Consolidate) -> ToolOutput:
    done = await memory.consolidate(dry_run=args.dry_run)
    changes = shortened([_change(change) for change in done.changes], DATA_BYTES)
    return ToolOutput(
        content=_consolidated(done, dry_run=args.dry_run),
        data=ConsolidationReport(
            run=done.run,
            facts=done.facts,
            changes=changes,
            left=done.left,
            not_done=done.not_done,
        ),
    )


def _consolidated(done: Consolidated, *, dry_run: bool) -> str:
    counts = Counter(change.action for change in done.changes)
    changes = ", ".join(f"{count} {action}" for action, count in counts.items())
    if not changes:
        return f"Facts checked: {done.facts}. Nothing to change."
    verb = "Would change" if dry_run else "Changed"
    run = f" (run {done.run})" if done.run else ""
    return f"Facts checked: {done.facts}. {verb}: {changes}{run}."


def _change(change: Change) -> ConsolidationChange:
    fact = change.fact
    return ConsolidationChange(
        action=change.action,
        id=fact.id,
        reason=change.reason,
        scope=fact.scope,
        content=fact.content,
        topic=fact.topic,
        memory_type=fact.memory_type,
        superseded_by=change.superseded_by or None,
        before=None if change.importance is None else fact.importance,
        after=change.importance,
    )


CONSOLIDATE = MemoryTool[Consolidate](
    name="consolidate",
    title="Keep memories in order",
    description=CONSOLIDATE_DESCRIPTION,
    annotations=WRITES,
    args=Consolidate,
    answer=ConsolidationReport,
    function=consolidate,
    for_models=False,
    operation="update_memory",
)


UNDO_DESCRIPTION = (
    "Undo the changes that a run of `consolidate` made to what the caller may see: facts become "
    "active again, importances return to their earlier values. What has changed since stays, and "
    "is listed."
)


class Undo(Args, frozen=True):
    run: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=256, description="The run's id, from the report or the audit."
        ),
    ]


async def undo(memory: MemoryService, args: Undo) -> ToolOutput:
    report = await memory.audit.undo(args.run)
    return ToolOutput(content=_undone(report), data=report)


def _undone(report: UndoReport) -> str:
    count = len(report.undone)
    were = "1 memory is as it was" if count == 1 else f"{count} memories are as they were"
    parts = [f"{were} before run {report.run}"]
    if report.not_done:
        parts.append(f"{len(report.not_done)} changes could not be undone")
    if report.others:
        parts.append(f"{report.others} concern others, who may undo them")
    return f"{'; '.join(parts)}."


UNDO = MemoryTool[Undo](
    name="undo",
    title="Undo a consolidation",
    description=UNDO_DESCRIPTION,
    annotations=WRITES,
    args=Undo,
    answer=UndoReport,
    function=undo,
    for_models=False,
    operation="update_memory",
)


AUDIT_DESCRIPTION = (
    "List changes of state, newest first: facts that were replaced, merged, contradicted or "
    "archived, importances that changed, and what was undone. Ids and reasons, never content."
)
NOTHING_CHANGED = "Nothing was changed."


class Audit(Args, frozen=True):
    id: Annotated[
        Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None,
        msgspec.Meta(description="Only entries about this record."),
    ] = None
    run: Annotated[
        Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None,
        msgspec.Meta(description="Only entries of this consolidation run."),
    ] = None
    limit: Annotated[
        int, msgspec.Meta(ge=1, le=1_000, description="Maximum number of entries to return.")
    ] = 100
    before: Annotated[
        Annotated[int, msgspec.Meta(ge=1, lt=2**53)] | None,
        msgspec.Meta(description="`next` of the previous page, to continue after it."),
    ] = None


async def audit(memory: MemoryService, args: Audit) -> ToolOutput:
    trail = await memory.audit.trail(
        args.limit, record_id=args.id, run=args.run, before=args.before
    )
    return ToolOutput(
        content="\n".join(map(_change_line, trail.entries)) or NOTHING_CHANGED, data=trail
    )


def _change_line(entry: AuditEntry) -> str:
    reason = f": {entry.reason}" if entry.reason else ""
    return f"{entry.at:%Y-%m-%d %H:%M} {entry.action} {entry.id}{reason}"


AUDIT = MemoryTool[Audit](
    name="audit",
    title="Show what was changed",
    description=AUDIT_DESCRIPTION,
    annotations=READS,
    args=Audit,
    answer=AuditTrail,
    function=audit,
    for_models=False,
)


FORGET_DESCRIPTION = (
    "Erase for good what the caller said or stated: everything of the envelope's user, a "
    "session, a topic or the record of an id, with all its versions and what was derived from it "
    "alone. Returns a receipt; with dry_run, only counts what would be erased."
)
Named = Annotated[Name, msgspec.Meta(min_length=1)]


class Forget(Args, frozen=True):
    everything: Annotated[
        bool, msgspec.Meta(description="Everything that the envelope's user said or stated.")
    ] = False
    session_id: Named | None = None
    topic: Named | None = None
    id: Annotated[
        Named | None,
        msgspec.Meta(description="The id of a record; its turn or document is erased, too."),
    ] = None
    dry_run: bool = False
    allow_again: Annotated[
        bool,
        msgspec.Meta(
            description="Let a later import store it again, even if it is already erased."
        ),
    ] = False


async def forget(memory: MemoryService, args: Forget) -> ToolOutput:
    selection = memory.erasure.selection(
        everything=args.everything, session_id=args.session_id, topic=args.topic, id=args.id
    )
    receipt = await memory.erasure.erase(
        selection, dry_run=args.dry_run, allow_again=args.allow_again
    )
    return ToolOutput(content=_receipt_text(receipt), data=receipt)


def _receipt_text(receipt: Receipt) -> str:
    what = ", ".join(f"{count} {name}" for name, count in receipt.erased.items()) or "nothing"
    if receipt.dry_run:
        return f"Would erase {what}."
    left = [one for one in receipt.checks if one.found]
    rest = [f"{one.name}: {one.found} left. {one.note or ''}".strip() for one in left]
    if not left:
        return f"Erased {what}; the checks found nothing left."
    return "\n".join([f"Erased {what}.", *rest])


FORGET = MemoryTool[Forget](
    name="forget",
    title="Forget for good",
    description=FORGET_DESCRIPTION,
    annotations=ERASES,
    args=Forget,
    answer=Receipt,
    function=forget,
    for_models=False,
    operation="delete_memory",
    action=lambda args: "forget" if args.everything else "forget_own",
)
