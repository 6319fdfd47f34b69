"""Tool `remember_fact`: a fact that lasts across sessions until a newer one contradicts it."""

from typing import Annotated, Literal

import msgspec

from local.ledger.records import Fact
from local.memory.service import MemoryService
from local.protocol.answers import RememberedFact
from local.protocol.memories import Durability, MemoryType
from local.protocol.tool import ToolOutput
from local.tools.base import MAX_CONTENT, WRITES, Args, MemoryTool, TopicKey

DESCRIPTION = (
    "Remember a fact across sessions, in a sentence that makes sense by itself, e.g. "
    "remember_fact(content='Prefers metric units and dark mode.', scope='user'). Scope user: about "
    "the user, in every session with any agent; agent: for this agent, with every user; tenant: "
    "for everybody. A newer fact of the same topic replaces the older one; without a topic it does "
    "so where a model judges that the two contradict each other."
)


class RememberFact(Args, frozen=True):
    content: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=MAX_CONTENT, description="The fact, in a sentence."),
    ]
    scope: Annotated[
        Literal["user", "agent", "tenant"], msgspec.Meta(description="Whom the fact belongs to.")
    ]
    topic: Annotated[
        TopicKey | None,
        msgspec.Meta(description="A key, if it has one: a newer fact of the key replaces it."),
    ] = None
    memory_type: Annotated[MemoryType, msgspec.Meta(description="What kind of fact it is.")] = (
        "fact"
    )
    durability: Annotated[
        Durability,
        msgspec.Meta(description="core never fades, standard slowly, ephemeral soon."),
    ] = "standard"
    importance: Annotated[
        float, msgspec.Meta(ge=0, le=1, description="How much it matters, 0 to 1.")
    ] = 0.5


async def remember_fact(memory: MemoryService, args: RememberFact) -> ToolOutput:
    written = await memory.facts.store(
        Fact(
            content=args.content,
            scope=args.scope,
            topic=args.topic,
            memory_type=args.memory_type,
            durability=args.durability,
            importance=args.importance,
        )
    )
    return ToolOutput(
        content="Fact remembered." if written.was_new else "Fact known already.",
        data=RememberedFact(id=written.id, was_new=written.was_new),
    )


TOOL = MemoryTool[RememberFact](
    name="remember_fact",
    title="Remember a fact",
    description=DESCRIPTION,
    annotations=WRITES,
    args=RememberFact,
    function=remember_fact,
    operation="upsert_memory",
)
