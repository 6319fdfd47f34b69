"""Conversations to records: who said what and which tool answered what, each under a stable id.

Sending the same conversation again makes the same ids, so it changes nothing; a longer version adds
what is new. Facts are not extracted here: `records_of` is where an extractor would begin.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from local.errors import InvalidArgumentsError
from local.memory.episodes import new_episode
from local.memory.records import NewRecord, content_id, in_utc
from local.protocol.caller import Caller
from local.protocol.envelope import Name
from local.protocol.payloads import Json, ToolCallRecord

OWN_TOOLS = frozenset({
    "add_document", "add_knowledge", "ingest", "load_session", "memory_history", "note",
    "read_tool_output", "recall", "recall_topic", "remember_fact", "save_memory", "save_topic",
    "search_memory",
})  # fmt: skip
"""Tools of the memory itself: what they answer is remembered already."""
FIRST_MESSAGES = 3
"""As many tell one conversation from another."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation, in the roles of chat models."""

    role: Literal["user", "assistant", "system", "tool"]
    content: str | None = None
    id: Name | None = None
    name: Name | None = None
    timestamp: datetime | None = None
    tool_calls: list[ToolCallRecord] = []
    tool_call_id: Name | None = None
    occurrence: int | None = None
    """Of a message without an id: how often the conversation has said the same up to it."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """Messages with what the ledger needs to know of them."""

    messages: Sequence[Message]
    owner: str
    agent: str | None
    session_id: str | None
    now: datetime
    query_id: str | None = None


class Ingested(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a conversation: `ids` are its records', `added` how many of them are new."""

    session_id: str
    ids: list[str]
    added: int


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One question with its answer; None: it is not worth remembering, and the question is."""

    query: str
    answer: str | None
    at: datetime
    tool_calls: list[ToolCallRecord] = []
    session_id: str | None = None
    query_id: str | None = None

    def messages(self, turn_id: str) -> list[Message]:
        """The turn as the messages that it was."""
        asked, answered = f"{turn_id}:user", f"{turn_id}:agent"
        return [
            Message(role="user", content=self.query, id=asked, timestamp=self.at),
            Message(role="assistant", tool_calls=self.tool_calls, timestamp=self.at),
            Message(role="assistant", content=self.answer, id=answered, timestamp=self.at),
        ]


def question_of(query: str, query_id: str, *, owner: str, session_id: str | None) -> str:
    """The id of a turn's question, which tells the turn from others of the same query id."""
    return content_id("question", owner, session_id, query_id, query)


def records_of_turn(turn: Turn, caller: Caller) -> Iterator[NewRecord]:
    """The turn's episode, and its messages and tool results.

    Only episode and answer depend on what was answered; another answer makes others of them.
    """
    metadata: Json = {
        "session_id": turn.session_id,
        "query_id": turn.query_id,
        "timestamp_utc": turn.at.isoformat(),
        "tool_calls": len(turn.tool_calls),
    }
    episode = new_episode(f"Q: {turn.query}\nA: {turn.answer}", metadata, caller, turn.at)
    named, owner, session_id = turn.query_id or episode.id, episode.owner, episode.session_id
    question = question_of(turn.query, named, owner=owner, session_id=session_id)
    conversation = Conversation(
        messages=turn.messages(named),
        owner=owner,
        agent=caller.agent,
        session_id=session_id,
        query_id=episode.query_id,
        now=turn.at,
    )
    answered = () if turn.answer is None else (episode,)
    for record in (*answered, *records_of(conversation)):
        own = content_id(question, record.id, record.content)
        id_ = question if record.role == "user" else own
        yield msgspec.structs.replace(record, id=id_, turn=question)


def session_of(messages: Sequence[Message]) -> str:
    """The session's id where the caller gives none: the same conversation, the same id."""
    first = [
        (message.name or message.role, message.content, message.timestamp)
        for message in messages[:FIRST_MESSAGES]
    ]
    return content_id("session", first)


