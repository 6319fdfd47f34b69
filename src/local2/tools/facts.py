"""Tools for facts: store them with a key or as a sentence, look them up, show their history."""

from typing import Annotated

import msgspec

from local2.ledger.records import Fact
from local2.llm.framing import inset
from local2.memory.service import MemoryService
from local2.memory.views import view
from local2.protocol.answers import RecalledTopic, RememberedFact, SavedTopic
from local2.protocol.memories import NOTHING_FOUND, Durability, MemoryType, Version, Versions
from local2.protocol.tool import ToolOutput
from local2.tools.base import (
    DATA_BYTES,
    MAX_CONTENT,
    READS,
    TEXT_BYTES,
    WRITES,
    Args,
    FactScope,
    MemoryTool,
    TopicKey,
    default_scope,
    shortened,
)

SAVE_TOPIC_DESCRIPTION = (
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


SAVE_TOPIC = MemoryTool(
    name="save_topic",
    title="Save a fact under a key",
    description=SAVE_TOPIC_DESCRIPTION,
    annotations=WRITES,
    args=SaveTopic,
    answer=SavedTopic,
    function=save_topic,
    operation="upsert_memory",
)


RECALL_TOPIC_DESCRIPTION = (
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
        data=view(record, memory.caller, RecalledTopic, topic=topic, found=True),
    )


def _topic_shown(data: RecalledTopic) -> list[str]:
    return [data.id] if data.id else []


RECALL_TOPIC = MemoryTool[RecallTopic](
    name="recall_topic",
    title="Look up a fact by its key",
    description=RECALL_TOPIC_DESCRIPTION,
    annotations=READS,
    args=RecallTopic,
    answer=RecalledTopic,
    function=recall_topic,
    shows=_topic_shown,
    operation="search_memory",
)


REMEMBER_FACT_DESCRIPTION = (
    "Remember a fact across sessions, in a sentence that makes sense by itself, e.g. "
    "remember_fact(content='Prefers metric units and dark mode.', scope='user'). Scope user: "
    "about the user, in every session with any agent; agent: for this agent, with every user; "
    "tenant: for everybody. A newer fact of the same topic replaces the older one; without a "
    "topic, it does so if a model judges that the two contradict each other."
)


class RememberFact(Args, frozen=True):
    content: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=MAX_CONTENT, description="The fact, in a sentence."),
    ]
    scope: FactScope | None = None
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
            scope=args.scope or default_scope(memory.caller, args.topic),
            topic=args.topic,
            memory_type=args.memory_type,
            durability=args.durability,
            importance=args.importance,
        )
    )
    return ToolOutput(
        content="Fact remembered." if written.was_new else "Fact already known.",
        data=RememberedFact(id=written.id, was_new=written.was_new),
    )


REMEMBER_FACT = MemoryTool[RememberFact](
    name="remember_fact",
    title="Remember a fact",
    description=REMEMBER_FACT_DESCRIPTION,
    annotations=WRITES,
    args=RememberFact,
    answer=RememberedFact,
    function=remember_fact,
    operation="upsert_memory",
)


MEMORY_HISTORY_DESCRIPTION = (
    "List every version of a fact, an answer or a message, newest first, for questions such as "
    "'What did I prefer before?'. Give the fact's topic key or the id of any version."
)
MAX_VERSIONS = 100


class MemoryHistory(Args, frozen=True):
    topic_or_id: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


async def memory_history(memory: MemoryService, args: MemoryHistory) -> ToolOutput:
    records = await memory.facts.history(args.topic_or_id)
    versions = [view(record, memory.caller, Version) for record in records[:MAX_VERSIONS]]
    lines = [
        f"{version.event_time.date()} {_state(version)}{inset(version.content)}"
        for version in shortened(versions, TEXT_BYTES)
    ]
    if len(records) > MAX_VERSIONS:
        lines.append(f"({len(records) - MAX_VERSIONS} older versions are left out.)")
    return ToolOutput(
        content="\n".join(lines) or NOTHING_FOUND,
        data=Versions(versions=shortened(versions, DATA_BYTES), total=len(records)),
    )


def _state(version: Version) -> str:
    """Return why and since when a version is no longer valid, in brackets."""
    if version.ended is None:
        return ""
    since = f" {version.retired_at:%Y-%m-%d}" if version.retired_at else ""
    return f"({version.ended}{since}) "


def _versions_shown(data: Versions) -> list[str]:
    return [version.id for version in data.versions]


MEMORY_HISTORY = MemoryTool[MemoryHistory](
    name="memory_history",
    title="Show earlier versions",
    description=MEMORY_HISTORY_DESCRIPTION,
    annotations=READS,
    args=MemoryHistory,
    answer=Versions,
    function=memory_history,
    shows=_versions_shown,
    operation="search_memory",
)
