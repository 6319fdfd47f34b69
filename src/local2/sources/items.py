"""What a source is read as: conversations, facts and documents, and what was left out and why.

The messages of a conversation are sent in batches, which are requests of the tool `ingest`.
"""

import threading
from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from local2.protocol.conversation import ConversationMessage
from local2.protocol.memories import MemoryType
from local2.protocol.payloads import Json, split_into_parts

MAX_NAMES = 1_000
"""Maximum names that are kept for one reason, so that a report stays small; all are counted."""
NAME_CHARACTERS = 500
"""Maximum characters of such a name."""
BATCH_BYTES = 500_000
"""Maximum bytes of the messages in one request; the bus carries 1 MB, including the envelope."""
MAX_MESSAGE_BYTES = 900_000
"""Maximum bytes of one message as JSON, so that a request with only this message fits into the
bus's 1 MB."""
BATCH_MESSAGES = 1_000
"""Maximum messages in one request. They are written in one transaction, for which other saves
wait."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, which becomes a session.

    `continues`: a part of the same session came before this one and has to be stored first.
    """

    id: str
    messages: list[ConversationMessage]
    continues: bool = False


def size_of(message: ConversationMessage) -> int:
    """The bytes of a message as JSON."""
    return len(msgspec.json.encode(message))


def batches(messages: Sequence[ConversationMessage]) -> Iterator[list[ConversationMessage]]:
    """Split the messages, in order, into batches as large as the limits allow."""
    return split_into_parts(messages, size_of, max_bytes=BATCH_BYTES, max_items=BATCH_MESSAGES)


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact about a user, or of an agent if only an agent is named.

    `id` is that of the source, with the source's name before it. If neither user nor agent is
    named, the fact belongs to the user who imports it.
    """

    id: str
    content: str
    event_time: datetime
    user: str | None = None
    agent: str | None = None
    memory_type: MemoryType = "fact"
    metadata: Json = {}


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A document as text or Markdown; another one from the same `source` replaces it."""

    source: str
    title: str
    content: str


Item = Conversation | Fact | Document


class LeftOut(msgspec.Struct, kw_only=True):
    """What was left out for one reason: how much, and what by name, as far as `MAX_NAMES` goes.

    `refused`: it was to be stored, and is broken, too large, or refused by the memory. Other things
    are never imported.
    """

    reason: str
    count: int = 0
    names: list[str] = []
    refused: bool = False


class LeftOuts:
    """What was left out so far. A reader's thread and the importer's loop both add to it."""

    def __init__(self) -> None:
        self._by_reason: dict[str, LeftOut] = {}
        self._lock = threading.Lock()

    def add(self, name: str, reason: str, count: int = 1, *, refused: bool = False) -> None:
        with self._lock:
            new = LeftOut(reason=reason, names=[], refused=refused)
            group = self._by_reason.setdefault(reason, new)
            group.count += count
            if len(group.names) < MAX_NAMES:
                group.names.append(name[:NAME_CHARACTERS])

    def refuse(self, name: str, reason: str) -> None:
        """Add what was to be stored, and cannot be."""
        self.add(name, reason, refused=True)

    def groups(self) -> list[LeftOut]:
        """What was left out by its reason, the most frequent first."""
        with self._lock:
            return sorted(self._by_reason.values(), key=lambda group: -group.count)
