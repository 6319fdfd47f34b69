"""The ledger's records: their Structs, their derived properties, and the tasks they create.

A task is work that remains to be done for a record after its write was acknowledged.
"""

from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeVar, get_args

import msgspec

from local2.errors import InvalidArgumentsError
from local2.keys import is_user_topic
from local2.language.features import Features, features
from local2.language.sentences import excerpt
from local2.protocol.memories import (
    PERSONAL,
    Durability,
    Kind,
    MemoryType,
    OwnerScope,
    RelationType,
    RetirementReason,
    SourceClass,
)
from local2.protocol.payloads import Json

TaskKind = Literal["index", "unindex", "embed", "extract", "judge"]
"""What a task does with its record.

`index` adds the record's vector to the index, `unindex` removes it. `embed` adds its vector from
another embedder to the index that is being filled to replace the current one. `extract` reads a
message for facts. `judge` compares a fact with older facts that it may contradict.
"""
DENIED, ERASED = "denied", "erased"
"""Actions in the audit that concern no record: a denied request, whose row has its name in place of
an id, and an erasure, whose row has an id of its own."""
ACTIVE_RECORD_TASKS: Final = tuple(kind for kind in get_args(TaskKind) if kind != "unindex")
"""Kinds of tasks that are dropped when their record is superseded."""

LEDGER = "ledger"
"""What a cancelled read or write had waited for (`waited_for`)."""
LONGEST_RETRY_DELAY = timedelta(seconds=100)
"""Longest wait between two attempts at a failing task."""
DERIVED_FROM = "derived_from"
"""Relation from an answer to the records it is based on, and from an extracted fact to its source
messages."""
SHARES_ENTITY = "shares_entity"
"""Relation between facts that name the same entity."""
STATES, NAMES, ALSO_NAMES = "states", "names", "also_names"
"""Relations from a fact to its statement, to the entities that it names, and, if it states an
alias, to the two names. Their targets are no records."""
RELATION_TYPES: tuple[RelationType, ...] = get_args(RelationType)
"""Relations that callers may state; the ledger itself creates all others."""
EXTRACTED_FROM = "extracted_from"
"""Metadata key of an extracted fact: the ids of its source messages."""
OWN_ONLY = "own_only"
"""Metadata key of a message: facts extracted from it belong to the user alone."""
SOURCE_STRENGTH: dict[SourceClass, int] = {
    "stated": 3,
    "asserted": 3,
    "answered": 2,
    "observed": 1,
    "document": 1,
}
"""Strength of each source class; a record may only be retired by a record of the same user that is
at least as strong."""
LONG_TEXT = 20_000
"""Length in characters from which a text counts as long; extracting its features takes 5 ms."""
RESULT_KINDS: tuple[Kind, ...] = ("tool_output", "output_part")
"""Kinds of what tools returned."""
ARGUMENT_CHARACTERS, CALL_CHARACTERS = 80, 200
"""Maximum characters of an argument, and of a call with all its arguments, where it is shown."""
SEARCHED_ARGUMENTS = 2_000
"""Number of characters of a call's arguments by which its result is found."""
TENANT_OWNED = ""
"""Owner of records that belong to the whole tenant, or that a caller without a user writes."""

R = TypeVar("R", bound="NewRecord")


class NewRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):  # see ToolCallRecord
    """A record to be written, with the columns of the ledger except the tenant.

    `label` names the speaker, tool or document. `source_ref` is the id that the caller uses for the
    record. `turn` is the id of the question that began the turn. `stands_at` is set for a later
    version of a message: the row whose position in the session it takes. `alias` is another id of
    the same record. `pending` is True for a message received before its turn or conversation
    reports it, and False afterwards. `stated_by` is the user who stated it: the owner by default,
    None if unknown. `queries` are questions that the record answers. `confidence` is the
    extractor's, from 0 to 1.
    """

    id: str
    kind: Kind
    content: str
    event_time: datetime
    scope: OwnerScope = "session"
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
    """If None, it follows from kind and role; see `source_class_of`."""
    stated_by: str | None = None
    summary: str | None = None
    keywords: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    confidence: float | None = None
    features: Features | None = None
    """Features for ranking, if they were extracted in advance; not a column."""
    tasks: tuple[TaskKind, ...] = ()
    """Tasks to add when the record is written; not a column."""
    output: str | None = None
    """The long tool output of which the content is a preview, to be stored if the record is new,
    under the `tool_output_key` of the metadata; not a column."""
    parts: tuple["NewRecord", ...] = ()
    """What the preview leaves out of the output, to be stored if the record is new; their ids
    follow from its id. Not a column."""


class Record(NewRecord, frozen=True, kw_only=True):
    """A stored record; `score` is its feedback, from -1 to 1.

    `superseded_by` is empty if the record was retired and nothing replaces it.
    """

    row: int = 0
    """Row number in the ledger; later records have higher numbers."""
    superseded_by: str | None = None
    score: float | None = None
    retired_at: datetime | None = None
    retired_why: RetirementReason | None = None
    stored_at: datetime | None = None  # if its event_time was in the future then
    pinned: bool | None = None  # among the first of what is shown unasked

    @property
    def newness(self) -> datetime:
        """Its event_time, or when it was stored if that was earlier: some clocks are wrong."""
        return min(self.event_time, self.stored_at or self.event_time)


