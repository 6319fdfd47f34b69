"""Tool `recall_topic`: look a standing fact up by its exact key."""

from local.ledger.records import class_of
from local.llm.framing import inset
from local.memory.scopes import by
from local.memory.service import MemoryService
from local.protocol.answers import RecalledTopic
from local.protocol.memories import NOTHING_FOUND
from local.protocol.tool import ToolOutput
from local.tools.base import READS, Args, MemoryTool, TopicKey

DESCRIPTION = (
    "Look up one standing fact by its exact key, when you know the key or can infer it, e.g. "
    "recall_topic(topic='user.language_preference') for 'What language do I prefer?' or "
    "recall_topic(topic='user.name') for 'What is my name?'. Without a key use search_memory."
)


class RecallTopic(Args, frozen=True):
    topic: TopicKey


async def recall_topic(memory: MemoryService, args: RecallTopic) -> ToolOutput:
    record = await memory.facts.topic(args.topic)
    if record is None:
        nothing = RecalledTopic(topic=args.topic, found=False, content=None)
        return ToolOutput(content=NOTHING_FOUND, data=nothing)
    topic = record.topic or args.topic
    return ToolOutput(
        content=f"[Memory: {topic}] {inset(record.content)}",
        data=RecalledTopic(
            topic=topic,
            found=True,
            content=record.content,
            id=record.id,
            by=by(record, memory.caller),
            source_class=class_of(record),
        ),
    )


def _shown(data: RecalledTopic) -> list[str]:
    return [data.id] if data.id else []


TOOL = MemoryTool[RecallTopic](
    name="recall_topic",
    title="Look up a fact by its key",
    description=DESCRIPTION,
    annotations=READS,
    args=RecallTopic,
    function=recall_topic,
    shows=_shown,
    operation="search_memory",
)
