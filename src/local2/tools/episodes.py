"""Tools for episodes: save a note; find questions, answers and notes by meaning."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from local2.errors import InvalidArgumentsError
from local2.memory.hits import SearchResult
from local2.memory.scopes import how_to_send
from local2.memory.service import MemoryService
from local2.protocol.answers import FoundMemories, Hit, SavedMemory
from local2.protocol.memories import nothing_found
from local2.protocol.payloads import Json
from local2.protocol.tool import ToolOutput
from local2.tools.base import (
    DATA_BYTES,
    MAX_CONTENT,
    READS,
    TEXT_BYTES,
    WRITES,
    Args,
    Entry,
    MemoryTool,
    QueryText,
    numbered,
    replacement_note,
    shortened,
)

SAVE_MEMORY_DESCRIPTION = (
    "Note something important that came up in the conversation and has no key of its own: a "
    "finding, a decision with its reasons, an event. It is found again by its meaning with "
    "recall or search_memory. For a preference, rule or fact that the user wants remembered use "
    "save_topic."
)


class SaveMemory(Args, frozen=True):
    content: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=MAX_CONTENT,
            description="The note, in words that make sense without the conversation.",
        ),
    ]

    metadata: Annotated[
        Json | None,
        msgspec.Meta(
            description="What else to store with it and return when it is found, e.g. "
            "{'source': 'code review'}. timestamp_utc: when it happened."
        ),
    ] = None


async def save_memory(memory: MemoryService, args: SaveMemory) -> ToolOutput:
    metadata = args.metadata or {}
    if "session_id" in metadata:
        raise InvalidArgumentsError(
            "metadata.session_id: the envelope says which session it is.",
            remedy=f"{how_to_send('session_id')}.",
        )
    written = await memory.intake.store_episode(args.content, metadata)
    return ToolOutput(
        content="Memory saved." if written.was_new else "Memory saved before.",
        data=SavedMemory(id=written.id, was_new=written.was_new),
    )


SAVE_MEMORY = MemoryTool(
    name="save_memory",
    title="Save a note for good",
    description=SAVE_MEMORY_DESCRIPTION,
    annotations=WRITES,
    args=SaveMemory,
    answer=SavedMemory,
    function=save_memory,
    operation="upsert_memory",
)


SEARCH_MEMORY_DESCRIPTION = (
    "Search earlier questions with their answers, and notes, of any session, by meaning, when no "
    "exact key is known. Call this for 'What do you remember about …?', 'What did we say about "
    "…?' and whenever earlier conversations may help, e.g. "
    "search_memory(query='which databases has this user worked with')."
)


class SearchMemory(Args, frozen=True):
    query: QueryText
    top_k: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=20)] | None,
        msgspec.Meta(description="Maximum number of memories to return."),
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
        found += f"\n(The search was incomplete: {result.reason})"
    return found


def formatted(hits: Sequence[Hit]) -> str:
    """Return the hits as a dated, numbered list for a model."""
    numbers = {hit.id: number for number, hit in enumerate(hits, start=1)}
    return numbered(
        [
            Entry(
                hit.score,
                datetime.fromisoformat(str(hit.metadata["timestamp_utc"])),
                hit.content,
                replacement_note(hit, numbers).strip(),
            )
            for hit in hits
        ]
    )


def _shown(data: FoundMemories) -> list[str]:
    return [hit.id for hit in data.hits]


SEARCH_MEMORY = MemoryTool[SearchMemory](
    name="search_memory",
    title="Search questions, answers and notes",
    description=SEARCH_MEMORY_DESCRIPTION,
    annotations=READS,
    args=SearchMemory,
    answer=FoundMemories,
    function=search_memory,
    shows=_shown,
    operation="search_memory",
)
