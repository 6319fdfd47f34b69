"""Tool `undo`: take back what one run changed."""

from typing import Annotated

import msgspec

from local.memory.service import MemoryService
from local.protocol.tool import ToolOutput
from local.protocol.upkeep import UndoReport
from local.tools.base import WRITES, Args, MemoryTool

DESCRIPTION = (
    "Take back the changes that a run of `consolidate` made to what the caller may see: facts "
    "are active again, importances as before. What was changed since stays, and is listed."
)


class Undo(Args, frozen=True):
    run: Annotated[
        str, msgspec.Meta(min_length=1, max_length=256, description="As the report or audit says.")
    ]


async def undo(memory: MemoryService, args: Undo) -> ToolOutput:
    report = await memory.audit.undo(args.run)
    return ToolOutput(content=_summary(report), data=report)


def _summary(report: UndoReport) -> str:
    count = len(report.undone)
    were = "1 memory is as it was" if count == 1 else f"{count} memories are as they were"
    parts = [f"{were} before run {report.run}"]
    if report.not_done:
        parts.append(f"{len(report.not_done)} changes could not be undone")
    if report.others:
        parts.append(f"{report.others} concern others, who may undo them")
    return f"{'; '.join(parts)}."


TOOL = MemoryTool[Undo](
    name="undo",
    title="Undo a consolidation",
    description=DESCRIPTION,
    annotations=WRITES,
    args=Undo,
    function=undo,
    for_models=False,
    operation="update_memory",
)
