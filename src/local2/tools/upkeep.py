"""Tools for upkeep: consolidate facts, undo runs, list changes."""

from collections import Counter

from local2.ledger.upkeep import Change
from local2.memory.service import MemoryService
from local2.memory.upkeep.consolidation import Consolidated
from local2.protocol.memory_tools import (
    AUDIT,
    CONSOLIDATE,
    UNDO,
    Audit,
    AuditEntry,
    Consolidate,
    ConsolidationChange,
    ConsolidationReport,
    Undo,
    UndoReport,
)
from local2.protocol.tool import ToolOutput
from local2.tools.base import DATA_BYTES, answers, shortened


@answers(CONSOLIDATE)
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


@answers(UNDO)
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


NOTHING_CHANGED = "Nothing was changed."


@answers(AUDIT)
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
