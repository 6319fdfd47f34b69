"""The ledger's types for sessions: messages, notes, tool outputs, and frameworks' items.

Agents may report a tool result twice, cut, or without its arguments. This module decides when two
results are the same.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

from local2.ledger.records import NewRecord, Record, Written
from local2.protocol.envelope import content_id
from local2.protocol.items import ItemKey, ItemPut, StoredItem
from local2.protocol.memories import MemoryType, OwnerScope
from local2.protocol.memory_tools import Note
from local2.protocol.payloads import Json

SESSION_CHARACTERS = 500_000
"""Characters after which loading a session stops; it reads backwards and includes the message that
exceeds the limit."""
COUNTED_CHARACTERS = 100_000
"""Maximum number of characters that one message counts for: longer messages are cut for display."""
LONG_RESULT = 3_000
"""Length in characters from which results are compared by their beginnings of this length only,
since some are reported cut."""
PREVIEW_START = "[Output of "
"""Beginning of the line that precedes a preview of a tool output."""


class SessionKey(msgspec.Struct, frozen=True):
    """An owner's session; session ids are unique per owner only."""

    owner: str
    session_id: str


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message or tool result, with the columns that a conversation needs."""

    id: str
    role: str
    content: str
    event_time: datetime
    label: str | None
    source_ref: str | None
    query_id: str | None
    turn: str | None
    metadata: Json


MergeNotes = Callable[[Sequence[Note]], Note | None]
"""Given the notes before a new one, returns a note that replaces all notes up to its position."""


class FactSelection(msgspec.Struct, frozen=True, kw_only=True):
    """A selection of important facts of these scopes, owners and types, `limit` at most.

    It includes facts without a type. A fact is selected if its importance is at least `least` or
    its durability is `core`, and no other fact supersedes it. `standing` are the remaining facts
    that have a key; `pinned` are those that their user pinned, of all types.
    """

    places: tuple[tuple[OwnerScope, str], ...]
    types: tuple[MemoryType, ...]
    least: float
    limit: int
    group: Literal["important", "standing", "pinned"] = "important"


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded session: messages in order, notes, and the requested facts.

    `earlier`: whether there are more messages before these.
    """

    messages: list[StoredMessage]
    earlier: bool
    notes: list[Note]
    facts: list[list[Record]]


def is_same_result(one: str, other: str) -> bool:
    """Whether two texts are the same tool result; either may be cut, or a preview."""
    if one == other:
        return True
    first, second = (_body(text)[:LONG_RESULT] for text in (one, other))
    return first == second and len(first) == LONG_RESULT


def is_same_call(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two results may come from one call, by metadata; arguments may be missing."""
    return "args" not in one or "args" not in other or bool(one["args"] == other["args"])


def with_args_in_id(result: NewRecord) -> NewRecord:
    """The result with its arguments in its id, for when another call's result has its id.

    Agents may number calls anew in every reply, and calls with other arguments may return the same
    text. Only results after the first get such ids, so that ids in earlier exports still match.
    """
    args = msgspec.json.encode(result.metadata["args"], order="deterministic").decode()
    return msgspec.structs.replace(result, id=content_id(result.id, args))


def _body(text: str) -> str:
    """The text of a result without the first line of a preview."""
    return text.partition("\n")[2] if text.startswith(PREVIEW_START) else text


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """Where a turn stands in the stream that delivered it, and when the stream stored it."""

    sequence: int
    at: datetime


ItemPredicate = Callable[[Any], bool]
"""Returns whether an item with this value matches; called off the event loop."""


class Rating(msgspec.Struct, frozen=True, kw_only=True):
    """A user's rating of the answer to a query; without a session id, in any session."""

    owner: str
    query_id: str
    session_id: str | None
    score: float
    comment: str | None
    event_time: datetime


class ShownRecord(NamedTuple):
    """A record that was shown, with its score in a recall."""

    id: str
    score: float | None = None


class Showing(msgspec.Struct, frozen=True, kw_only=True):
    """Which records were shown to a user, best first.

    Either by a recall, which asked `question`, or before the answer of a turn, whose episode has
    the id `answer`.
    """

    owner: str
    agent: str | None = None
    session_id: str | None = None
    query_id: str | None = None
    question: str | None = None
    answer: str | None = None
    shown_at: datetime
    records: tuple[ShownRecord, ...]
    row: int = 0


class ShowingFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What was shown to these owners in a session, for a query, or of a record."""

    owners: tuple[str, ...]
    of: Literal["session", "query", "record"]
    name: str


class StoredOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of a tool output that is `total` characters long so far."""

    total: int
    complete: bool
    text: str


class ItemCollection(msgspec.Struct, frozen=True, kw_only=True):
    """One owner's items in a collection."""

    owner: str
    collection: str


class NewItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item to store or delete, with the record that makes it searchable."""

    put: ItemPut
    record: NewRecord | None = None


class ItemWriter(msgspec.Struct, frozen=True, kw_only=True):
    """Who stores items, when, and in which session."""

    at: datetime
    agent: str | None = None
    user: str | None = None
    session_id: str | None = None


class ItemsWritten(msgspec.Struct, kw_only=True):
    """The result of writing items.

    `records` are the new records, `written` their results; `retired` are the ids of records that
    were retired without a replacement.
    """

    stored: int = 0
    deleted: int = 0
    records: list[NewRecord] = []
    written: list[Written] = []
    retired: list[str] = []


class ItemSelection(msgspec.Struct, frozen=True, kw_only=True):
    """A selection of items: all below a namespace or, with `exact`, only directly in it."""

    namespace: tuple[str, ...] = ()
    exact: bool = False
    before: str | None = None
    wanted: ItemPredicate | None = None
    limit: int = 10
    offset: int = 0


class FoundKey(ItemKey, frozen=True, kw_only=True):
    """An item's namespace and key, and the id of its record."""

    record: str | None = None


class ItemPage(msgspec.Struct, frozen=True, kw_only=True):
    """As many items as fit into an answer; `cut`: whether there are more."""

    items: list[StoredItem]
    cut: bool
