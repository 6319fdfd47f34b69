"""Tools for relations: between people and things, as triplets, and between memories."""

from typing import Annotated

import msgspec

from local2.language.sentences import excerpt
from local2.ledger.upkeep import RelatedRecord
from local2.llm.framing import quoted_line
from local2.memory.service import MemoryService
from local2.memory.views import view
from local2.protocol.envelope import Caller, Name
from local2.protocol.memories import RelatedMemories, RelatedMemory, RelationType, Triplet
from local2.protocol.tool import ToolOutput
from local2.tools.base import (
    READS,
    WRITES,
    Args,
    FactScope,
    MemoryTool,
    default_scope,
)

ADD_KNOWLEDGE_DESCRIPTION = (
    "Remember how people and things are connected, in triplets that read as sentences, e.g. "
    "add_knowledge(facts=[{'subject': 'Ada', 'predicate': 'works for', 'object': 'Northwind'}], "
    "scope='user'). Facts that name the same person or thing are linked, and recall follows the "
    "links. Use one name for each of them, or state another name once: 'Bob', 'is also known "
    "as', 'Robert Smith'. The scopes are those of remember_fact."
)
MAX_FACTS = 100
MAX_PART = 300

Part = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_PART)]


class KnowledgeFact(Args, frozen=True):
    subject: Part
    predicate: Annotated[Part, msgspec.Meta(description="A verb phrase, e.g. 'is the boss of'.")]
    object: Part


class AddKnowledge(Args, frozen=True):
    facts: Annotated[
        list[KnowledgeFact],
        msgspec.Meta(min_length=1, max_length=MAX_FACTS, description="The facts, one each."),
    ]
    scope: FactScope | None = None


class KnownFact(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    was_new: bool


class AddedKnowledge(msgspec.Struct, frozen=True, kw_only=True):
    """The facts in the order of the request."""

    facts: list[KnownFact]
    added: int


async def add_knowledge(memory: MemoryService, args: AddKnowledge) -> ToolOutput:
    triplets = [
        Triplet(subject=fact.subject, predicate=fact.predicate, object=fact.object)
        for fact in args.facts
    ]
    written = await memory.facts.store_triplets(
        triplets, args.scope or default_scope(memory.caller)
    )
    added = sum(one.was_new for one in written)
    return ToolOutput(
        content=f"Facts stored: {added} new, {len(written) - added} already known.",
        data=AddedKnowledge(
            facts=[KnownFact(id=one.id, was_new=one.was_new) for one in written], added=added
        ),
    )


ADD_KNOWLEDGE = MemoryTool(
    name="add_knowledge",
    title="Add connected facts",
    description=ADD_KNOWLEDGE_DESCRIPTION,
    annotations=WRITES,
    args=AddKnowledge,
    answer=AddedKnowledge,
    function=add_knowledge,
    for_models=False,
    operation="upsert_memory",
)


RELATE_DESCRIPTION = (
    "Store how one memory relates to another, by their ids: relate(source='…', "
    "type='depends_on', target='…'). The source of 'contradicts' and 'supersedes' is the newer "
    "memory. Recall follows relations."
)

Id = Annotated[Name, msgspec.Meta(min_length=1)]


class Relate(Args, frozen=True):
    source: Id
    type: RelationType
    target: Id
    remove: Annotated[
        bool, msgspec.Meta(description="Remove the relation instead of storing it.")
    ] = False


class ChangedRelation(msgspec.Struct, frozen=True, kw_only=True):
    """`changed`: whether the relation was added, or removed."""

    changed: bool


async def relate(memory: MemoryService, args: Relate) -> ToolOutput:
    change = memory.relations.remove if args.remove else memory.relations.add
    changed = await change(args.source, args.type, args.target)
    done, nothing = ("Taken back.", "No such relation.") if args.remove else ("Stored.", "Known.")
    return ToolOutput(content=done if changed else nothing, data=ChangedRelation(changed=changed))


RELATE = MemoryTool[Relate](
    name="relate",
    title="Relate memories",
    description=RELATE_DESCRIPTION,
    annotations=WRITES,
    args=Relate,
    answer=ChangedRelation,
    function=relate,
    for_models=False,
    operation="update_memory",
)


RELATIONS_DESCRIPTION = (
    "List how a memory relates to others, in both directions: which one contradicts, supports, "
    "supersedes, caused, depends on, is part of or implements the other."
)
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


class ListRelations(Args, frozen=True):
    id: Id


async def relations(memory: MemoryService, args: ListRelations) -> ToolOutput:
    found = [_related(one, memory.caller) for one in await memory.relations.of(args.id)]
    return ToolOutput(
        content="\n".join(map(_as_line, found)) or NONE,
        data=RelatedMemories(id=args.id, relations=found),
    )


def _related(related: RelatedRecord, caller: Caller) -> RelatedMemory:
    record = related.record
    return view(
        record,
        caller,
        RelatedMemory,
        type=related.type,
        incoming=related.incoming,
        content=excerpt(record.content, EXCERPT_CHARACTERS),
    )


def _as_line(related: RelatedMemory) -> str:
    how = RELATION_WORDS[related.type][related.incoming]
    return f"{how}: {quoted_line(related.content)} [{related.id}]"


def _shown(data: RelatedMemories) -> list[str]:
    return [data.id, *(one.id for one in data.relations)]


RELATIONS = MemoryTool[ListRelations](
    name="relations",
    title="List relations",
    description=RELATIONS_DESCRIPTION,
    annotations=READS,
    args=ListRelations,
    answer=RelatedMemories,
    function=relations,
    shows=_shown,
    for_models=False,
)
