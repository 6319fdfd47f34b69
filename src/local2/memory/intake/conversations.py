"""Make records of conversations and turns: of messages, tool results, episodes; under stable ids.

The same conversation gives the same ids when it is sent again, so nothing changes; a longer version
adds only what is new. A turn's messages are a conversation, too. Facts are extracted from the
records later (`memory/extraction/job.py`).
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from local2.ledger.operations.turns import Delivered
from local2.ledger.records import NewRecord
from local2.memory.intake.echoes import OWN_RESULT, KnownTools
from local2.memory.intake.episodes import episode_text, new_episode
from local2.protocol.conversation import (
    ConversationMessage,
    SkippedMessage,
    is_blank,
    with_calls,
)
from local2.protocol.envelope import Caller, content_id
from local2.protocol.payloads import Json, ToolCallRecord, preview
from local2.protocol.times import in_utc
from local2.settings import TOOL_OUTPUT_LIMIT


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """Messages, with everything needed to make records of them.

    `tools` know which results are the memory's own, and which their tools do not want recorded;
    without them, all are recorded.
    """

    messages: Sequence[ConversationMessage]
    owner: str
    agent: str | None
    session_id: str | None
    now: datetime
    query_id: str | None = None
    tools: KnownTools | None = None

    def skip_reason(self, call: ToolCallRecord) -> str | None:
        """The reason why the result of a call is not recorded, or None if it is."""
        return self.tools.skip_reason(self.owner, call) if self.tools else None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A question with its answer, or with None if the answer is not worth remembering.

    `shown`: the ids of the memories that its agent was shown unasked.
    `delivered`: its place in the stream, if one delivered it.
    """

    query: str
    answer: str | None
    at: datetime
    tool_calls: list[ToolCallRecord] = []
    session_id: str | None = None
    query_id: str | None = None
    metadata: Json = {}
    shown: Sequence[str] = ()
    delivered: Delivered | None = None


def question_id_of(query: str, query_id: str, *, owner: str, session_id: str | None) -> str:
    """The record id of a turn's question, which also identifies the turn.

    Several turns may have the same query id.
    """
    return content_id("question", owner, session_id, query_id, query)


def records_of_turn(
    turn: Turn, caller: Caller, tools: KnownTools | None = None
) -> Iterator[NewRecord]:
    """Yield the turn's episode, messages and tool results. A turn without answer has no episode.

    Another answer gives the episode and the answer other ids, and no other record: the ids that the
    records have as messages of a conversation are replaced by ids that depend on the question.
    """
    metadata: Json = {
        **turn.metadata,
        "session_id": turn.session_id,
        "query_id": turn.query_id,
        "timestamp_utc": turn.at.isoformat(),
        "tool_calls": len(turn.tool_calls),
    }
    episode = new_episode(episode_text(turn.query, turn.answer), metadata, caller, turn.at)
    # Without a query id, the episode's id takes its place: it depends on question and answer.
    turn_id, owner, session_id = turn.query_id or episode.id, episode.owner, episode.session_id
    question = question_id_of(turn.query, turn_id, owner=owner, session_id=session_id)
    messages = [
        ConversationMessage(
            role="user", content=turn.query, id=f"{turn_id}:user", timestamp=turn.at
        )
    ]
    calls = [  # also those whose results are not recorded: that they were made is
        call
        for call in turn.tool_calls
        if tools is None or tools.skip_reason(owner, call) != OWN_RESULT
    ]
    if calls:
        messages.append(ConversationMessage(role="assistant", tool_calls=calls, timestamp=turn.at))
    if turn.answer is not None:
        messages.append(
            ConversationMessage(
                role="assistant", content=turn.answer, id=f"{turn_id}:agent", timestamp=turn.at
            )
        )
    episodes = () if turn.answer is None else (episode,)
    conversation = Conversation(
        messages=messages,
        owner=owner,
        agent=caller.agent,
        session_id=session_id,
        query_id=episode.query_id,
        now=turn.at,
        tools=tools,
    )
    for record in (*episodes, *records_of(conversation)):
        is_question = record.role == "user"
        id_ = question if is_question else content_id(question, record.id, record.content)
        made = msgspec.structs.replace(record, id=id_, turn=question)
        is_long = made.kind == "tool_output" and len(made.content) > TOOL_OUTPUT_LIMIT
        if is_long and "tool_output_key" not in made.metadata:  # its agent sent no preview
            # Of the record, so that a turn which is delivered again gets the same key.
            key = f"tout_{content_id('tool_output_key', made.id)}"
            made = msgspec.structs.replace(
                made,
                content=preview(made.content, key, TOOL_OUTPUT_LIMIT),
                metadata={**made.metadata, "tool_output_key": key},
                output=made.content,
            )
        yield made


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
    tools = conversation.tools
    # From before the memory's answers were logged: it is stored, but not searched.
    may_be_own = tools is not None and tools.may_be_own(call.name, _time_of(conversation, message))
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
