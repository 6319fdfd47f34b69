"""Tool `audit`: which memories were changed by whom, when and why."""

from typing import Annotated

import msgspec

from local.memory.service import MemoryService
from local.protocol.tool import ToolOutput
from local.protocol.upkeep import AuditEntry
from local.tools.base import READS, Args, MemoryTool

DESCRIPTION = (
    "List changes of state, newest first: facts that were replaced, merged, contradicted or "
    "archived, importances that changed, and what was undone. Ids and reasons, never content."
)
NOTHING = "Nothing was changed."


class Audit(Args, frozen=True):
    id: Annotated[
        Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None,
        msgspec.Meta(description="Of this record only."),
    ] = None
    run: Annotated[
        Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None,
        msgspec.Meta(description="Of this run of several changes only."),
    ] = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000, description="How many entries at most.")] = (
        100
    )
    before: Annotated[
        Annotated[int, msgspec.Meta(ge=1, lt=2**53)] | None,
        msgspec.Meta(description="Go on behind the last page: its `next`."),
    ] = None


async def audit(memory: MemoryService, args: Audit) -> ToolOutput:
    trail = await memory.audit.trail(
        args.limit, record_id=args.id, run=args.run, before=args.before
    )
    return ToolOutput(content="\n".join(map(_line, trail.entries)) or NOTHING, data=trail)


def _line(entry: AuditEntry) -> str:
    reason = f": {entry.reason}" if entry.reason else ""
    return f"{entry.at:%Y-%m-%d %H:%M} {entry.action} {entry.id}{reason}"


TOOL = MemoryTool[Audit](
    name="audit",
    title="Show what was changed",
    description=DESCRIPTION,
    annotations=READS,
    args=Audit,
    function=audit,
    for_models=False,
)
