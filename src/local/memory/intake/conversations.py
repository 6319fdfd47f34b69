"""Conversations and turns to records: who said what, which tool answered what, under stable ids.

Sending the same conversation again makes the same ids, so it changes nothing; a longer version adds
what is new. A turn has an episode beside its messages and results. Facts are read in the records
afterwards (`memory/upkeep/extraction.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from local.ledger.records import NewRecord
from local.memory.intake.echoes import OWN_RESULT
from local.memory.intake.episodes import new_episode
from local.protocol.conversation import (
    ConversationMessage,
    SkippedMessage,
    is_blank,
    with_calls,
)
from local.protocol.envelope import Caller, content_id
from local.protocol.payloads import Json, ToolCallRecord
from local.protocol.reading import in_utc

WhyNot = Callable[[ToolCallRecord], str | None]
"""Why the result of a call is not recorded, if it is not."""
MayBeOwn = Callable[[str, datetime], bool]
"""Whether a tool of this memory may have answered, at a time of which nobody can tell."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """Messages with what the ledger needs to know of them.

    What may be the memory's own is kept and not searched.
    """

    messages: Sequence[ConversationMessage]
    owner: str
    agent: str | None
    session_id: str | None
    now: datetime
    query_id: str | None = None
    why_not: WhyNot = lambda _call: None
    may_be_own: MayBeOwn = lambda _tool, _at: False


def records_of(conversation: Conversation) -> Iterator[NewRecord]:
    """The records of a conversation, in their order."""
    return (one for one in read(conversation) if isinstance(one, NewRecord))


def read(conversation: Conversation) -> Iterator[NewRecord | SkippedMessage]:
    """A record a message and a tool's result, in their order, or why there is none.

    What is told twice is one record. An id may come again with another text, of a message that was
    edited, or with other arguments, of another call.
    """
    seen: dict[str, tuple[str, Any]] = {}
    for index, (message, call) in enumerate(with_calls(conversation.messages)):
        for record in _records(conversation, message, call):
            if isinstance(record, str):
                yield SkippedMessage(index=index, reason=record)
            elif seen.get(record.id) != (said := (record.content, record.metadata.get("args"))):
                seen[record.id] = said
                yield record


def _records(
    conversation: Conversation, message: ConversationMessage, call: ToolCallRecord | None
) -> Iterator[NewRecord | str]:
    """The records of a message, and why there is none of a result.

    A blank message is none where the results of its calls stand for it.
    """
    told: list[ToolCallRecord] = []
    untold: list[ToolCallRecord] = []
    left_out: list[str] = []
    for reported in message.tool_calls:
        if is_blank(reported.content):
            untold.append(reported)
        elif reason := conversation.why_not(reported):
            untold.append(reported)
            left_out.append(reason)
        else:
            told.append(reported)
    if message.role == "tool" and not message.is_blank:
        result = _answer(message, call)
        if reason := conversation.why_not(result):
            yield reason
        elif call is None or call.content != message.content:  # else the call has told it already
            yield _result(conversation, message, result)
    elif message.says_something or untold or not told:
        yield _said(conversation, message, untold)
    yield from (_result(conversation, message, reported) for reported in told)
    yield from left_out


def _answer(message: ConversationMessage, call: ToolCallRecord | None) -> ToolCallRecord:
    """A tool's message as the result of its call."""
    return ToolCallRecord(
        id=message.tool_call_id or None,
        name=message.name or "tool",
        args=call.args if call else {},
        content=message.content or "",
        recorded=call is None or call.recorded,
    )


def _identity(message: ConversationMessage) -> str:
    """The sender's id, else one made of what is said, and how often that was said before."""
    what = (message.role, message.name, message.content, message.occurrence)
    return message.id or content_id(*what)


def _said(
    conversation: Conversation, message: ConversationMessage, without: Sequence[ToolCallRecord]
) -> NewRecord:
    """What was said, with its calls that have no results here."""
    searched = not message.is_blank and message.role != "system"
    calls = [{"id": call.id, "name": call.name, "args": call.args} for call in without]
    return _record(
        conversation,
        message,
        id=content_id(
            "chat_message",
            conversation.owner,
            conversation.session_id,
            message.role,
            _identity(message),
        ),
        kind="chat_message" if searched else "transcript",
        content=message.content or "",
        label=message.name,
        role=message.role,
        source_ref=(message.tool_call_id if message.role == "tool" else None) or message.id or None,
        metadata={"tool_calls": calls} if calls else {},
    )


