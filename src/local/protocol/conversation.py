"""A conversation as the memory stores it: its messages, numbered, and the report of an ingestion.

Messages may come without ids, and a conversation may come again, whole or in parts. So sessions and
messages get ids made of their content, and repeated messages are counted.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from local.protocol.envelope import Name, content_id
from local.protocol.payloads import Json, ToolCallRecord

FIRST_MESSAGES = 3
"""So many messages identify a conversation: one may be a common greeting, and more would give a
conversation that is still short another id when it grows."""


class ConversationMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation, in the roles of chat models."""

    role: str
    content: str | None = None
    id: Name | None = None
    name: Name | None = None
    timestamp: datetime | None = None
    tool_calls: list[ToolCallRecord] = []
    tool_call_id: Name | None = None
    occurrence: int | None = None
    """Of a message without an id: how often the conversation has had the same so far, from 1."""
    parts: list[Any] = []
    """The parts of a content that is more than text."""
    fields: Json = {}
    """All other fields that it was sent with."""

    @property
    def is_blank(self) -> bool:
        return is_blank(self.content or "")

    @property
    def says_something(self) -> bool:
        """Whether it holds more than tool calls."""
        return not self.is_blank or bool(self.parts or self.fields)


class SkippedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of which something was not stored, and why; `index` counts from 0."""

    index: int
    reason: str


class IngestReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an ingestion stored: `ids` are those of the records, in the order of the conversation.

    `added` of them are new, `changed` are newer versions, and `known` were there already. `erased`
    were erased on request before, and are not stored again.
    """

    session_id: str
    ids: list[str]
    added: int
    changed: int = 0
    known: int = 0
    skipped: list[SkippedMessage] = []
    erased: int = 0

    def summary(self) -> str:
        """In a line for people: the counts, and the reasons of what was left out."""
        parts = [f"{self.added} remembered"]
        if self.changed:
            parts.append(f"{self.changed} changed")
        parts.append(f"{self.known} known already")
        if self.erased:
            parts.append(f"{self.erased} erased before, and not stored again")
        reasons = Counter(one.reason for one in self.skipped)
        parts += [f"{count} left out ({reason})" for reason, count in reasons.items()]
        return ", ".join(parts)


def session_of(messages: Sequence[ConversationMessage]) -> str:
    """The session's id if the caller gives none; the same conversation has the same id."""
    first = [
        (message.name or message.role, message.content, message.timestamp)
        for message in messages[:FIRST_MESSAGES]
    ]
    return content_id("session", first)


def numbered(messages: Sequence[ConversationMessage]) -> Iterator[ConversationMessage]:
    """The messages with what is needed to make the same records of a conversation in parts.

    Each gets its `occurrence`; the message of a tool without a name gets the name of its tool.
    """
    return (message for message, _ in with_calls(messages))


def with_calls(
    messages: Sequence[ConversationMessage],
) -> Iterator[tuple[ConversationMessage, ToolCallRecord | None]]:
    """As `numbered`; a message of a tool comes with the latest call before it that it answers."""
    calls: dict[str, ToolCallRecord] = {}
    counts: Counter[tuple[str | None, ...]] = Counter()
    for message in messages:
        what = (message.role, message.name, message.content)
        counts[what] += 1
        answered = calls.get(message.tool_call_id or "") if message.role == "tool" else None
        name = message.name or (answered.name if answered else None)
        times = message.occurrence or counts[what]
        yield msgspec.structs.replace(message, occurrence=times, name=name), answered
        calls |= {call.id: call for call in message.tool_calls if call.id}


def is_blank(text: str) -> bool:
    return not text or text.isspace()
