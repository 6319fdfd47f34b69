"""The lines of an export file, which `memory.export` and `memory.import` transfer.

Each line is one JSON object, recognised by its `type`; docs/export.md describes them. Rows are
named by ids: a record gets another row wherever it is imported. Unknown fields are refused:
dropping what a newer local2 stored would be a silent loss.
"""

from datetime import datetime
from typing import Annotated, ClassVar, Final, TypeVar

import msgspec

from local.errors import BadRequestError, echoed, quoted
from local.protocol.items import NOTHING, Collection, Key, Namespace
from local.protocol.memories import Durability, Kind, Owning, RetiredWhy, SourceClass
from local.protocol.payloads import Json

FORMAT = 3
"""Of the file; raised with every field, type or kind that an older local2 would refuse."""
LINE_BYTES = 500_000
"""Of the lines in one message, and of the pieces of a longer line; the bus carries 1 MB."""
LINES = 500
"""In one message: they are stored in one transaction, behind which others' saves wait."""

Text = Annotated[str, msgspec.Meta(min_length=1)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
YEAR = len("2026")
RatedAt = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}")]
"""A time in the ledger's form; those of the first release may be a year alone."""
Stamp = Annotated[RatedAt, msgspec.Meta(min_length=YEAR + 1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Score = Annotated[float, msgspec.Meta(ge=-1, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class Line(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag=lambda name: name.removesuffix("Line").lower(),
):
    """Base of all lines."""


class HeaderLine(Line, frozen=True):
    """The first line. `records` is how many there were when the export began."""

    format: int
    local2: str
    exported_at: Moment
    records: Count
    scope: Owning | None = None
    user: str | None = None
    session: str | None = None
    agent: str | None = None


class StoredVector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record's vector: float32 in base64."""

    embedder: Text
    data: Annotated[bytes, msgspec.Meta(min_length=4)]

    def __post_init__(self) -> None:
        if len(self.data) % 4:
            raise ValueError("a vector has four bytes for each of its numbers")


class RecordLine(Line, frozen=True):
    """A record with every column that is not derived from others, except for its place."""

    id: Text
    kind: Kind
    content: str
    event_time: Moment
    source_class: SourceClass
    scope: Owning = "session"
    owner: str = ""
    topic: Text | None = None
    label: str | None = None
    role: str | None = None
    source_ref: str | None = None
    memory_type: str | None = None
    durability: Durability = "standard"
    importance: Share = 0.5
    metadata: Json = {}
    agent: str | None = None
    session_id: str | None = None
    query_id: str | None = None
    turn: str | None = None
    alias: str | None = None
    pending: bool | None = None
    stated_by: str | None = None
    summary: str | None = None
    keywords: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    confidence: Share | None = None
    score: Score | None = None
    superseded_by: str | None = None
    retired_at: Moment | None = None
    retired_why: RetiredWhy | None = None
    vector: StoredVector | None = None


class PlaceLine(Line, frozen=True):
    """A record's place in its session: so far behind the row of another, or before it."""

    record: Text
    at: Text
    offset: float = 0.0


class RelationLine(Line, frozen=True):
    source: Text
    relation: Text
    target: Text


class StampedLine(Line, frozen=True):
    """Base of lines with a time in the ledger's form, which the ledger must be able to read."""

    stamp: ClassVar[str] = "event_time"

    def __post_init__(self) -> None:
        if len(time := getattr(self, self.stamp)) == YEAR:
            return
        try:
            msgspec.convert(time, datetime)
        except msgspec.ValidationError as error:
            raise ValueError(f"{self.stamp}: {quoted(time)} is no time") from error


class FeedbackLine(StampedLine, frozen=True):
    owner: str
    query_id: str
    score: Score
    event_time: RatedAt
    session_id: str | None = None
    answer: str | None = None
    comment: str | None = None


class NoteLine(StampedLine, frozen=True):
    owner: str
    session_id: str
    position: Count
    role: str
    content: str
    event_time: Stamp
    merges: Count = 0
    merged: Count = 0


class OutputLine(StampedLine, frozen=True):
    """A part of a long tool output."""

    stamp = "kept_at"
    owner: str
    key: Text
    first: Count
    until: Count
    text: str
    kept_at: Stamp
    last: bool = False


class AuditLine(StampedLine, frozen=True):
    action: Text
    record_id: str
    event_time: Stamp
    agent: str | None = None
    user: str | None = None
    reason: str | None = None
    run: str | None = None
    detail: Json = {}


class AccessLine(StampedLine, frozen=True):
    """The number of a record's recalls, and of those that its importance includes."""

    stamp = "last"
    record: Text
    times: Count
    last: Stamp
    weighed: Count


class ItemLine(StampedLine, frozen=True):
    """An item of a framework; `record` is the id of the record that searches find it by."""

    stamp = "updated_at"
    owner: str
    collection: Collection
    namespace: Namespace
    key: Key
    created_at: Stamp
    updated_at: Stamp
    value: msgspec.Raw = NOTHING
    data: bytes | None = None
    record: str | None = None
    session_id: str | None = None


class EndLine(Line, frozen=True):
    """The last line: a file without it was cut short. `counts` are of the lines, by type."""

    counts: dict[str, Count]


Stored = (
    RecordLine
    | PlaceLine
    | RelationLine
    | FeedbackLine
    | NoteLine
    | OutputLine
    | AuditLine
    | AccessLine
    | ItemLine
)
"""A line with content of the memory."""
AnyLine = HeaderLine | Stored | EndLine
SECTIONS: Final = (
    "record",
    "place",
    "relation",
    "feedback",
    "note",
    "output",
    "audit",
    "access",
    "item",
)
"""In the order of the file: a line comes after those that it refers to, wherever possible."""

L = TypeVar("L")
_any_line: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(AnyLine)
_stored: msgspec.json.Decoder[Stored] = msgspec.json.Decoder(Stored)


def any_line(data: bytes, number: int) -> AnyLine:
    """Return the line of a file; `number` is for the error.

    Raises:
        BadRequestError: It is not JSON, or not a line of an export.
    """
    return _decoded(_any_line, data, number)


def stored_line(data: bytes, number: int) -> Stored:
    """Return a line that is stored, and no header or end.

    Raises:
        BadRequestError: It is not.
    """
    return _decoded(_stored, data, number)


def _decoded(decoder: msgspec.json.Decoder[L], data: bytes, number: int) -> L:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = echoed(error).rstrip(".")
        remedy = None
        if "unknown field" in problem or "Invalid value" in problem:
            remedy = "Where a newer local2 wrote the file, update this one."
        raise BadRequestError(
            f"Line {number} is not a line of an export: {problem}.",
            remedy=remedy,
            logged="A line is not one of an export.",
        ) from error
