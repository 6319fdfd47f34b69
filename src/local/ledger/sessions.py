"""What the ledger stores of sessions: messages, notes, tools' results, and frameworks' items.

Agents report a result again, cut, or without its arguments: this module decides when two are the
same.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from local.ledger.records import NewRecord, Record, Written
from local.protocol.answers import Note
from local.protocol.envelope import content_id
from local.protocol.items import ItemKey, ItemPut, StoredItem
from local.protocol.memories import MemoryType, Owning
from local.protocol.payloads import Json

CHARACTERS = 500_000
"""Bytes at which reading a session backwards stops, after the message that reaches it."""
LONGEST = 100_000
"""Longer messages count as this much, since they are cut where they are shown."""
COMPARED = 3_000
"""Long results that begin with so many equal characters are the same: some are reported cut."""
PREVIEW = "[Output of "


class SessionOf(msgspec.Struct, frozen=True):
    """A session of an owner; another owner may have a session of the same id."""

    owner: str
    session_id: str


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message or a tool's result, with what a conversation needs of it."""

    id: str
    role: str
    content: str
    event_time: datetime
    label: str | None
    source_ref: str | None
    query_id: str | None
    turn: str | None
    metadata: Json


Merge = Callable[[Sequence[Note]], Note | None]
"""Returns, from the notes before a new one, the note that replaces all up to its position."""


class Important(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of these scopes, owners and types, or of no type, `limit` at most.

    They are at least so important, or made to last, and no active fact supersedes them. `standing`:
    select those of the others that have a key instead.
    """

    whose: tuple[tuple[Owning, str], ...]
    types: tuple[MemoryType, ...]
    least: float
    limit: int
    standing: bool = False


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """Messages in their order; `earlier`: there are more before them. `facts`: as requested."""

    messages: list[StoredMessage]
    earlier: bool
    notes: list[Note]
    facts: list[list[Record]]


def is_same_result(one: str, other: str) -> bool:
    """Return whether two texts are the same result of a tool; either may be cut, or a preview."""
    if one == other:
        return True
    first, second = (_body(text)[:COMPARED] for text in (one, other))
    return first == second and len(first) == COMPARED


def is_same_call(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two results can be of one call by their metadata; args may be missing."""
    return "args" not in one or "args" not in other or bool(one["args"] == other["args"])


def with_args_in_id(result: NewRecord) -> NewRecord:
    """Return the result under the id that it gets if another call's result has its id.

    Calls may be numbered anew in every reply, and return the same for other arguments. Only those
    after the first get such ids, so that those of older ledgers still match.
    """
    args = msgspec.json.encode(result.metadata["args"], order="deterministic").decode()
    return msgspec.structs.replace(result, id=content_id(result.id, args))


def _body(text: str) -> str:
    """Return the result's own text, without the line that a preview begins with."""
    return text.partition("\n")[2] if text.startswith(PREVIEW) else text


Wanted = Callable[[Any], bool]
"""Returns whether an item of this value matches; called off the event loop."""


class Rating(msgspec.Struct, frozen=True, kw_only=True):
    """A user's rating of the answer to a query; without a session, of the query in any session."""

    owner: str
    query_id: str
    session_id: str | None
    score: float
    comment: str | None
    event_time: datetime


class StoredOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's output, `total` characters long so far, and the requested part of it."""

    total: int
    complete: bool
    text: str


class ItemsOf(msgspec.Struct, frozen=True, kw_only=True):
    """One owner's items in a collection."""

    owner: str
    collection: str


class NewItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item to be stored or deleted, with the record that searches find it by."""

    put: ItemPut
    record: NewRecord | None = None


class Storing(msgspec.Struct, frozen=True, kw_only=True):
    """The owner who stores items, the time, and the session."""

    at: datetime
    agent: str | None = None
    user: str | None = None
    session_id: str | None = None


class ItemsWritten(msgspec.Struct, kw_only=True):
    """The result of a write; `records` are new, and the ids are of those retired for good."""

    stored: int = 0
    deleted: int = 0
    records: list[NewRecord] = []
    written: list[Written] = []
    retired: list[str] = []


class Within(msgspec.Struct, frozen=True, kw_only=True):
    """A selection of items: all within a namespace, or `exact`: only its own."""

    namespace: tuple[str, ...] = ()
    exact: bool = False
    before: str | None = None
    wanted: Wanted | None = None
    limit: int = 10
    offset: int = 0


class FoundKey(ItemKey, frozen=True, kw_only=True):
    """The place of an item, and the id of its record."""

    record: str | None = None


class ItemPage(msgspec.Struct, frozen=True, kw_only=True):
    """Items, as many as an answer holds; `cut`: there are more."""

    items: list[StoredItem]
    cut: bool
