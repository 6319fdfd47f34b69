"""Tool `recall_topic`: look a standing fact up by its exact key."""

import msgspec

from local.memory.service import MemoryService
from local.protocol.tool import ToolOutput
from local.tools.base import NOTHING_FOUND, Args, MemoryTool, TopicKey

DESCRIPTION = (
    "Look up one standing fact by its exact key, when you know the key or can infer it, e.g. "
    "recall_topic(topic='user.language_preference') for 'What language do I prefer?' or "
    "recall_topic(topic='user.name') for 'What is my name?'. Without a key use search_memory."
)


class RecallTopic(Args, frozen=True):
    topic: TopicKey


class RecalledTopic(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    found: bool
    content: str | None


async def recall_topic(memory: MemoryService, args: RecallTopic) -> ToolOutput:
    content = await memory.recall_topic(args.topic)
    return ToolOutput(
        content=NOTHING_FOUND if content is None else f"[Memory: {args.topic}] {content}",
        data=RecalledTopic(topic=args.topic, found=content is not None, content=content),
    )


TOOL = MemoryTool(
    name="recall_topic", description=DESCRIPTION, args=RecallTopic, function=recall_topic
)
