"""The types of the ledger's door for maintaining memories.

Records on their way into the vector index and the text of a vector; messages to read, and facts
found in them; stated relations between memories; changes, and their audit.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from local.ledger.records import NewRecord, Record
from local.ledger.search import Place
from local.protocol.answers import ChangeAction
from local.protocol.memories import Durability, Kind, Owning, RelationType, SourceClass
from local.protocol.payloads import Json

MESSAGE_SIZE = 400
"""Characters of a message that its vector is made of: more of it blurs the vector."""
RECORD_SIZE = 1_000
"""Characters of all other records."""
LEAST_MESSAGE = 300
"""A shorter message is filled up to this with the end of the one before."""
CONVERSATION = frozenset({"chat_message", "tool_output"})
MOST_RELATIONS = 100
"""Relations of one record, in both directions: they are read whenever it is recalled."""
LONGEST = 2_000
"""Characters of a fact that is compared with others."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A record that waits for its place in the index; `vector`, instead of `text`, where known."""

    row: int
    id: str
    text: str
    vector: bytes | None


def indexed_text(kind: Kind, text: str, before: str | None) -> str:
    """Return the text to embed: its beginning, under speaker or key, then the message before.

    A short message often answers the one before. Its own words must come first.
    """
    if kind not in CONVERSATION:
        return text[:RECORD_SIZE]
    room = LEAST_MESSAGE - len(text)
    if before is None or room <= 0:
        return text[:MESSAGE_SIZE]
    return f"{text}\n{before[-room:]}"


def labelled(label: str | None, text: str) -> str:
    """Return a text under its speaker, or under its key."""
    return f"{label}: {text}" if label else text


class MessageGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one session to be read, with answers, and those before the first of them."""

    messages: Sequence[Record]
    context: Sequence[Record]


class Bearing(msgspec.Struct, frozen=True, kw_only=True):
    """The relation of a new fact to a known one."""

    type: RelationType
    target: str


class ExtractedFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact found in messages, and how it relates to known facts.

    `sources` are the ids of the messages, `same_as` the id of a fact with the same statement.
    `replaces` are facts that it retires, `outdated_by` the one that was stated after it.
    """

    record: NewRecord
    sources: Sequence[str]
    same_as: str | None = None
    replaces: Sequence[str] = ()
    outdated_by: str | None = None
    bearings: Sequence[Bearing] = ()


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """A relation of one record to another, by their ids, and who states or withdraws it."""

    source: str
    type: RelationType
    target: str
    agent: str | None
    user: str
    at: datetime


class RelatedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record at the other end of a relation; `incoming`: it is the source."""

    type: RelationType
    incoming: bool
    record: Record


Permit = Callable[[Record | None, Record | None], None]
"""Raises unless these may be related, source and target; None: there is no such record."""


class ActiveFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact for consolidation.

    `content` is empty where it is longer than `LONGEST`; `topic` is folded. `recalls` counts those
    that its importance does not include yet.
    """

    row: int
    id: str
    content: str
    topic: str | None
    memory_type: str | None
    durability: Durability
    importance: float
    source_class: SourceClass
    scope: Owning
    owner: str
    stated_by: str | None
    agent: str | None
    session_id: str | None
    event_time: datetime
    extracted: bool
    recalls: int
    recalled_at: datetime | None

    @property
    def place(self) -> Place:
        return Place(self.scope, self.owner, "fact")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change to a fact: it is retired, or its importance changes.

    `superseded_by` is empty where nothing replaces it.
    """

    action: ChangeAction
    fact: ActiveFact
    reason: str
    superseded_by: str = ""
    importance: float | None = None


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """The author of a change, and the run."""

    agent: str | None
    user: str | None = None
    run: str | None = None


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """A record's recalls since the last count was written, and the time of the last one."""

    row: int
    times: int
    last: datetime


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A consolidation; one that has not ended goes on, or was killed."""

    run: str
    began_at: datetime
    ended_at: datetime | None
    changed: int
    failed: int


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """A change of state as it was recorded, with today's state of the record.

    `detail` has the former state.
    """

    row: int
    action: str
    record_id: str
    event_time: datetime
    agent: str | None
    user: str | None
    reason: str | None
    run: str | None
    detail: Json
    kind: str | None
    topic: str | None
    memory_type: str | None
    scope: Owning | None
    owner: str | None


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows, newest first; `next` is where to continue, None at the end."""

    rows: list[AuditRow]
    next: int | None


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """The result of undoing one change; `problem` is why it was not undone."""

    row: AuditRow
    problem: str | None = None