def source_class_of(record: NewRecord) -> SourceClass:
    """The source class of a record: only the role `user` is a user's statement."""
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
    """The user who stated a record; empty if nobody was named, None if unknown."""
    own = record.scope in PERSONAL
    return record.owner if own and record.stated_by is None else record.stated_by


def sources_of(record: NewRecord) -> list[str]:
    """The ids of the messages that a fact was extracted from."""
    return list(record.metadata.get(EXTRACTED_FROM, ()))


def call_of(record: NewRecord) -> str | None:
    """The call that had this result, shortened: `read_file(path="notes.md")`; None if unknown."""
    args = record.metadata.get("args")
    if record.kind not in RESULT_KINDS or not isinstance(args, dict) or not args:
        return None
    values = {name: msgspec.json.encode(value).decode() for name, value in args.items()}
    given = ", ".join(
        f"{name}={excerpt(value, ARGUMENT_CHARACTERS)}" for name, value in values.items()
    )
    return excerpt(f"{record.label or 'tool'}({given})", CALL_CHARACTERS)


def arguments_of(record: NewRecord) -> str | None:
    """The values of its call's arguments, by which a result is found; None if unknown.

    The parts of a long output are found by their own words.
    """
    args = record.metadata.get("args")
    if record.kind != "tool_output" or not isinstance(args, dict) or not args:
        return None
    values = (v if isinstance(v, str) else msgspec.json.encode(v).decode() for v in args.values())
    return " ".join(values)[:SEARCHED_ARGUMENTS]


def further_names_of(record: NewRecord) -> str | None:
    """What a record is found by besides its text and label: its call's arguments, or its source."""
    if record.kind == "document_chunk":
        source = record.metadata.get("source")
        return (
            source if isinstance(source, str) and source != record.metadata.get("title") else None
        )
    return arguments_of(record)


def with_features(record: R) -> R:
    """A long record with its features: extracting them in a write would delay all others."""
    if len(record.content) < LONG_TEXT:
        return record
    return msgspec.structs.replace(record, features=features_of(record))


def features_of(record: NewRecord) -> Features:
    """Extract the features for ranking; keywords and further names are matched like the label."""
    label = (
        " ".join(filter(None, (record.label, *record.keywords, further_names_of(record)))) or None
    )
    return features(record.content, topic=record.topic, label=label, at=record.event_time)


def with_metadata(record: NewRecord, more: Json) -> NewRecord:
    return msgspec.structs.replace(record, metadata={**record.metadata, **more}) if more else record


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact to remember; `importance` is from 0 to 1."""

    content: str
    scope: OwnerScope
    topic: str | None = None
    memory_type: MemoryType = "fact"
    durability: Durability = "standard"
    importance: float = 0.5


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The result of writing one record.

    `replaced` are the ids of the records that it replaced. `superseded_by` is set if a newer
    version already existed. `topic` is the fact's key as first spelled. `erased` means that the
    record was erased on request earlier, and was not stored again.
    """

    id: str
    was_new: bool
    replaced: tuple[str, ...] = ()
    superseded_by: str | None = None
    topic: str | None = None
    erased: bool = False

    @property
    def superseded(self) -> str | None:
        """The version that the record replaced."""
        return self.replaced[0] if self.replaced else None


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """The author of a change, and the run it belongs to."""

    agent: str | None
    user: str | None = None
    run: str | None = None


class Said(NamedTuple):
    """What people said, and the version of the ledger in which they had."""

    version: object
    texts: list[str]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A record that a memory tool returned during a turn, or one that it was derived from."""

    id: str
    content: str


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    records: int
    indexed: int
    waiting: int


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One task for one record; `attempts` counts how often it has failed on its own."""

    kind: TaskKind
    row: int
    """Row of the record, which identifies it."""
    id: str
    """Id of the record, for logs and messages."""
    attempts: int = 0


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant's quota; 0 means no limit.

    `records` excludes erased records; `bytes` covers texts, notes, tool outputs and items.
    """

    records: int = 0
    bytes: int = 0


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """How much one tenant stores, as its quota counts it."""

    records: int
    bytes: int


UNLIMITED = Quota()


def place_of_topic(topic: str, user: str | None) -> tuple[OwnerScope, str]:
    """Scope and owner of a key: `user.*` belongs to the user, all others to the tenant."""
    if is_user_topic(topic):
        return "user", user or TENANT_OWNED
    return "tenant", TENANT_OWNED


def stamp(moment: datetime) -> str:
    """The time as the ledger stores it: text that sorts chronologically."""
    return moment.isoformat(timespec="milliseconds")


def checked_text(text: str, field: str) -> str:
    """The text if it is not blank.

    Raises:
        InvalidArgumentsError: It is blank; the message names the field.
    """
    if not text or text.isspace():
        raise InvalidArgumentsError(f"{field}: the text is blank.", remedy="Write something in it.")
    return text
