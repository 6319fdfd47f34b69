"""What the ledger holds of sessions: messages, notes, tools' results, and frameworks' items.

Agents report one result again, cut, or without its arguments: when two are one is decided here.
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
"""Where reading a session backwards stops, after the message that reaches it."""
LONGEST = 100_000
"""Longer messages count as this much, since whoever shows them cuts them."""
COMPARED = 3_000
"""Long results that begin with as many same characters are one: some are reported cut."""
PREVIEW = "[Output of "


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


Merge = Callable[[Sequence[Note]], Note | None]
"""From the notes before a new one: the note that stands for all up to its position from now on."""


class Important(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of these scopes, owners and types, or of no type, `limit` at most.

    They are at least so important, or made to last, and no active fact supersedes them. `standing`:
    instead those of the others that have a key.
    """

    whose: tuple[tuple[Owning, str], ...]
    types: tuple[MemoryType, ...]
    least: float
    limit: int
    standing: bool = False


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """Messages in their order; `earlier`: there are more before them. `facts`: as was asked."""

    messages: list[StoredMessage]
    earlier: bool
    notes: list[Note]
    facts: list[list[Record]]


def is_same_result(one: str, other: str) -> bool:
    """Whether two texts are one result of a tool; either may be cut, or a preview."""
    if one == other:
        return True
    first, second = (_body(text)[:COMPARED] for text in (one, other))
    return first == second and len(first) == COMPARED


def is_same_call(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two results can be of one call by their metadata; what is heard may lack its args."""
    return "args" not in one or "args" not in other or bool(one["args"] == other["args"])


def with_args_in_id(result: NewRecord) -> NewRecord:
    """The result under the id that it has where another call's result has the one it came with.

    Calls may be numbered anew in every reply, and answer the same to other arguments. Only those
    behind the first of them have such ids, so that those of older ledgers go on matching.
    """
    args = msgspec.json.encode(result.metadata["args"], order="deterministic").decode()
    return msgspec.structs.replace(result, id=content_id(result.id, args))


def _body(text: str) -> str:
    """The result's own text, without the line that a preview begins with."""
    return text.partition("\n")[2] if text.startswith(PREVIEW) else text


Wanted = Callable[[Any], bool]
"""Whether an item of this value is wanted; called off the event loop."""


class Rating(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody thinks of the answer to a query of theirs; without a session, of any."""

    owner: str
    query_id: str
    session_id: str | None
    score: float
    comment: str | None
    event_time: datetime


class StoredOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's output, `total` characters long as far as it came, and what was asked of it."""

    total: int
    complete: bool
    text: str


class ItemsOf(msgspec.Struct, frozen=True, kw_only=True):
    """One owner's items in a collection."""

    owner: str
    collection: str


class NewItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item to be stored or deleted, with the record by which it is found."""

    put: ItemPut
    record: NewRecord | None = None


class Storing(msgspec.Struct, frozen=True, kw_only=True):
    """Who stores items, when, and in which session."""

    at: datetime
    agent: str | None = None
    user: str | None = None
    session_id: str | None = None


class ItemsWritten(msgspec.Struct, kw_only=True):
    """What a write came to: with `records` that are new, and the ids of those retired for good."""

    stored: int = 0
    deleted: int = 0
    records: list[NewRecord] = []
    written: list[Written] = []
    retired: list[str] = []


class Within(msgspec.Struct, frozen=True, kw_only=True):
    """Which items are wanted: of a namespace and within it, or `exact` of it alone."""

    namespace: tuple[str, ...] = ()
    exact: bool = False
    before: str | None = None
    wanted: Wanted | None = None
    limit: int = 10
    offset: int = 0


class FoundKey(ItemKey, frozen=True, kw_only=True):
    """Where an item is, and the id of its record."""

    record: str | None = None


class ItemPage(msgspec.Struct, frozen=True, kw_only=True):
    """Items, as many as an answer holds; `cut`: it holds no more of them."""

    items: list[StoredItem]
    cut: bool
