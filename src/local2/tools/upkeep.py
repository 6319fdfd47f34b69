"""Tools for upkeep: consolidate facts, undo runs, list changes, erase what was said."""

from collections import Counter

from local2.memory.service import MemoryService
from local2.protocol.memory_tools import (
    AUDIT,
    CONSOLIDATE,
    FORGET,
    UNDO,
    Audit,
    Consolidate,
    ConsolidationChange,
    ConsolidationReport,
    Forget,
    Undo,
)
from local2.protocol.tool import ToolOutput
from local2.tools.base import answers
from local2.tools.texts import DATA_BYTES, shortened


@answers(CONSOLIDATE)
async def consolidate(memory: MemoryService, args: Consolidate) -> ToolOutput:
    done = await memory.consolidate(dry_run=args.dry_run)
    counts = Counter(change.action for change in done.changes)
    listed = ", ".join(f"{count} {action}" for action, count in counts.items())
    outcome = "Nothing to change."
    if listed:
        verb = "Would change" if args.dry_run else "Changed"
        outcome = f"{verb}: {listed}{f' (run {done.run})' if done.run else ''}."
    changes = [
        ConsolidationChange(
            action=change.action,
            id=change.fact.id,
            reason=change.reason,
            scope=change.fact.scope,
            content=change.fact.content,
            topic=change.fact.topic,
            memory_type=change.fact.memory_type,
            superseded_by=change.superseded_by or None,
            before=None if change.importance is None else change.fact.importance,
            after=change.importance,
        )
        for change in done.changes
    ]
    return ToolOutput(
        content=f"Facts checked: {done.facts}. {outcome}",
        data=ConsolidationReport(
            run=done.run if done.changes else None,
            facts=done.facts,
            changes=shortened(changes, DATA_BYTES),
            left=done.left,
            not_done=done.not_done,
        ),
    )


@answers(UNDO)
async def undo(memory: MemoryService, args: Undo) -> ToolOutput:
    report = await memory.audit.undo(args.run)
    count = len(report.undone)
    were = "1 memory is as it was" if count == 1 else f"{count} memories are as they were"
    parts = [f"{were} before run {report.run}"]
    if left := len(report.not_done):
        parts.append(f"{left} {'change' if left == 1 else 'changes'} could not be undone")
    if report.others:
        concern = "concerns" if report.others == 1 else "concern"
        parts.append(f"{report.others} {concern} others, who may undo them")
    return ToolOutput(content=f"{'; '.join(parts)}.", data=report)


NOTHING_CHANGED = "Nothing was changed."


@answers(AUDIT)
async def audit(memory: MemoryService, args: Audit) -> ToolOutput:
    trail = await memory.audit.trail(
        args.limit, record_id=args.id, run=args.run, before=args.before
    )
    lines = [
        f"{entry.at:%Y-%m-%d %H:%M} {entry.action} {entry.id}"
        f"{f': {entry.reason}' if entry.reason else ''}"
        for entry in trail.entries
    ]
    return ToolOutput(content="\n".join(lines) or NOTHING_CHANGED, data=trail)


@answers(FORGET)
async def forget(memory: MemoryService, args: Forget) -> ToolOutput:
    selection = memory.erasure.selection(
        everything=args.everything, session_id=args.session_id, topic=args.topic, id=args.id
    )
    receipt = await memory.erasure.erase(
        selection, dry_run=args.dry_run, allow_again=args.allow_again
    )
    what = ", ".join(f"{name}: {count:,}" for name, count in receipt.erased.items()) or "nothing"
    left = [check for check in receipt.checks if check.found]
    if receipt.dry_run:
        text = f"Would erase {what}."
    elif not left:
        text = f"Erased {what}. The checks found nothing left."
    else:
        rest = [f"{check.name}: {check.found} left. {check.note or ''}".strip() for check in left]
        text = "\n".join([f"Erased {what}.", *rest])
    return ToolOutput(content=text, data=receipt)
