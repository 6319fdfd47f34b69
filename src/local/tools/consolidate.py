"""Tool `consolidate`: keep facts in order at once, or say what would be changed."""

from collections import Counter
from typing import Annotated

import msgspec

from local.ledger.upkeep import Change
from local.memory.service import MemoryService
from local.memory.upkeep.consolidation import Consolidated
from local.protocol.tool import ToolOutput
from local.protocol.upkeep import ConsolidationChange, ConsolidationReport
from local.tools.base import DATA_BYTES, WRITES, Args, MemoryTool, shortened

DESCRIPTION = (
    "Keep the caller's facts and those for everybody in order: archive what is stale, merge "
    "duplicates, resolve contradictions, raise the importance of what is recalled. Every change "
    "is in the audit, and `undo` takes the whole run back."
)


class Consolidate(Args, frozen=True):
    dry_run: Annotated[
        bool, msgspec.Meta(description="Only list what would be changed, and change nothing.")
    ] = False


async def consolidate(memory: MemoryService, args: Consolidate) -> ToolOutput:
    done = await memory.consolidate(dry_run=args.dry_run)
    changes = shortened([_change(change) for change in done.changes], DATA_BYTES)
    return ToolOutput(
        content=_summary(done, dry_run=args.dry_run),
        data=ConsolidationReport(
            run=done.run,
            facts=done.facts,
            changes=changes,
            left=done.left,
            not_done=done.not_done,
        ),
    )


def _summary(done: Consolidated, *, dry_run: bool) -> str:
    counts = Counter(change.action for change in done.changes)
    made = ", ".join(f"{count} {action}" for action, count in counts.items()) or "no change"
    would = "It would make of" if dry_run else "Of"
    run = f" (run {done.run})" if done.run and done.changes else ""
    return f"{would} {done.facts} facts: {made}{run}."


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


TOOL = MemoryTool[Consolidate](
    name="consolidate",
    title="Keep memories in order",
    description=DESCRIPTION,
    annotations=WRITES,
    args=Consolidate,
    function=consolidate,
    for_models=False,
    operation="update_memory",
)
