"""Tool `save_memory`: note something in the middle of a conversation."""

from typing import Annotated

import msgspec

from local.errors import InvalidArgumentsError
from local.memory.scopes import how_to_send
from local.memory.service import MemoryService
from local.protocol.answers import SavedMemory
from local.protocol.payloads import Json
from local.protocol.tool import ToolOutput
from local.tools.base import MAX_CONTENT, WRITES, Args, MemoryTool

DESCRIPTION = (
    "Note something important that came up in the conversation and has no key of its own: a "
    "finding, a decision with its reasons, an event. It is found again by its meaning with "
    "search_memory. For a preference, rule or fact that the user wants remembered use save_topic."
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


TOOL = MemoryTool(
    name="save_memory",
    title="Save a note for good",
    description=DESCRIPTION,
    annotations=WRITES,
    args=SaveMemory,
    function=save_memory,
    operation="upsert_memory",
)
