"""Tool `relations`: what bears on a memory, and what it bears on."""

from local.ledger.records import class_of
from local.ledger.relations import RelatedRecord
from local.llm.framing import line
from local.memory.service import MemoryService
from local.protocol.memories import RelatedMemories, RelatedMemory, RelationType
from local.protocol.tool import ToolOutput
from local.text.sentences import excerpt
from local.tools.base import READS, Args, MemoryTool
from local.tools.relate import Id

DESCRIPTION = (
    "List how a memory bears on others and they on it: what contradicts, supports, supersedes, "
    "caused, depends on, is part of or implements what."
)
FIRST_WORDS = 120
"""Characters of the other memory."""
NONE = "No relations."
WORDS: dict[RelationType, tuple[str, str]] = {
    "contradicts": ("contradicts", "contradicted by"),
    "supports": ("supports", "supported by"),
    "supersedes": ("supersedes", "superseded by"),
    "caused_by": ("caused by", "cause of"),
    "depends_on": ("depends on", "needed by"),
    "part_of": ("part of", "contains"),
    "implements": ("implements", "implemented by"),
}
"""How a memory bears on another, and how that one bears on it."""


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
    how = WORDS[related.type][related.incoming]
    return f"{how}: {line(related.content)} [{related.id}]"


def _shown(data: RelatedMemories) -> list[str]:
    return [data.id, *(one.id for one in data.relations)]


TOOL = MemoryTool[ListRelations](
    name="relations",
    title="List relations",
    description=DESCRIPTION,
    annotations=READS,
    args=ListRelations,
    function=relations,
    shows=_shown,
    for_models=False,
)
