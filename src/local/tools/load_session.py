"""Tool `load_session`: a session as it was, for an agent that takes it up again."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from local.ledger.sessions import LONGEST
from local.llm.framing import fact_line, inset, line, note_line
from local.memory.service import MemoryService
from local.memory.sessions.history import from_answered
from local.protocol.answers import SessionContent, SessionMessage
from local.protocol.envelope import Name
from local.protocol.tool import ToolOutput
from local.tools.base import READS, TEXT_BYTES, Args, MemoryTool, shortened

DESCRIPTION = (
    "Load a session to go on with it: its newest messages in their order, with the tools called "
    "and what they answered; its notes; and the memories that matter most. To look for something "
    "in particular use recall."
)
MESSAGES = 100
MOST_MESSAGES = 1_000
MESSAGES_BYTES = 500_000
"""Of all messages together, as JSON; with notes and memories they fit the 1 MB of the bus."""
MEMORIES_BYTES = 100_000
TEXT_MESSAGES = 20
"""So many of the newest are in the text for a model, each cut to its share."""


class LoadSession(Args, frozen=True):
    session_id: Annotated[
        Annotated[Name, msgspec.Meta(min_length=1)] | None,
        msgspec.Meta(description="One of the user's sessions; else that of the envelope."),
    ] = None
    limit: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=MOST_MESSAGES,
            description="How many messages to return at most; 0: notes and memories only.",
        ),
    ] = MESSAGES


async def load_session(memory: MemoryService, args: LoadSession) -> ToolOutput:
    session = await memory.sessions.load(args.session_id, args.limit)
    messages = _fitting(session.messages)
    fitting = msgspec.structs.replace(
        session,
        messages=messages,
        earlier=session.earlier or len(messages) < len(session.messages),
        memories=shortened(session.memories, MEMORIES_BYTES),
    )
    return ToolOutput(content="\n".join(_lines(fitting)), data=fitting)


def _fitting(messages: Sequence[SessionMessage]) -> list[SessionMessage]:
    """The newest messages that the bus carries, from one that is no tool's on."""
    start, left = len(messages), MESSAGES_BYTES
    while start:
        left -= len(msgspec.json.encode(_short(messages[start - 1])))
        if left < 0:
            break
        start -= 1
    return [_short(message) for message in from_answered(messages, start)]


def _short(message: SessionMessage) -> SessionMessage:
    (short,) = shortened([message], LONGEST)
    return short


def _lines(session: SessionContent) -> Iterator[str]:
    """The session as text for a model."""
    share = TEXT_BYTES // 4
    newest = [message for message in session.messages if message.content][-TEXT_MESSAGES:]
    yield f"[Session {session.session_id}, its last {len(newest)} messages]"
    for message in shortened(newest, 2 * share):
        yield f"{line(message.name or message.role)}: {inset(message.content)}"
    if session.notes:
        yield "[Notes]"
        for note in shortened(session.notes, share):
            yield note_line(note.role, note.content, merged=note.merges > 0)
    if session.memories:
        yield "[Memories]"
        for memory in shortened(session.memories, share):
            yield fact_line(memory.content, memory.topic, memory.by, memory.source_class)


def _shown(data: SessionContent) -> list[str]:
    return [memory.id for memory in data.memories] + [message.id for message in data.messages]


TOOL = MemoryTool[LoadSession](
    name="load_session",
    title="Load a session",
    description=DESCRIPTION,
    annotations=READS,
    args=LoadSession,
    function=load_session,
    shows=_shown,
    for_models=False,
    operation="search_memory",
)
