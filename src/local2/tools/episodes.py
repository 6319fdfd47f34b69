"""Tools for episodes: save a note; find questions, answers and notes by meaning."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from local2.errors import InvalidArgumentsError
from local2.memory.scopes import how_to_send
from local2.memory.service import MemoryService
from local2.protocol.memories import nothing_found
from local2.protocol.memory_tools import (
    SAVE_MEMORY,
    SEARCH_MEMORY,
    FoundMemories,
    Hit,
    SavedMemory,
    SaveMemory,
    SearchMemory,
)
from local2.protocol.tool import ToolOutput
from local2.tools.base import answers
from local2.tools.texts import (
    DATA_BYTES,
    ListedMemory,
    cut_to_passages,
    later_shortened,
    numbered,
    replacement_note,
    shortened,
)


@answers(SAVE_MEMORY)
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


@answers(SEARCH_MEMORY)
async def search_memory(memory: MemoryService, args: SearchMemory) -> ToolOutput:
    result = await memory.search_episodic(args.query, args.top_k)
    hits = [
        msgspec.structs.replace(hit, later=later_shortened(hit.later, len(result.hits)))
        for hit in result.hits
    ]
    if hits:
        content = formatted(await cut_to_passages(hits, args.query))
        if result.degraded:
            content += f"\n(The search was incomplete: {result.reason})"
    else:
        content = nothing_found(result.reason, await memory.others())
    return ToolOutput(
        content=content,
        data=FoundMemories(
            hits=shortened(hits, DATA_BYTES),
            degraded=result.degraded,
            reason=result.reason,
        ),
    )


def formatted(hits: Sequence[Hit]) -> str:
    """The hits as a dated, numbered list for a model."""
    numbers = {hit.id: number for number, hit in enumerate(hits, start=1)}
    return numbered(
        [
            ListedMemory(
                hit.score,
                datetime.fromisoformat(str(hit.metadata["timestamp_utc"])),
                hit.content,
                replacement_note(hit, numbers).strip(),
                hit.later,
            )
            for hit in hits
        ]
    )
