"""Make records of the messages and tool results of conversations, under stable ids.

The same conversation gives the same ids when it is sent again, so nothing changes; a longer version
adds only what is new. `turns.py` makes the records of a turn with it. Facts are extracted from the
records later (`memory/upkeep/extraction.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from local2.ledger.records import NewRecord
from local2.protocol.conversation import (
    ConversationMessage,
    SkippedMessage,
    is_blank,
    with_calls,
)
from local2.protocol.envelope import content_id
from local2.protocol.payloads import Json, ToolCallRecord
from local2.protocol.times import in_utc

SkipReason = Callable[[ToolCallRecord], str | None]
"""Returns the reason why the result of a call is not recorded, or None if it is."""
MayBeOwn = Callable[[str, datetime], bool]
"""Returns whether a result may come from the memory itself, from before its answers were logged."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """Messages, with everything needed to make records of them.

    Results that may be the memory's own are stored but not searched.
    """

    messages: Sequence[ConversationMessage]
    owner: str
    agent: str | None
    session_id: str | None
    now: datetime
    query_id: str | None = None
    skip_reason: SkipReason = lambda _call: None
    may_be_own: MayBeOwn = lambda _tool, _at: False


def records_of(conversation: Conversation) -> Iterator[NewRecord]:
    """Yield the records of a conversation, in order."""
    return (read for read in read_records(conversation) if isinstance(read, NewRecord))


def read_records(conversation: Conversation) -> Iterator[NewRecord | SkippedMessage]:
    """Yield a record for each message and tool result in order, or the reason why it has none.

    A message or result that is reported twice gives one record. The same id with another text (an
    edited message) or other arguments (another call) gives another record.
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
    """Yield the records of a message, and the reasons why results have none.

    A blank message gets no record if the results of its calls have records.
    """
    with_result: list[ToolCallRecord] = []
    without_result: list[ToolCallRecord] = []
    left_out: list[str] = []
    for reported in message.tool_calls:
        if is_blank(reported.content):
            without_result.append(reported)
        elif reason := conversation.skip_reason(reported):
            without_result.append(reported)
            left_out.append(reason)
        else:
            with_result.append(reported)
    if message.role == "tool" and not message.is_blank:
        result = ToolCallRecord(
            id=message.tool_call_id or None,
            name=message.name or "tool",
            args=call.args if call else {},
            content=message.content or "",
            recorded=call is None or call.recorded,
        )
        if reason := conversation.skip_reason(result):
            yield reason
        elif call is None or call.content != message.content:  # the call did not report it yet
            yield _result(conversation, message, result)
    elif message.has_content or without_result or not with_result:
        is_searched = not message.is_blank and message.role != "system"
        calls = [{"id": call.id, "name": call.name, "args": call.args} for call in without_result]
        answered = message.tool_call_id if message.role == "tool" else None
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
            kind="chat_message" if is_searched else "transcript",
            content=message.content or "",
            label=message.name,
            role=message.role,
            source_ref=answered or message.id or None,
            metadata={"tool_calls": calls} if calls else {},
        )
    yield from (_result(conversation, message, reported) for reported in with_result)
    yield from left_out


def _identity(message: ConversationMessage) -> str:
    """The sender's id, else one made of the content and its number of occurrences."""
    parts = (message.role, message.name, message.content, message.occurrence)
    return message.id or content_id(*parts)


def _result(
    conversation: Conversation, message: ConversationMessage, call: ToolCallRecord
) -> NewRecord:
    owner, session_id = conversation.owner, conversation.session_id
    identity = [conversation.query_id, call.id or _identity(message), call.name, call.content]
    message_id = message.id if message.role == "tool" else None
    may_be_own = conversation.may_be_own(call.name, _time_of(conversation, message))
    if message_id and call.id:
        identity.append(message_id)  # some senders number the calls of each reply from 1
    return _record(
        conversation,
        message,
        id=content_id("tool_output", owner, session_id, identity),
        alias=content_id("tool_output", owner, session_id, message_id) if message_id else None,
        kind="transcript" if may_be_own else "tool_output",
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
    """A record, with the columns that all records of a conversation have in common."""
    extra = {"parts": message.parts, "fields": message.fields}
    return NewRecord(
        owner=conversation.owner,
        agent=conversation.agent,
        session_id=conversation.session_id,
        query_id=conversation.query_id,
        event_time=_time_of(conversation, message),
        metadata={**{key: value for key, value in extra.items() if value}, **metadata},
        **columns,
    )


def _time_of(conversation: Conversation, message: ConversationMessage) -> datetime:
    return in_utc(message.timestamp, "timestamp") if message.timestamp else conversation.now
