"""Tool `search_memory`: find past questions, answers and notes by their meaning."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from local.memory.service import MemoryService, SearchResult
from local.protocol.answers import FoundMemories, Hit
from local.protocol.memories import nothing_found
from local.protocol.tool import ToolOutput
from local.tools.base import (
    DATA_BYTES,
    MAX_QUERY,
    READS,
    TEXT_BYTES,
    Args,
    Entry,
    MemoryTool,
    numbered,
    shortened,
)

DESCRIPTION = (
    "Search earlier questions with their answers, and notes, of any session, by meaning, when no "
    "exact key is known. Call this for 'What do you remember about …?', 'What did we say about "
    "…?' and whenever earlier conversations may help, e.g. "
    "search_memory(query='which databases has this user worked with')."
)


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


async def search_memory(memory: MemoryService, args: SearchMemory) -> ToolOutput:
    result = await memory.search_episodic(args.query, args.top_k)
    return ToolOutput(
        content=_as_text(result),
        data=FoundMemories(
            hits=shortened(result.hits, DATA_BYTES),
            degraded=result.degraded,
            reason=result.reason,
        ),
    )


def _as_text(result: SearchResult) -> str:
    if not result.hits:
        return nothing_found(result.reason)
    found = formatted(shortened(result.hits, TEXT_BYTES))
    if result.degraded:
        found += f"\n(Some were searched by their words only: {result.reason})"
    return found


def formatted(hits: Sequence[Hit]) -> str:
    """The hits as a dated, numbered list for a model."""
    return numbered(
        [
            Entry(
                hit.score, datetime.fromisoformat(str(hit.metadata["timestamp_utc"])), hit.content
            )
            for hit in hits
        ]
    )


def _shown(data: FoundMemories) -> list[str]:
    return [hit.id for hit in data.hits]


TOOL = MemoryTool[SearchMemory](
    name="search_memory",
    title="Search questions, answers and notes",
    description=DESCRIPTION,
    annotations=READS,
    args=SearchMemory,
    function=search_memory,
    shows=_shown,
    operation="search_memory",
)
