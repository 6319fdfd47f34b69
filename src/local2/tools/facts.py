"""Tools for facts: store them with a key or as a sentence, look them up, show their history."""

from local2.ledger.records import Fact
from local2.memory.scopes import default_scope, view
from local2.memory.service import MemoryService
from local2.protocol.memories import NOTHING_FOUND, nothing_found
from local2.protocol.memory_tools import (
    EDIT_MEMORY,
    HIDE_MEMORIES,
    MAX_REASON,
    MEMORY_HISTORY,
    PIN_MEMORIES,
    RECALL_TOPIC,
    REMEMBER_FACT,
    RETIRE_FACT,
    SAVE_TOPIC,
    EditMemory,
    HideMemories,
    MemoryHistory,
    PinMemories,
    RecalledTopic,
    RecallTopic,
    RememberedFact,
    RememberFact,
    RetireFact,
    SavedTopic,
    SaveTopic,
    Version,
    Versions,
)
from local2.protocol.tool import ToolOutput
from local2.quoting import inset, quoted_line
from local2.tools.base import answers
from local2.tools.texts import DATA_BYTES, TEXT_BYTES, related_fields, related_line, shortened


@answers(SAVE_TOPIC)
async def save_topic(memory: MemoryService, args: SaveTopic) -> ToolOutput:
    written = await memory.facts.store_topic(args.topic, args.content)
    topic = written.topic or args.topic
    related = await memory.facts.related([written.id])
    return ToolOutput(
        content=f"Memory saved: {topic}{related_line(related)}",
        data=SavedTopic(
            **related_fields(related, memory.caller),
            id=written.id,
            topic=topic,
            was_new=written.was_new,
            superseded=written.superseded,
        ),
    )


@answers(RECALL_TOPIC)
async def recall_topic(memory: MemoryService, args: RecallTopic) -> ToolOutput:
    record = await memory.facts.topic(args.topic)
    if record is None:
        nothing = RecalledTopic(topic=args.topic, found=False, content=None)
        if near := await memory.facts.topics_like(args.topic):
            text = f"{NOTHING_FOUND}\n(Did you mean {' or '.join(near)}?)"
        else:
            text = nothing_found(others=await memory.others())
        return ToolOutput(content=text, data=nothing)
    topic = record.topic or args.topic
    return ToolOutput(
        content=f"[Memory: {topic}] {inset(record.content)}",
        data=view(record, memory.caller, RecalledTopic, topic=topic, found=True),
    )


@answers(REMEMBER_FACT)
async def remember_fact(memory: MemoryService, args: RememberFact) -> ToolOutput:
    written = await memory.facts.store(
        Fact(
            content=args.content,
            scope=args.scope or default_scope(memory.caller, args.topic),
            topic=args.topic,
            memory_type=args.memory_type,
            durability=args.durability,
            importance=args.importance,
        ),
        replaces=args.replaces or (),
    )
    related = await memory.facts.related([written.id])
    done = "Fact remembered." if written.was_new else "Fact already known."
    replaced = f" It replaced {len(written.replaced)}." if args.replaces else ""
    return ToolOutput(
        content=f"{done}{replaced}{related_line(related)}",
        data=RememberedFact(
            **related_fields(related, memory.caller),
            id=written.id,
            was_new=written.was_new,
            replaced=list(written.replaced),
        ),
    )


@answers(RETIRE_FACT)
async def retire_fact(memory: MemoryService, args: RetireFact) -> ToolOutput:
    done = await memory.facts.retire(args.ids, args.reason)
    before = len(set(args.ids)) - len(done.retired)
    already = f", {before} already retired" if before else ""
    return ToolOutput(content=f"Facts retired: {len(done.retired)}{already}.", data=done)


@answers(EDIT_MEMORY)
async def edit_memory(memory: MemoryService, args: EditMemory) -> ToolOutput:
    edited = await memory.facts.edit(args.id, args.content, args.reason)
    return ToolOutput(content="Edited." if edited.was_new else "It has this text.", data=edited)


@answers(PIN_MEMORIES)
async def pin_memories(memory: MemoryService, args: PinMemories) -> ToolOutput:
    done = await memory.facts.pin(args.ids, args.reason, pinned=not args.unpin)
    what = "unpinned" if args.unpin else "pinned"
    return ToolOutput(content=f"Facts {what}: {len(done.changed)}.", data=done)


@answers(HIDE_MEMORIES)
async def hide_memories(memory: MemoryService, args: HideMemories) -> ToolOutput:
    done = await memory.facts.hide(args.ids, args.reason)
    before = len(set(args.ids)) - len(done.hidden)
    already = f", {before} did not stand" if before else ""
    return ToolOutput(content=f"Memories hidden: {len(done.hidden)}{already}.", data=done)


MAX_VERSIONS = 100


@answers(MEMORY_HISTORY)
async def memory_history(memory: MemoryService, args: MemoryHistory) -> ToolOutput:
    records = await memory.facts.history(args.topic_or_id)
    reasons = await memory.facts.reasons(records[:MAX_VERSIONS])
    versions = [
        view(record, memory.caller, Version, reason=reasons.get(record.id))
        for record in records[:MAX_VERSIONS]
    ]
    lines = []
    for version in shortened(versions, TEXT_BYTES):
        ended = ""
        if version.ended is not None:
            since = f" {version.retired_at:%Y-%m-%d}" if version.retired_at else ""
            reason = f": {quoted_line(version.reason, MAX_REASON)}" if version.reason else ""
            ended = f"({version.ended}{since}{reason}) "
        lines.append(f"{version.event_time.date()} {ended}{inset(version.content)}")
    if len(records) > MAX_VERSIONS:
        lines.append(f"({len(records) - MAX_VERSIONS} older versions are left out.)")
    return ToolOutput(
        content="\n".join(lines) or NOTHING_FOUND,
        data=Versions(versions=shortened(versions, DATA_BYTES), total=len(records)),
    )
