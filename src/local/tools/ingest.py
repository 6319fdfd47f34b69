"""Tool `ingest`: remember a conversation that another agent had, word for word."""

import asyncio
from typing import Annotated

import msgspec

from local.memory.intake.intake import MANY
from local.memory.service import MemoryService
from local.protocol.conversation import ConversationMessage
from local.protocol.envelope import Name
from local.protocol.messages import MessageJson, messages_of
from local.protocol.tool import ToolOutput
from local.tools.base import WRITES, Args, MemoryTool

DESCRIPTION = (
    "Remember a whole conversation word for word, so that recall finds what was said and what "
    "tools answered. Sending it again changes nothing; a longer version adds what is new; another "
    "text under a message's id is its newer version. For a single fact use remember_fact or "
    "save_topic."
)
MAX_MESSAGES = 10_000


class Ingest(Args, frozen=True):
    messages: Annotated[
        list[MessageJson],
        msgspec.Meta(
            min_length=1,
            max_length=MAX_MESSAGES,
            description="In their order. id: your own, needed if you send a conversation in "
            "pieces; name: who speaks.",
        ),
    ]
    session_id: Annotated[
        Annotated[Name, msgspec.Meta(min_length=1)] | None,
        msgspec.Meta(
            description="Which conversation this is; else the envelope says it, else it "
            "is derived from the first messages."
        ),
    ] = None
    allow_again: Annotated[
        bool, msgspec.Meta(description="Also store what was erased on request before.")
    ] = False


async def ingest(memory: MemoryService, args: Ingest) -> ToolOutput:
    few = len(args.messages) < MANY
    messages = _messages(args) if few else await asyncio.to_thread(_messages, args)
    ingested = await memory.intake.store_conversation(
        messages, args.session_id, allow_again=args.allow_again
    )
    return ToolOutput(
        content=f"{ingested.summary()} (session {ingested.session_id}).", data=ingested
    )


def _messages(args: Ingest) -> list[ConversationMessage]:
    return [
        message
        for number, received in enumerate(args.messages)
        for message in messages_of(received, f"messages[{number}]")
    ]


TOOL = MemoryTool[Ingest](
    name="ingest",
    title="Remember a conversation",
    description=DESCRIPTION,
    annotations=WRITES,
    args=Ingest,
    function=ingest,
    for_models=False,
    operation="upsert_memory",
)
