"""Tools for sessions: ingest and load conversations, make notes, list the top memories."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from local2.ledger.sessions import COUNTED_CHARACTERS
from local2.llm.framing import fact_line, inset, note_line, quoted_line
from local2.memory.intake.intake import LARGE_CONVERSATION
from local2.memory.service import MemoryService
from local2.memory.sessions import TopMemories, from_call
from local2.protocol.answers import SessionContent, SessionMessage, SessionNotes
from local2.protocol.conversation import ConversationMessage, IngestReport
from local2.protocol.envelope import Name
from local2.protocol.lenient.messages import MessageJson, messages_of
from local2.protocol.memories import NOTHING_FOUND
from local2.protocol.tool import ToolOutput
from local2.tools.base import DATA_BYTES, READS, TEXT_BYTES, WRITES, Args, MemoryTool, shortened

INGEST_DESCRIPTION = (
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
            description="The conversation's id; by default the envelope's session, else an id "
            "derived from the first messages."
        ),
    ] = None
    allow_again: Annotated[
        bool, msgspec.Meta(description="Also store messages that were erased on request.")
    ] = False


async def ingest(memory: MemoryService, args: Ingest) -> ToolOutput:
    is_small = len(args.messages) < LARGE_CONVERSATION
    messages = _messages(args) if is_small else await asyncio.to_thread(_messages, args)
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


INGEST = MemoryTool[Ingest](
    name="ingest",
    title="Remember a conversation",
    description=INGEST_DESCRIPTION,
    annotations=WRITES,
    args=Ingest,
    answer=IngestReport,
    function=ingest,
    for_models=False,
    operation="upsert_memory",
)


LOAD_SESSION_DESCRIPTION = (
    "Load a session to continue it: its newest messages in their order, with the tools called "
    "and what they answered; its notes; and the memories that matter most. To look for something "
    "in particular use recall."
)
DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000
MESSAGES_BYTES = 500_000
"""Maximum bytes of all messages as JSON. With notes and memories they fit into the 1 MB that the
bus carries."""
MEMORIES_BYTES = 100_000
"""Maximum bytes of all memories as JSON."""
TEXT_MESSAGES = 20
"""Number of newest messages in the text for a model, each cut to the same size."""


class LoadSession(Args, frozen=True):
    session_id: Annotated[
        Annotated[Name, msgspec.Meta(min_length=1)] | None,
        msgspec.Meta(description="One of the user's sessions; by default the envelope's."),
    ] = None
    limit: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=MAX_LIMIT,
            description="Maximum number of messages to return; 0: notes and memories only.",
        ),
    ] = DEFAULT_LIMIT


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
    """Return the newest messages that fit into a reply, without tool results at the beginning."""
    start, left = len(messages), MESSAGES_BYTES
    while start:
        left -= len(msgspec.json.encode(_shortened(messages[start - 1])))
        if left < 0:
            break
        start -= 1
    return [_shortened(message) for message in from_call(messages, start)]


def _shortened(message: SessionMessage) -> SessionMessage:
    (short,) = shortened([message], COUNTED_CHARACTERS)
    return short


def _lines(session: SessionContent) -> Iterator[str]:
    """Yield the session as text for a model."""
    quarter = TEXT_BYTES // 4
    newest = [message for message in session.messages if message.content][-TEXT_MESSAGES:]
    yield f"[Session {session.session_id}, its last {len(newest)} messages]"
    for message in shortened(newest, 2 * quarter):
        yield f"{quoted_line(message.name or message.role)}: {inset(message.content)}"
    if session.notes:
        yield "[Notes]"
        for note in shortened(session.notes, quarter):
            yield note_line(note.role, note.content, merged=note.merges > 0)
    if session.memories:
        yield "[Memories]"
        for memory in shortened(session.memories, quarter):
            yield fact_line(memory.content, memory.topic, memory.by, memory.source_class)


def _session_shown(data: SessionContent) -> list[str]:
    return [memory.id for memory in data.memories] + [message.id for message in data.messages]


LOAD_SESSION = MemoryTool[LoadSession](
    name="load_session",
    title="Load a session",
    description=LOAD_SESSION_DESCRIPTION,
    annotations=READS,
    args=LoadSession,
    answer=SessionContent,
    function=load_session,
    shows=_session_shown,
    for_models=False,
    operation="search_memory",
)


NOTE_DESCRIPTION = (
    "Note something for the rest of this session: a decision, a result, what is still to do, "
    "e.g. note(content='Invoices are checked; shipping is still open.'). All notes of the "
    "session are returned, whoever made them. When they are many, the oldest are shortened into "
    "one. For what matters beyond the session use remember_fact."
)
MAX_NOTE = 2_000
MAX_ROLE = 64


class MakeNote(Args, frozen=True):
    content: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=MAX_NOTE, description="The note, in a sentence."),
    ]
    role: Annotated[
        Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ROLE)] | None,
        msgspec.Meta(
            description="The role that makes the note, e.g. 'planner'; by default the caller."
        ),
    ] = None


async def note(memory: MemoryService, args: MakeNote) -> ToolOutput:
    noted = await memory.sessions.note(args.content, args.role)
    outcome = "Noted." if noted.was_new else "Noted before."
    lines = [
        note_line(one.role, one.content, merged=one.merges > 0)
        for one in shortened(noted.notes, TEXT_BYTES)
    ]
    return ToolOutput(
        content="\n".join([f"{outcome} The notes of this session:", *lines]),
        data=noted,
    )


NOTE = MemoryTool(
    name="note",
    title="Note for this session",
    description=NOTE_DESCRIPTION,
    annotations=WRITES,
    args=MakeNote,
    answer=SessionNotes,
    function=note,
    operation="create_memory",
)


TOP_MEMORIES_DESCRIPTION = (
    "List the memories that matter most: important or lasting facts, instructions and "
    "preferences of the user, of the agent and for everybody, then other facts with a key. For "
    "agents to begin each turn with; to look for something in particular use recall."
)


class NoArguments(Args, frozen=True):
    pass


async def top_memories(memory: MemoryService, _: NoArguments) -> ToolOutput:
    top = (await memory.top_memories()).memories
    return ToolOutput(
        content=TopMemories(memories=shortened(top, TEXT_BYTES)).section() or NOTHING_FOUND,
        data=TopMemories(memories=shortened(top, DATA_BYTES)),
    )


def _top_shown(data: TopMemories) -> list[str]:
    return [memory.id for memory in data.memories]


TOP_MEMORIES = MemoryTool[NoArguments](
    name="top_memories",
    title="List what matters most",
    description=TOP_MEMORIES_DESCRIPTION,
    annotations=READS,
    args=NoArguments,
    answer=TopMemories,
    function=top_memories,
    shows=_top_shown,
    for_models=False,
    operation="search_memory",
)
