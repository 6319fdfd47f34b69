"""Conversations as the memory stores them: messages with stable ids, and their tool calls.

Messages may have no ids, and the same conversation may be sent again, whole or in parts. So the ids
of sessions and messages are derived from their content, and repeated messages are counted.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from local2.protocol.envelope import Name, content_id
from local2.protocol.memories import WithRelated
from local2.protocol.payloads import Json, ToolCallRecord

FIRST_MESSAGES = 3
"""Number of messages that identify a conversation. One may be just a common greeting; with more, a
short conversation would get another id when it grows."""


class ConversationMessage(
    msgspec.Struct, frozen=True, kw_only=True, gc=False
):  # see ToolCallRecord
    """One message to store, in the roles of chat models, in the one form that the memory takes.

    What the memory returns is a `SessionMessage`.
    """

    role: str
    content: str | None = None
    id: Name | None = None
    name: Name | None = None
    timestamp: datetime | None = None
    tool_calls: list[ToolCallRecord] = []
    tool_call_id: Name | None = None
    occurrence: int | None = None
    """For a message without an id: how many equal ones occurred so far, including this one."""
    parts: list[Any] = []
    """The parts of a content that is more than text."""
    fields: Json = {}
    """All other fields of the message as it was sent."""

    @property
    def is_blank(self) -> bool:
        return is_blank(self.content or "")

    @property
    def has_content(self) -> bool:
        """Whether the message contains more than tool calls."""
        return not self.is_blank or bool(self.parts or self.fields)


class SkippedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was not stored, at least in part, and why; `index` counts from 0."""

    index: int
    reason: str


class IngestReport(WithRelated, frozen=True, kw_only=True):
    """The result of an ingestion: `ids` are the record ids in the order of the conversation.

    `added`: new records. `changed`: newer versions. `known`: records that existed already.
    `erased`: messages that had been erased on request, and are not stored again. `related` is
    looked for by what the user said in a turn or a few, but not for longer conversations.
    """

    session_id: str
    ids: list[str]
    added: int
    changed: int = 0
    known: int = 0
    skipped: list[SkippedMessage] = msgspec.field(default_factory=list)
    erased: int = 0

    def summary(self) -> str:
        """Tell people the counts, and why messages were left out."""
        parts = [f"{self.added} stored"]
        if self.changed:
            parts.append(f"{self.changed} changed")
        parts.append(f"{self.known} already known")
        if self.erased:
            parts.append(f"{self.erased} erased before, and not stored again")
        reasons = Counter(message.reason for message in self.skipped)
        parts += [f"{count} left out ({reason})" for reason, count in reasons.items()]
        return ", ".join(parts)


def session_of(messages: Sequence[ConversationMessage]) -> str:
    """Make an id for a conversation without one; equal conversations get the same."""
    first = [
        (message.name or message.role, message.content, message.timestamp)
        for message in messages[:FIRST_MESSAGES]
    ]
    return content_id("session", first)


def numbered(messages: Sequence[ConversationMessage]) -> Iterator[ConversationMessage]:
    """Complete the messages so that sending them in parts produces the same records.

    Each gets its `occurrence`; a tool's message without a name gets the name of its tool.
    """
    return (message for message, _ in with_calls(messages))


def with_calls(
    messages: Sequence[ConversationMessage],
) -> Iterator[tuple[ConversationMessage, ToolCallRecord | None]]:
    """Yield the messages as `numbered` does, a tool's message with the call that it answers."""
    calls: dict[str, ToolCallRecord] = {}
    counts: Counter[tuple[str | None, ...]] = Counter()
    for message in messages:
        content = (message.role, message.name, message.content)
        counts[content] += 1
        answered = calls.get(message.tool_call_id or "") if message.role == "tool" else None
        name = message.name or (answered.name if answered else None)
        occurrence = message.occurrence or counts[content]
        yield msgspec.structs.replace(message, occurrence=occurrence, name=name), answered
        calls |= {call.id: call for call in message.tool_calls if call.id}


def is_blank(text: str) -> bool:
    return not text or text.isspace()
