"""Makes records of conversations and turns: messages and tools' results, under stable ids.

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
"""Returns why the result of a call is not recorded, if it is not."""
MayBeOwn = Callable[[str, datetime], bool]
"""Returns whether a tool of this memory may have answered before its answers were noted."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """Messages with what the ledger needs to know about them.

    Results that may be the memory's own are stored and not searched.
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
    """Yield the records of a conversation, in their order."""
    return (one for one in read(conversation) if isinstance(one, NewRecord))


def read(conversation: Conversation) -> Iterator[NewRecord | SkippedMessage]:
    """Yield a record for each message and tool's result, in their order, or why there is none.

    What is reported twice is one record. An id may come again with another text, for an edited
    message, or with other arguments, for another call.
    """
    seen: dict[str, tuple[str, Any]] = {}
    for index, (message, call) in enumerate(with_calls(conversation.messages)):
        for record in _records(conversation, message, call):
            if isinstance(record, str):
                yield SkippedMessage(index=index, reason=record)
            elif seen.get(record.id) != (identity := (record.content, record.metadata.get("args"))):
                seen[record.id] = identity
                yield record


def _records(
    conversation: Conversation, message: ConversationMessage, call: ToolCallRecord | None
) -> Iterator[NewRecord | str]:
    """Yield the records of a message, and why a result has none.

    A blank message gets none if the results of its calls take its place.
    """
    with_result: list[ToolCallRecord] = []
    without_result: list[ToolCallRecord] = []
    left_out: list[str] = []
    for reported in message.tool_calls:
        if is_blank(reported.content):
            without_result.append(reported)
        elif reason := conversation.why_not(reported):
            without_result.append(reported)
            left_out.append(reason)
        else:
            with_result.append(reported)
    if message.role == "tool" and not message.is_blank:
        result = _answer(message, call)
        if reason := conversation.why_not(result):
            yield reason
        elif call is None or call.content != message.content:  # the call did not report it
            yield _result(conversation, message, result)
    elif message.has_content or without_result or not with_result:
        yield _message(conversation, message, without_result)
    yield from (_result(conversation, message, reported) for reported in with_result)
    yield from left_out


def _answer(message: ConversationMessage, call: ToolCallRecord | None) -> ToolCallRecord:
    """Return a tool's message as the result of its call."""
    return ToolCallRecord(
        id=message.tool_call_id or None,
        name=message.name or "tool",
        args=call.args if call else {},
        content=message.content or "",
        recorded=call is None or call.recorded,
    )


def _identity(message: ConversationMessage) -> str:
    """Return the sender's id, else one made of the content and its number of occurrences."""
    what = (message.role, message.name, message.content, message.occurrence)
    return message.id or content_id(*what)


def _message(
    conversation: Conversation, message: ConversationMessage, without: Sequence[ToolCallRecord]
) -> NewRecord:
    """Return the record of a message, with its calls that have no results here."""
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
    identity = [conversation.query_id, call.id or _identity(message), call.name, call.content]
    named = message.id if message.role == "tool" else None
    unclear = conversation.may_be_own(call.name, _time_of(conversation, message))
    if named and call.id:
        identity.append(named)  # calls may be numbered anew in every reply
    return _record(
        conversation,
        message,
        id=content_id("tool_output", owner, session_id, identity),
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
    """Return a record with what all records of a conversation share."""
    besides = {"parts": message.parts, "fields": message.fields}
    return NewRecord(
        owner=conversation.owner,
        agent=conversation.agent,
        session_id=conversation.session_id,
        query_id=conversation.query_id,
        event_time=_time_of(conversation, message),
        metadata={**{key: value for key, value in besides.items() if value}, **metadata},
        **columns,
    )


def _time_of(conversation: Conversation, message: ConversationMessage) -> datetime:
    return in_utc(message.timestamp, "timestamp") if message.timestamp else conversation.now


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One question with its answer; None: it is not worth remembering, but the question is."""

    query: str
    answer: str | None
    at: datetime
    tool_calls: list[ToolCallRecord] = []
    session_id: str | None = None
    query_id: str | None = None
    metadata: Json = {}

    def messages(self, turn_id: str, why_not: WhyNot) -> list[ConversationMessage]:
        """Return the messages of the turn, without calls of the memory itself."""
        asked, answered = f"{turn_id}:user", f"{turn_id}:agent"
        calls = [call for call in self.tool_calls if why_not(call) != OWN_RESULT]
        messages = [
            ConversationMessage(role="user", content=self.query, id=asked, timestamp=self.at)
        ]
        if calls:
            messages.append(
                ConversationMessage(role="assistant", tool_calls=calls, timestamp=self.at)
            )
        if self.answer is not None:
            messages.append(
                ConversationMessage(
                    role="assistant", content=self.answer, id=answered, timestamp=self.at
                )
            )
        return messages


def question_of(query: str, query_id: str, *, owner: str, session_id: str | None) -> str:
    """Return the id of a turn's question, which identifies the turn among those of its query id."""
    return content_id("question", owner, session_id, query_id, query)


def records_of_turn(
    turn: Turn,
    caller: Caller,
    why_not: WhyNot = lambda _call: None,
    may_be_own: MayBeOwn = lambda _tool, _at: False,
) -> Iterator[NewRecord]:
    """Yield the turn's episode, and its messages and tool results; no episode if it failed.

    Only episode and answer depend on the answer; another answer gives other ids.
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
