"""Tool `save_topic`: a standing fact under an exact key."""

from typing import Annotated

import msgspec

from local.memory.service import MemoryService
from local.protocol.answers import SavedTopic
from local.protocol.tool import ToolOutput
from local.tools.base import MAX_CONTENT, WRITES, Args, MemoryTool, TopicKey

DESCRIPTION = (
    "Save a preference, rule or fact permanently, under a key, so that every later session can "
    "look it up. Call this whenever the user asks you to remember something about themselves, the "
    "project or a rule. Keys: user.* for preferences and personal facts, project.* for decisions, "
    "deadlines and the stack, constraint.* for what to avoid or enforce. Example: "
    "save_topic(topic='user.name', content='Richard'). A new value replaces the old one."
)


class SaveTopic(Args, frozen=True):
    topic: TopicKey
    content: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=MAX_CONTENT, description="The value, e.g. 'Elixir'."),
    ]


async def save_topic(memory: MemoryService, args: SaveTopic) -> ToolOutput:
    written = await memory.facts.store_topic(args.topic, args.content)
    topic = written.topic or args.topic
    return ToolOutput(
        content=f"Memory saved: {topic}",
        data=SavedTopic(
            id=written.id,
            topic=topic,
            was_new=written.was_new,
            superseded=written.superseded,
        ),
    )


TOOL = MemoryTool(
    name="save_topic",
    title="Save a fact under a key",
    description=DESCRIPTION,
    annotations=WRITES,
    args=SaveTopic,
    function=save_topic,
    operation="upsert_memory",
)
