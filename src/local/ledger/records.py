"""The records of the ledger: their kinds, Structs and ids, and the tasks that they bring.

A task is work that remains for a record after its write was acknowledged.
"""

from datetime import datetime, timedelta
from typing import Final, Literal, TypeVar, get_args

import msgspec

from local.errors import InvalidArgumentsError
from local.protocol.memories import (
    Durability,
    Kind,
    MemoryType,
    Owning,
    RelationType,
    RetiredWhy,
    SourceClass,
    Triplet,
)
from local.protocol.payloads import Json
from local.text.features import Features, features
from local.text.names import is_user_topic

TaskKind = Literal["index", "unindex", "embed", "extract", "judge"]
"""`index`: put a record's vector into the index; `unindex`: remove it. `embed`: put its vector of
another embedder into the index that is filled to replace the present one. `extract`: read a message
for facts. `judge`: compare a fact with older ones that it may contradict."""
OF_ACTIVE: Final = tuple(kind for kind in get_args(TaskKind) if kind != "unindex")
"""Tasks that are dropped when a record is superseded."""

LAST_RETRY = timedelta(seconds=100)
"""The longest that a failed task waits for another attempt."""
DERIVED_FROM = "derived_from"
"""The relation of an answer to the records that it rests on, and of an extracted fact to its
messages."""
SHARES_ENTITY = "shares_entity"
"""The relation of facts with a common name."""
RELATION_TYPES: tuple[RelationType, ...] = get_args(RelationType)
"""The relations that are stated; all others are the ledger's own."""
EXTRACTED_FROM = "extracted_from"
"""In the metadata of an extracted fact: the ids of its messages."""
OWN_ONLY = "own_only"
"""In the metadata of a message: facts in it become the user's own, and nobody else's."""
STRENGTH: dict[SourceClass, int] = {
    "stated": 3,
    "asserted": 3,
    "answered": 2,
    "observed": 1,
    "document": 1,
}
"""A record may be retired only by one that is at least as strong, of the same user."""
LONG = 20_000
"""Characters whose features take 5 ms."""
TENANT_OWNED = ""
"""Owner of what belongs to the whole tenant, and of what a caller without a user writes."""

R = TypeVar("R", bound="NewRecord")


class NewRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record to be written. Its columns are those of the ledger, without the tenant.

    `label` is its speaker, tool or document; `source_ref` is the caller's own id of it. `turn` is
    the id of the question of its turn. `stands_at` is the row whose place in its session a later
    version of a message takes. `alias` is another id that it is known by. `pending`: it was
    received by itself; True until a turn or conversation reports it. `stated_by` is the user who
    stated it: by default the owner, None where that is not known. `queries` are questions that it
    would answer; `confidence`, an extractor's, is from 0 to 1.
    """

    id: str
    kind: Kind
    content: str
    event_time: datetime
    scope: Owning = "session"
    owner: str = TENANT_OWNED
    topic: str | None = None
    label: str | None = None
    role: str | None = None
    source_ref: str | None = None
    memory_type: str | None = None
    durability: str = "standard"
    importance: float = 0.5
    metadata: Json = msgspec.field(default_factory=dict)
    agent: str | None = None
    session_id: str | None = None
    query_id: str | None = None
    turn: str | None = None
    stands_at: float | None = None
    alias: str | None = None
    pending: bool | None = None
    source_class: SourceClass | None = None
    """By default that of its kind and role; see `class_of`."""
    stated_by: str | None = None
    summary: str | None = None
    keywords: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    confidence: float | None = None
    features: Features | None = None
    """No column of its own: what ranking reads of it, if that was read ahead."""
    tasks: tuple[TaskKind, ...] = ()
    """No column either: the tasks that it brings once it is acknowledged."""


class Record(NewRecord, frozen=True, kw_only=True):
    """A record as it is stored; `score` is the feedback on it, from -1 to 1.

    If it is retired and nothing replaces it, `superseded_by` is empty.
    """

    row: int = 0
    """Its place in the ledger: later records have higher ones."""
    superseded_by: str | None = None
    score: float | None = None
    retired_at: datetime | None = None
    retired_why: RetiredWhy | None = None


def class_of(record: NewRecord) -> SourceClass:
    """Return where a record comes from: an author with a role of its own is no user."""
    if record.source_class is not None:
        return record.source_class
    if record.kind == "document_chunk":
        return "document"
    if record.kind == "tool_output" or record.role == "tool":
        return "observed"
    if record.role is not None:
        return "stated" if record.role == "user" else "answered"
    return "answered" if record.kind == "episode" and record.turn else "asserted"


def principal_of(record: NewRecord) -> str | None:
    """Return the user who stated it, empty if nobody was named, None where that is not known."""
    own = record.scope in {"session", "user"}
    return record.owner if own and record.stated_by is None else record.stated_by


def sources_of(record: NewRecord) -> list[str]:
    """Return the ids of the messages that it was extracted from."""
    return list(record.metadata.get(EXTRACTED_FROM, ()))


def read_ahead(record: R) -> R:
    """Return the record with its features, if its text is long: a write delays all behind it."""
    if len(record.content) < LONG:
        return record
    return msgspec.structs.replace(record, features=features_of(record))


def features_of(record: NewRecord) -> Features:
    """Return what ranking reads of it; its keywords are found as its label is."""
    label = " ".join(filter(None, (record.label, *record.keywords))) or None
    return features(record.content, topic=record.topic, label=label, at=record.event_time)


def with_metadata(record: NewRecord, more: Json) -> NewRecord:
    return msgspec.structs.replace(record, metadata={**record.metadata, **more}) if more else record


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact to remember. `importance` runs from 0 to 1."""

    content: str
    scope: Owning
    topic: str | None = None
    memory_type: MemoryType = "fact"
    durability: Durability = "standard"
    importance: float = 0.5


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a write; `replaced` are the ids of the records that it replaced.

    `superseded_by`: a newer version existed already. `topic` is the fact's key as it was first
    written. `erased`: it was erased on request, and is not stored again.
    """

    id: str
    was_new: bool
    replaced: tuple[str, ...] = ()
    superseded_by: str | None = None
    topic: str | None = None
    erased: bool = False

    @property
    def superseded(self) -> str | None:
        """The version that it replaced."""
        return self.replaced[0] if self.replaced else None


class TripletFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact to be stored, with the triplet that states it.

    `alias`: its subject and its object are two names of one thing.
    """

    triplet: Triplet
    record: NewRecord
    alias: bool = False


class Rewritten(msgspec.Struct, frozen=True, kw_only=True):
    """The results for each chunk of a document; `surplus` are ids of older ones after them."""

    written: list[Written]
    surplus: list[str]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A record that a memory tool returned during a turn, or one that such a record rests on."""

    id: str
    content: str


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    records: int
    indexed: int
    waiting: int


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do with one record. `attempts` counts how often it has failed by itself."""

    kind: TaskKind
    row: int
    """The record's id."""
    id: str
    """The record's name, for people."""
    attempts: int = 0


class TaskCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of one kind: those that wait, also for another attempt, and those set aside.

    `errors` are the first different reasons why tasks were set aside.
    """

    kind: TaskKind
    waiting: int
    aside: int
    errors: tuple[str, ...] = ()


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """The quota of one tenant: records that are not erased, and bytes; 0 means no limit.

    The bytes are those of texts, notes, outputs and items.
    """

    records: int = 0
    bytes: int = 0


UNLIMITED = Quota()


def place_of_topic(topic: str, user: str | None) -> tuple[Owning, str]:
    """Return the scope and owner of a key: `user.*` belongs to the user, the rest to the tenant."""
    if is_user_topic(topic):
        return "user", user or TENANT_OWNED
    return "tenant", TENANT_OWNED


def stamp(moment: datetime) -> str:
    """Return the time as the ledger stores it: stamps sort as their times do."""
    return moment.isoformat(timespec="milliseconds")


def checked_text(text: str, field: str) -> str:
    """Return the text if it is not blank.

    Raises:
        InvalidArgumentsError: It is blank; the message names the field.
    """
    if not text or text.isspace():
        raise InvalidArgumentsError(f"{field}: the text is blank.", remedy="Write something in it.")
    return text
