"""The tool `recall`: one search over all memories."""

import msgspec

from local2.keys import is_topic
from local2.ledger.records import source_class_of
from local2.memory.recall.recaller import RecallRequest, RecallResult
from local2.memory.scopes import stated_by, view
from local2.memory.service import MemoryService
from local2.protocol.envelope import Caller
from local2.protocol.memories import NO_OTHERS, OwnerScope, nothing_found
from local2.protocol.memory_tools import (
    RECALL,
    Answer,
    Explanation,
    LaterStatement,
    Recall,
    RecalledItem,
    RecalledItems,
)
from local2.protocol.tool import ToolOutput
from local2.quoting import SOURCES
from local2.tools.base import answers
from local2.tools.relations import RELATION_WORDS
from local2.tools.texts import (
    DATA_BYTES,
    ListedMemory,
    cut_to_passages,
    later_shortened,
    numbered,
    replacement_note,
    shortened,
)

SCOPE_WORDS: dict[OwnerScope, str] = {
    "session": "of the session",
    "user": "of the user",
    "agent": "of the agent",
    "tenant": "for everybody",
}


@answers(RECALL)
async def recall(memory: MemoryService, args: Recall) -> ToolOutput:
    recalled = await memory.recall(RecallRequest.of(args))
    answer = await memory.synthesize(args.query, recalled) if args.synthesize else None
    items = [
        view(
            item.record,
            memory.caller,
            RecalledItem,
            score=item.score,
            relations=item.relations,
            outdated_by=item.outdated_by,
            contradicts=item.contradicts,
            later=later_shortened(
                [view(record, memory.caller, LaterStatement) for record in item.later],
                len(recalled.items),
            ),
            explanation=Explanation(shares=msgspec.to_builtins(item.shares), weight=item.weight)
            if args.explain
            else None,
        )
        for item in recalled.items
    ]
    others = NO_OTHERS if items else await memory.others()
    return ToolOutput(
        content=_as_text(await cut_to_passages(items, args.query), recalled, answer, memory.caller)
        if items
        else nothing_found(recalled.reason, others),
        data=RecalledItems(
            items=shortened(items, DATA_BYTES),
            total=len(items),
            degraded=recalled.degraded,
            rerank_used=recalled.rerank_used,
            reason=recalled.reason,
            answer=answer,
            other_users=list(others.users),
            other_homes=list(others.homes),
        ),
    )


def _as_text(
    items: list[RecalledItem],
    recalled: RecallResult,
    answer: Answer | None,
    caller: Caller,
) -> str:
    parts = []
    if answer is not None and answer.text and answer.by_model:
        parts.append(answer.text)
    numbers = {item.id: number for number, item in enumerate(items, start=1)}
    entries = []
    for found, item in zip(recalled.items, items, strict=True):
        record = found.record
        if record.kind == "fact":
            kind = "standing fact" if record.topic and not found.outdated_by else "fact"
            others = ", stated by somebody else" if stated_by(record, caller) == "other" else ""
            words = [f"{kind} {SCOPE_WORDS[record.scope]}{others}"]
        else:
            words = [SOURCES[source_class_of(record)]]
        for relation in found.relations:
            if relation.id in numbers:
                relates = RELATION_WORDS[relation.type][relation.incoming]
                words.append(f"{relates} {numbers[relation.id]}")
        if item.tool_output_key is not None:
            reads_on = f'tool_output_key="{item.tool_output_key}", offset={item.offset}'
            words.append(f"read_tool_output({reads_on}) reads around it")
        label = item.topic or item.call or item.label
        if label and item.topic is None and is_topic(label):
            label = f'"{label}"'  # a speaker's name must not look like the key of a fact
        entries.append(
            ListedMemory(
                item.score,
                item.event_time,
                f"{label}: {item.content}" if label else item.content,
                ", ".join(words) + replacement_note(found, numbers),
                item.later,
            )
        )
    parts.append(numbered(entries))
    if recalled.degraded:
        parts.append(f"(The search was incomplete: {recalled.reason})")
    return "\n".join(parts)
