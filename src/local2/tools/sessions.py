"""Tools for sessions: ingest and load conversations, make notes, list the top memories."""

import msgspec

from local2.background import ITEM_READING, read_text
from local2.ledger.operations.sessions import COUNTED_CHARACTERS
from local2.memory.service import MemoryService
from local2.memory.sessions import PreseededMemories, from_call
from local2.protocol.conversation import ConversationMessage
from local2.protocol.lenient.messages import messages_of
from local2.protocol.memories import NOTHING_FOUND
from local2.protocol.memory_tools import (
    INGEST,
    LOAD_SESSION,
    NOTE,
    TOP_MEMORIES,
    Ingest,
    LoadSession,
    MakeNote,
    NoArguments,
    SessionMessage,
    TopMemories,
)
from local2.protocol.tool import ToolOutput
from local2.quoting import inset, memory_line, note_line, quoted_line
from local2.tools.base import answers
from local2.tools.texts import DATA_BYTES, TEXT_BYTES, related_fields, related_line, shortened

FEW_MESSAGES = 10
"""Maximum number of ingested messages for which related facts are looked for."""


@answers(INGEST)
async def ingest(memory: MemoryService, args: Ingest) -> ToolOutput:
    messages = await read_text(_messages, ITEM_READING * len(args.messages), args)
    ingested = await memory.intake.store_conversation(
        messages, args.session_id, allow_again=args.allow_again
    )
    # Whoever brings a whole conversation settles nothing in it, and would wait for every message.
    is_news = (ingested.added or ingested.changed) and len(ingested.ids) <= FEW_MESSAGES
    related = await memory.facts.related(ingested.ids) if is_news else []
    return ToolOutput(
        content=f"{ingested.summary()} (session {ingested.session_id}).{related_line(related)}",
        data=msgspec.structs.replace(ingested, **related_fields(related, memory.caller)),
    )


def _messages(args: Ingest) -> list[ConversationMessage]:
    return [
        message
        for number, received in enumerate(args.messages)
        for message in messages_of(received, f"messages[{number}]")
    ]


MESSAGES_BYTES = 500_000
"""Maximum bytes of all messages as JSON. With notes and memories they fit into the 1 MB that the
bus carries."""
MEMORIES_BYTES = 100_000
"""Maximum bytes of all memories as JSON."""
TEXT_MESSAGES = 20
"""Number of newest messages in the text for a model, each cut to the same size."""


@answers(LOAD_SESSION)
async def load_session(memory: MemoryService, args: LoadSession) -> ToolOutput:
    session = await memory.sessions.load(args.session_id, args.limit)
    # The newest messages that fit into a reply, without tool results at the beginning.
    start, left = len(session.messages), MESSAGES_BYTES
    while start:
        left -= len(msgspec.json.encode(_shortened(session.messages[start - 1])))
        if left < 0:
            break
        start -= 1
    messages = [_shortened(message) for message in from_call(session.messages, start)]
    fitting = msgspec.structs.replace(
        session,
        messages=messages,
        earlier=session.earlier or len(messages) < len(session.messages),
        memories=shortened(session.memories, MEMORIES_BYTES),
    )
    # The text for a model holds less than the data.
    quarter = TEXT_BYTES // 4
    newest = [message for message in messages if message.content][-TEXT_MESSAGES:]
    told = {0: "no messages", 1: "its last message"}
    told_here = told.get(len(newest), f"its last {len(newest)} messages")
    lines = [f"[Session {session.session_id}, {told_here}]"]
    lines += [
        f"{quoted_line(message.name or message.role)}: {inset(message.content)}"
        for message in shortened(newest, 2 * quarter)
    ]
    if session.degraded:
        lines.append(f"(The session may be incomplete: {session.reason})")
    if session.notes:
        lines.append("[Notes]")
        lines += map(note_line, shortened(session.notes, quarter))
    if fitting.memories:
        lines.append("[Memories]")
        lines += map(memory_line, shortened(fitting.memories, quarter))
    return ToolOutput(content="\n".join(lines), data=fitting)


def _shortened(message: SessionMessage) -> SessionMessage:
    (short,) = shortened([message], COUNTED_CHARACTERS)
    return short


@answers(NOTE)
async def make_note(memory: MemoryService, args: MakeNote) -> ToolOutput:
    noted = await memory.sessions.note(args.content, args.role)
    outcome = "Noted." if noted.was_new else "Noted before."
    lines = map(note_line, shortened(noted.notes, TEXT_BYTES))
    return ToolOutput(
        content="\n".join([f"{outcome} The notes of this session:", *lines]),
        data=noted,
    )


@answers(TOP_MEMORIES)
async def top_memories(memory: MemoryService, _: NoArguments) -> ToolOutput:
    top = (await memory.top_memories()).memories
    return ToolOutput(
        content=PreseededMemories(memories=shortened(top, TEXT_BYTES)).section() or NOTHING_FOUND,
        data=TopMemories(memories=shortened(top, DATA_BYTES)),
    )
