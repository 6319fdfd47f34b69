"""Tools for relations: between people and things, as triplets, and between memories."""

from local2.language.sentences import excerpt
from local2.memory.scopes import default_scope, view
from local2.memory.service import MemoryService
from local2.protocol.memories import RelationType, Triplet
from local2.protocol.memory_tools import (
    ADD_KNOWLEDGE,
    RELATE,
    RELATIONS,
    AddedKnowledge,
    AddKnowledge,
    ChangedRelation,
    KnownFact,
    ListRelations,
    Relate,
    RelatedMemories,
    RelatedMemory,
)
from local2.protocol.tool import ToolOutput
from local2.quoting import quoted_line
from local2.tools.base import answers
from local2.tools.texts import related_fields, related_line


@answers(ADD_KNOWLEDGE)
async def add_knowledge(memory: MemoryService, args: AddKnowledge) -> ToolOutput:
    triplets = [
        Triplet(subject=fact.subject, predicate=fact.predicate, object=fact.object)
        for fact in args.facts
    ]
    written = await memory.facts.store_triplets(
        triplets, args.scope or default_scope(memory.caller)
    )
    added = sum(fact.was_new for fact in written)
    related = await memory.facts.related([fact.id for fact in written])
    return ToolOutput(
        content=f"Facts stored: {added} new, {len(written) - added} already known."
        f"{related_line(related)}",
        data=AddedKnowledge(
            **related_fields(related, memory.caller),
            facts=[KnownFact(id=fact.id, was_new=fact.was_new) for fact in written],
            added=added,
        ),
    )


@answers(RELATE)
async def relate(memory: MemoryService, args: Relate) -> ToolOutput:
    change = memory.relations.remove if args.remove else memory.relations.add
    changed = await change(args.source, args.type, args.target)
    done, nothing = ("Taken back.", "No such relation.") if args.remove else ("Stored.", "Known.")
    return ToolOutput(content=done if changed else nothing, data=ChangedRelation(changed=changed))


EXCERPT_CHARACTERS = 120
"""Maximum characters shown of the other memory."""
NONE = "No relations."
RELATION_WORDS: dict[RelationType, tuple[str, str]] = {
    "contradicts": ("contradicts", "contradicted by"),
    "supports": ("supports", "supported by"),
    "supersedes": ("supersedes", "superseded by"),
    "caused_by": ("caused by", "cause of"),
    "depends_on": ("depends on", "needed by"),
    "part_of": ("part of", "contains"),
    "implements": ("implements", "implemented by"),
}
"""Words for each relation, as seen from its source and from its target."""


@answers(RELATIONS)
async def relations(memory: MemoryService, args: ListRelations) -> ToolOutput:
    found = [
        view(
            related.record,
            memory.caller,
            RelatedMemory,
            type=related.type,
            incoming=related.incoming,
            content=excerpt(related.record.content, EXCERPT_CHARACTERS),
        )
        for related in await memory.relations.of(args.id)
    ]
    lines = [
        f"{RELATION_WORDS[related.type][related.incoming]}: {quoted_line(related.content)} "
        f"[{related.id}]"
        for related in found
    ]
    return ToolOutput(
        content="\n".join(lines) or NONE, data=RelatedMemories(id=args.id, relations=found)
    )
