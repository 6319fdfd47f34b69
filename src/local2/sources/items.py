"""What a source is read as: conversations, facts and documents, and what was left out and why."""

import threading
from datetime import datetime

import msgspec

from local2.protocol.conversation import ConversationMessage
from local2.protocol.memories import MemoryType
from local2.protocol.payloads import Json

MAX_NAMES = 1_000
"""Maximum names that are kept for one reason, so that a report stays small; all are counted."""
NAME_CHARACTERS = 500
"""Maximum characters of such a name."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, which becomes a session.

    `continues`: a part of the same session came before this one and has to be stored first.
    """

    id: str
    messages: list[ConversationMessage]
    continues: bool = False


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
    """What was left out for one reason: how much, and what by name, as far as `MAX_NAMES` goes."""

    reason: str
    count: int = 0
    names: list[str] = []


class LeftOuts:
    """What was left out so far. A reader's thread and the importer's loop both add to it."""

    def __init__(self) -> None:
        self._by_reason: dict[str, LeftOut] = {}
        self._lock = threading.Lock()

    def add(self, name: str, reason: str, count: int = 1) -> None:
        with self._lock:
            group = self._by_reason.setdefault(reason, LeftOut(reason=reason, names=[]))
            group.count += count
            if len(group.names) < MAX_NAMES:
                group.names.append(name[:NAME_CHARACTERS])

    def groups(self) -> list[LeftOut]:
        """What was left out by its reason, the most frequent first."""
        with self._lock:
            return sorted(self._by_reason.values(), key=lambda group: -group.count)
