"""Tool `relations`: what bears on a memory, and what it bears on."""

from local.ledger.records import class_of
from local.ledger.relations import RelatedRecord
from local.llm.framing import line
from local.memory.service import MemoryService
from local.protocol.memories import RelatedMemories, RelatedMemory
from local.protocol.tool import ToolOutput
from local.text.sentences import excerpt
from local.tools.base import Args, MemoryTool
from local.tools.relate import Id

DESCRIPTION = (
    "List how a memory bears on others and they on it: what contradicts, supports, supersedes, "
    "caused, depends on, is part of or implements what."
)
FIRST_WORDS = 120
"""Characters of the other memory."""
NONE = "No relations."


class ListRelations(Args, frozen=True):
    id: Id


async def relations(memory: MemoryService, args: ListRelations) -> ToolOutput:
    found = [_related(one) for one in await memory.relations.of(args.id)]
    return ToolOutput(
        content="\n".join(map(_as_line, found)) or NONE,
        data=RelatedMemories(id=args.id, relations=found),
    )


def _related(related: RelatedRecord) -> RelatedMemory:
    record = related.record
    return RelatedMemory(
        type=related.type,
        id=record.id,
        incoming=related.incoming,
        content=excerpt(record.content, FIRST_WORDS),
        event_time=record.event_time,
        active=record.superseded_by is None,
        source_class=class_of(record),
    )


def _as_line(related: RelatedMemory) -> str:
    said = f'"{line(related.content)}" [{related.id}]'
    return f"{said} {related.type} this." if related.incoming else f"This {related.type} {said}."


def _shown(data: RelatedMemories) -> list[str]:
    return [data.id, *(one.id for one in data.relations)]


TOOL = MemoryTool[ListRelations](
    name="relations",
    description=DESCRIPTION,
    args=ListRelations,
    function=relations,
    shows=_shown,
    for_models=False,
)
