"""A conversation as the memory takes it: its messages, numbered, and what became of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from local.protocol.envelope import Name
from local.protocol.ids import content_id
from local.protocol.payloads import Json, ToolCallRecord

FIRST_MESSAGES = 3
"""As many tell one conversation from another."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation, in the roles of chat models."""

    role: str
    content: str | None = None
    id: Name | None = None
    name: Name | None = None
    timestamp: datetime | None = None
    tool_calls: list[ToolCallRecord] = []
    tool_call_id: Name | None = None
    occurrence: int | None = None
    """Of a message without an id: how often the conversation has said the same up to it."""
    parts: list[Any] = []
    """Of a content that is more than text."""
    fields: Json = {}
    """What else it came with."""

    @property
    def is_blank(self) -> bool:
        return is_blank(self.content or "")

    @property
    def says_something(self) -> bool:
        """Whether it holds more than calls."""
        return not self.is_blank or bool(self.parts or self.fields)


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """What of a message was not kept, and why; `index` is the message's, from 0."""

    index: int
    reason: str


class Ingested(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a conversation: `ids` are its records', in their order.

    `added` of them are new, `changed` are newer versions, and `known` were there already.
    """

    session_id: str
    ids: list[str]
    added: int
    changed: int = 0
    known: int = 0
    skipped: list[Skipped] = []

    def summary(self) -> str:
        """How much is new, newer, known, and left out for which reasons."""
        parts = [f"{self.added} remembered"]
        if self.changed:
            parts.append(f"{self.changed} changed")
        parts.append(f"{self.known} known already")
        reasons = Counter(one.reason for one in self.skipped)
        parts += [f"{count} left out ({reason})" for reason, count in reasons.items()]
        return ", ".join(parts)


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
    return (message for message, _ in with_calls(messages))


def with_calls(
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


def is_blank(text: str) -> bool:
    return not text or text.isspace()
