"""What the ledger holds of a session: its messages, its notes, and the facts to begin it with."""

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from local.ledger.records import Record
from local.protocol.answers import Note
from local.protocol.memories import MemoryType, Owning
from local.protocol.payloads import Json

CHARACTERS = 500_000
"""Where reading a session backwards stops, after the message that reaches it."""
LONGEST = 100_000
"""Longer messages count as this much, since whoever shows them cuts them."""


class SessionOf(msgspec.Struct, frozen=True):
    """A session of an owner; another owner's of the same id is another one."""

    owner: str
    session_id: str


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message or a tool's result, as far as a conversation is made of it again."""

    id: str
    role: str
    content: str
    event_time: datetime
    label: str | None
    source_ref: str | None
    query_id: str | None
    turn: str | None
    metadata: Json


class StoredNote(msgspec.Struct, frozen=True, kw_only=True):
    """The notes of a session after one was made; `merged` of them were just made one."""

    notes: list[Note]
    was_new: bool
    merged: int = 0


Merge = Callable[[Sequence[Note]], Note | None]
"""From the notes before a new one: the note that stands for all up to its position from now on."""


class Important(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of these scopes, owners and types, or of no type, `limit` at most.

    They are at least so important, or made to last, and no active fact supersedes them.
    """

    whose: tuple[tuple[Owning, str], ...]
    types: tuple[MemoryType, ...]
    least: float
    limit: int


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """Messages in their order; `earlier`: there are more before them. `facts`: as was asked."""

    messages: list[StoredMessage]
    earlier: bool
    notes: list[Note]
    facts: list[list[Record]]