def numbered(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages of a conversation, so that it makes the same records whole and in parts.

    Each says how often the same was said up to it; a tool's message without a name gets its tool's.
    """
    return (message for message, _ in _with_calls(messages))


def records_of(conversation: Conversation) -> Iterator[NewRecord]:
    """A record a message and a tool's result, in their order; each id once.

    Raises:
        InvalidArgumentsError: An id names two texts.
    """
    check_ids(conversation.messages)
    seen: set[str] = set()
    for message, call in _with_calls(conversation.messages):
        for record in _records(conversation, message, call):
            if record.id not in seen:
                seen.add(record.id)
                yield record


def _with_calls(
    messages: Sequence[Message],
) -> Iterator[tuple[Message, ToolCallRecord | None]]:
    """Each message as `numbered` says, a tool's with the newest call before it that it answers."""
    calls: dict[str, ToolCallRecord] = {}
    said: Counter[tuple[str | None, ...]] = Counter()
    for message in messages:
        what = (message.role, message.name, message.content)
        said[what] += 1
        answered = calls.get(message.tool_call_id or "") if message.role == "tool" else None
        name = message.name or (answered.name if answered else None)
        times = message.occurrence or said[what]
        yield msgspec.structs.replace(message, occurrence=times, name=name), answered
        calls |= {call.id: call for call in message.tool_calls if call.id}


def _records(
    conversation: Conversation, message: Message, call: ToolCallRecord | None
) -> Iterator[NewRecord]:
    if message.role == "tool":
        if call is None or call.content != message.content:  # else the call has told it already
            yield from _result(conversation, message, _answer(message, call))
    elif message.role != "system":
        yield from _said(conversation, message)
    for told in message.tool_calls:
        yield from _result(conversation, message, told)


def _answer(message: Message, call: ToolCallRecord | None) -> ToolCallRecord:
    """A tool's message as the result of its call."""
    return ToolCallRecord(
        id=message.tool_call_id or None,
        name=message.name or "tool",
        args=call.args if call else {},
        content=message.content or "",
    )


def check_ids(messages: Sequence[Message]) -> None:
    """Refuse an id that names two texts: one of them would be lost.

    Raises:
        InvalidArgumentsError: There is one; says which message.
    """
    named: dict[tuple[str, str], str | None] = {}
    for number, message in enumerate(messages):
        if message.id and named.setdefault((message.role, message.id), message.content) != (
            message.content
        ):
            raise InvalidArgumentsError(
                f"messages[{number}].id: {message.id!r} is another message's already.",
                remedy="Give every message an id of its own, or none.",
            )


def _identity(message: Message) -> str:
    """The sender's id, else one made of what is said, and how often that was said before."""
    what = (message.role, message.name, message.content, message.occurrence)
    return message.id or content_id(*what)


def _said(conversation: Conversation, message: Message) -> Iterator[NewRecord]:
    text = message.content
    if not text or text.isspace():
        return
    yield _record(
        conversation,
        message,
        id=content_id(
            "chat_message",
            conversation.owner,
            conversation.session_id,
            message.role,
            _identity(message),
        ),
        kind="chat_message",
        content=text,
        label=message.name,
        role=message.role,
        source_ref=message.id or None,
    )


def _result(
    conversation: Conversation, message: Message, call: ToolCallRecord
) -> Iterator[NewRecord]:
    if call.name in OWN_TOOLS or not call.content or call.content.isspace():
        return
    said = [conversation.query_id, call.id or _identity(message), call.name, call.content]
    if message.role == "tool" and message.id and call.id:
        said.append(message.id)  # calls may be numbered anew in every reply
    yield _record(
        conversation,
        message,
        id=content_id("tool_output", conversation.owner, conversation.session_id, said),
        kind="tool_output",
        content=call.content,
        label=call.name,
        role="tool",
        source_ref=call.id or message.id or None,
        metadata={
            **({"args": call.args} if call.args else {}),
            **({"tool_output_key": call.tool_output_key} if call.tool_output_key else {}),
        },
    )


def _record(
    conversation: Conversation, message: Message, *, metadata: Json | None = None, **columns: Any
) -> NewRecord:
    """What every record of a conversation shares."""
    said_at = in_utc(message.timestamp, "timestamp") if message.timestamp else conversation.now
    return NewRecord(
        owner=conversation.owner,
        agent=conversation.agent,
        session_id=conversation.session_id,
        query_id=conversation.query_id,
        event_time=said_at,
        metadata=metadata or {},
        **columns,
    )
