"""Tool `relate`: how one memory bears on another."""

from typing import Annotated

import msgspec

from local.memory.service import MemoryService
from local.protocol.envelope import Name
from local.protocol.memories import RelationType
from local.protocol.tool import ToolOutput
from local.tools.base import WRITES, Args, MemoryTool

DESCRIPTION = (
    "Store how one memory bears on another, by their ids: relate(source='…', type='depends_on', "
    "target='…'). What contradicts or supersedes a memory is the newer one. Recall follows it."
)

Id = Annotated[Name, msgspec.Meta(min_length=1)]


class Relate(Args, frozen=True):
    source: Id
    type: RelationType
    target: Id
    remove: Annotated[
        bool, msgspec.Meta(description="Take the relation back instead of storing it.")
    ] = False


class ChangedRelation(msgspec.Struct, frozen=True, kw_only=True):
    """`changed`: it was not there before, or was there and is taken back."""

    changed: bool


async def relate(memory: MemoryService, args: Relate) -> ToolOutput:
    change = memory.relations.remove if args.remove else memory.relations.add
    changed = await change(args.source, args.type, args.target)
    done, nothing = ("Taken back.", "No such relation.") if args.remove else ("Stored.", "Known.")
    return ToolOutput(content=done if changed else nothing, data=ChangedRelation(changed=changed))


TOOL = MemoryTool[Relate](
    name="relate",
    title="Relate memories",
    description=DESCRIPTION,
    annotations=WRITES,
    args=Relate,
    function=relate,
    for_models=False,
    operation="update_memory",
)