def _result(
    conversation: Conversation, message: ConversationMessage, call: ToolCallRecord
) -> NewRecord:
    owner, session_id = conversation.owner, conversation.session_id
    said = [conversation.query_id, call.id or _identity(message), call.name, call.content]
    named = message.id if message.role == "tool" else None
    unclear = conversation.may_be_own(call.name, _said_at(conversation, message))
    if named and call.id:
        said.append(named)  # calls may be numbered anew in every reply
    return _record(
        conversation,
        message,
        id=content_id("tool_output", owner, session_id, said),
        alias=content_id("tool_output", owner, session_id, named) if named else None,
        kind="transcript" if unclear else "tool_output",
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
    conversation: Conversation, message: ConversationMessage, *, metadata: Json, **columns: Any
) -> NewRecord:
    """What every record of a conversation shares."""
    besides = {"parts": message.parts, "fields": message.fields}
    return NewRecord(
        owner=conversation.owner,
        agent=conversation.agent,
        session_id=conversation.session_id,
        query_id=conversation.query_id,
        event_time=_said_at(conversation, message),
        metadata={**{key: value for key, value in besides.items() if value}, **metadata},
        **columns,
    )


def _said_at(conversation: Conversation, message: ConversationMessage) -> datetime:
    return in_utc(message.timestamp, "timestamp") if message.timestamp else conversation.now


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One question with its answer; None: it is not worth remembering, and the question is."""

    query: str
    answer: str | None
    at: datetime
    tool_calls: list[ToolCallRecord] = []
    session_id: str | None = None
    query_id: str | None = None
    metadata: Json = {}

    def messages(self, turn_id: str, why_not: WhyNot) -> list[ConversationMessage]:
        """The turn as the messages that it was; without calls of the memory itself."""
        asked, answered = f"{turn_id}:user", f"{turn_id}:agent"
        calls = [call for call in self.tool_calls if why_not(call) != OWN_RESULT]
        told = [ConversationMessage(role="user", content=self.query, id=asked, timestamp=self.at)]
        if calls:
            told.append(ConversationMessage(role="assistant", tool_calls=calls, timestamp=self.at))
        if self.answer is not None:
            told.append(
                ConversationMessage(
                    role="assistant", content=self.answer, id=answered, timestamp=self.at
                )
            )
        return told


def question_of(query: str, query_id: str, *, owner: str, session_id: str | None) -> str:
    """The id of a turn's question, which tells the turn from others of the same query id."""
    return content_id("question", owner, session_id, query_id, query)


def records_of_turn(
    turn: Turn,
    caller: Caller,
    why_not: WhyNot = lambda _call: None,
    may_be_own: MayBeOwn = lambda _tool, _at: False,
) -> Iterator[NewRecord]:
    """The turn's episode, and its messages and tool results; no episode where it failed.

    Only episode and answer depend on what was answered; another answer makes others of them.
    """
    metadata: Json = {
        **turn.metadata,
        "session_id": turn.session_id,
        "query_id": turn.query_id,
        "timestamp_utc": turn.at.isoformat(),
        "tool_calls": len(turn.tool_calls),
    }
    episode = new_episode(f"Q: {turn.query}\nA: {turn.answer}", metadata, caller, turn.at)
    named, owner, session_id = turn.query_id or episode.id, episode.owner, episode.session_id
    question = question_of(turn.query, named, owner=owner, session_id=session_id)
    conversation = Conversation(
        messages=turn.messages(named, why_not),
        owner=owner,
        agent=caller.agent,
        session_id=session_id,
        query_id=episode.query_id,
        now=turn.at,
        why_not=why_not,
        may_be_own=may_be_own,
    )
    answered = () if turn.answer is None else (episode,)
    for record in (*answered, *records_of(conversation)):
        own = content_id(question, record.id, record.content)
        id_ = question if record.role == "user" else own
        yield msgspec.structs.replace(record, id=id_, turn=question)
