"""The ledger's types for maintaining memories.

They cover records to be indexed and the text to embed, extraction of facts from messages, stated
relations between memories, consolidation, and the audit.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from local2.ledger.columns import SPOKEN_KINDS, Floats
from local2.ledger.records import NewRecord, Record, Written, source_class_of
from local2.ledger.search import Place
from local2.protocol.memories import Durability, Kind, OwnerScope, RelationType, SourceClass
from local2.protocol.memory_tools import ChangeAction
from local2.protocol.payloads import Json

MESSAGE_CHARACTERS = 400
"""Number of leading characters of a message that are embedded: more of them blur the vector."""
RECORD_CHARACTERS = 1_000
"""Number of leading characters that are embedded of a record that is no message."""
PADDED_CHARACTERS = 300
"""Length up to which a shorter message is padded with the end of the message before it."""
MAX_RELATIONS = 100
"""Maximum number of relations of one record, in both directions: all are read whenever it is
recalled."""
COMPARED_FACT_CHARACTERS = 2_000
"""Maximum length in characters of a fact that is compared with others."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A record that waits to be indexed; if its `vector` is known, `text` is empty."""

    row: int
    id: str
    text: str
    vector: bytes | None


class Embedders(msgspec.Struct, frozen=True, kw_only=True):
    """Whose vectors searches compare, and whose are being made to replace them."""

    serving: str | None = None
    next: str | None = None


def indexed_text(kind: Kind, text: str, before: str | None) -> str:
    """The text to embed: the beginning of `text`, padded with the message before it.

    A short message often answers the one before. Its own words must come first.
    """
    if kind not in SPOKEN_KINDS:
        return text[:RECORD_CHARACTERS]
    room = PADDED_CHARACTERS - len(text)
    if before is None or room <= 0:
        return text[:MESSAGE_CHARACTERS]
    return f"{text}\n{before[-room:]}"


def labelled(label: str | None, text: str) -> str:
    """A text prefixed with its speaker or key."""
    return f"{label}: {text}" if label else text


class MessageGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one session to extract facts from; `context` are the messages before them."""

    messages: Sequence[Record]
    context: Sequence[Record]


class FactRelation(msgspec.Struct, frozen=True, kw_only=True):
    """A relation from a new fact to a known one."""

    type: RelationType
    target: str


class RelatedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A stored fact, and other active facts of its owner that share its words, best first."""

    fact: Record
    related: Sequence[Record]


class ExtractedFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact found in messages, and how it relates to known facts.

    `sources` are the ids of the messages. `same_as` is the id of a known fact that states the same.
    `replaces` are the ids of facts that the new one retires; `outdated_by` is the id of a fact that
    was stated later and retires the new one.
    """

    record: NewRecord
    sources: Sequence[str]
    same_as: str | None = None
    replaces: Sequence[str] = ()
    outdated_by: str | None = None
    relations: Sequence[FactRelation] = ()


class EndedFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that its user ended or denied in a message; nothing replaces it."""

    fact: NewRecord
    message: Record

    @property
    def retires(self) -> bool:
        """Whether it is retired: what an agent stored on purpose is only marked."""
        return source_class_of(self.fact) == "stated"


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """What was stored of an extraction: a result for each fact found, and the facts retired."""

    written: list[Written]
    ended: list[NewRecord]


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """A relation between two records, given by their ids, and who states or withdraws it."""

    source: str
    type: RelationType
    target: str
    agent: str | None
    user: str
    at: datetime


class RelatedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record at the other end of a relation; `incoming` means that it is the source."""

    type: RelationType
    incoming: bool
    record: Record


Permit = Callable[[Record | None, Record | None], None]
"""Raises unless source and target may be related; None stands for a record that does not exist."""


class ActiveFact(msgspec.Struct, frozen=True, kw_only=True):
    """An active fact, with what consolidation needs.

    `content` is empty if it is longer than `COMPARED_FACT_CHARACTERS`. `topic` is folded. `recalls`
    counts the recalls that `importance` does not reflect yet.
    """

    row: int
    id: str
    content: str
    topic: str | None
    memory_type: str | None
    durability: Durability
    importance: float
    source_class: SourceClass
    scope: OwnerScope
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


VectorsByEmbedder = dict[str, Floats]
"""The vectors of one record; it has several while another embedder replaces the current one."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change to a fact: the fact is retired, or its importance changes.

    `superseded_by` is empty if nothing replaces the fact.
    """

    action: ChangeAction
    fact: ActiveFact
    reason: str
    superseded_by: str = ""
    importance: float | None = None


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """The author of a change, and the run it belongs to."""

    agent: str | None
    user: str | None = None
    run: str | None = None


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How often a record was recalled since the last count was stored, and when last."""

    row: int
    times: int
    last: datetime


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A consolidation run; without `ended_at` it is in progress, or was killed."""

    run: str
    began_at: datetime
    ended_at: datetime | None
    changed: int
    failed: int


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded change of state, with the current columns of the record.

    `detail` holds the former state.
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
    scope: OwnerScope | None
    owner: str | None


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of audit rows, newest first; `next` is where to continue, None at the end."""

    rows: list[AuditRow]
    next: int | None


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """The result of undoing one change; `problem`: why it was not undone."""

    row: AuditRow
    problem: str | None = None
