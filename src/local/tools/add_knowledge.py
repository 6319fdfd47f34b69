"""Tool `add_knowledge`: facts in triplets, linked where they name the same thing."""

from typing import Annotated, Literal

import msgspec

from local.memory.service import MemoryService
from local.protocol.memories import Triplet
from local.protocol.tool import ToolOutput
from local.tools.base import WRITES, Args, MemoryTool

DESCRIPTION = (
    "Remember how people and things are connected, in triplets that read as sentences, e.g. "
    "add_knowledge(facts=[{'subject': 'Ada', 'predicate': 'works for', 'object': 'Northwind'}], "
    "scope='user'). Facts that name the same person or thing are linked, and recall follows the "
    "links. Call it by one name everywhere, or say once what else it is called: 'Bob', 'is also "
    "known as', 'Robert Smith'. Scopes are those of remember_fact."
)
MOST_FACTS = 100
MAX_PART = 300

Part = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_PART)]


class KnowledgeFact(Args, frozen=True):
    subject: Part
    predicate: Annotated[Part, msgspec.Meta(description="A verb phrase, e.g. 'is the boss of'.")]
    object: Part


class AddKnowledge(Args, frozen=True):
    facts: Annotated[
        list[KnowledgeFact],
        msgspec.Meta(min_length=1, max_length=MOST_FACTS, description="The facts, one each."),
    ]
    scope: Annotated[
        Literal["user", "agent", "tenant"], msgspec.Meta(description="Whom the facts belong to.")
    ]


class KnownFact(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    was_new: bool


class AddedKnowledge(msgspec.Struct, frozen=True, kw_only=True):
    """The facts in the order in which they came."""

    facts: list[KnownFact]
    added: int


async def add_knowledge(memory: MemoryService, args: AddKnowledge) -> ToolOutput:
    triplets = [
        Triplet(subject=fact.subject, predicate=fact.predicate, object=fact.object)
        for fact in args.facts
    ]
    written = await memory.facts.store_triplets(triplets, args.scope)
    added = sum(one.was_new for one in written)
    return ToolOutput(
        content=f"Facts remembered: {added} new, {len(written) - added} known already.",
        data=AddedKnowledge(
            facts=[KnownFact(id=one.id, was_new=one.was_new) for one in written], added=added
        ),
    )


TOOL = MemoryTool(
    name="add_knowledge",
    title="Add connected facts",
    description=DESCRIPTION,
    annotations=WRITES,
    args=AddKnowledge,
    function=add_knowledge,
    for_models=False,
    operation="upsert_memory",
)
