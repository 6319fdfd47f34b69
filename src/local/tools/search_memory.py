"""Tool `search_memory`: find past questions, answers and notes by their meaning."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Annotated

import msgspec

from local.memory.ranking import Hit
from local.memory.service import MemoryService
from local.protocol.envelope import utc_now
from local.protocol.tool import ToolOutput
from local.tools.base import MAX_QUERY, NOTHING_FOUND, Args, MemoryTool

DESCRIPTION = (
    "Search past sessions by meaning, when no exact key is known: earlier questions with their "
    "answers, and notes. Call this for 'What do you remember about …?', 'What did we say about "
    "…?' and whenever earlier conversations may help, e.g. "
    "search_memory(query='which databases has this user worked with')."
)

TEXT_BYTES = 8_000
"""Of all hits together in the text for a model, whose context is small."""
DATA_BYTES = 400_000
"""Of all hits together in the data; the bus carries 1 MB."""


class SearchMemory(Args, frozen=True):
    query: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=MAX_QUERY, description="What to look for, in any words."
        ),
    ]
    top_k: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=20)] | None,
        msgspec.Meta(description="How many memories to return at most."),
    ] = None


class FoundMemories(msgspec.Struct, frozen=True, kw_only=True):
    """`degraded`: some memories could only be found by their words; `reason` says why."""

    hits: list[Hit]
    degraded: bool
    reason: str | None


async def search_memory(memory: MemoryService, args: SearchMemory) -> ToolOutput:
    result = await memory.search_episodic(args.query, args.top_k)
    content = formatted(shortened(result.hits, TEXT_BYTES)) if result.hits else NOTHING_FOUND
    if result.degraded:
        content += f"\n(Some were searched by their words only: {result.reason})"
    return ToolOutput(
        content=content,
        data=FoundMemories(
            hits=shortened(result.hits, DATA_BYTES),
            degraded=result.degraded,
            reason=result.reason,
        ),
    )


def shortened(hits: Sequence[Hit], budget: int) -> list[Hit]:
    """Cut long memories, marked with an ellipsis, so that all fit the budget in bytes of JSON."""
    share = budget // max(len(hits), 1)
    return [
        hit
        if _size(hit.content) <= share
        else msgspec.structs.replace(hit, content=f"{_beginning(hit.content, share)} …")
        for hit in hits
    ]


def _beginning(text: str, size: int) -> str:
    lengths = range(min(len(text), size + 1))
    return text[: bisect_right(lengths, size, key=lambda length: _size(text[:length])) - 1]


def _size(text: str) -> int:
    """Bytes on the wire, without quotes; JSON makes up to six of a character's one."""
    return len(msgspec.json.encode(text)) - 2


def formatted(hits: Sequence[Hit]) -> str:
    """The hits as a dated, numbered list for a model."""
    lines = [f"[Memory recall — {utc_now().date().isoformat()}]"]
    for number, hit in enumerate(hits, start=1):
        day = str(hit.metadata["timestamp_utc"])[:10]
        lines.append(f"{number}. (relevance: {hit.score:.2f}) {day}")
        lines += [f"   {line}" for line in hit.content.splitlines()]
    return "\n".join(lines)


TOOL = MemoryTool(
    name="search_memory", description=DESCRIPTION, args=SearchMemory, function=search_memory
)
