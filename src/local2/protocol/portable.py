"""The lines of an export file, which `memory.export` and `memory.import` transfer.

Each line is a JSON object with a `type`; docs/export.md describes them. Lines refer to records by
id, because row numbers change with every import. Unknown fields are refused: dropping what a newer
local2 stored would be a silent loss.
"""

from datetime import datetime
from typing import Annotated, ClassVar, Final, TypeVar, get_args

import msgspec

from local2.errors import BadRequestError, abridged, quoted
from local2.protocol.items import NOTHING, Collection, Key, Namespace
from local2.protocol.json_text import read_json
from local2.protocol.memories import (
    Durability,
    Kind,
    MemoryType,
    OwnerScope,
    RetirementReason,
    SourceClass,
)
from local2.protocol.msgspec_errors import is_undeclared
from local2.protocol.payloads import Json, OutputKey

FORMAT = 6
"""Version of the file format; it is raised with every field, type or kind that an older local2
would refuse."""
MESSAGE_LINE_BYTES = 500_000
"""Maximum bytes of the lines, or of a piece of a line, in one message; the bus carries 1 MB."""
MAX_LINES_PER_MESSAGE = 500
"""Maximum lines in one message: they are stored in one transaction, which other writes wait for."""

MAX_LINE_BYTES = 32_000_000
"""Maximum bytes of a line. What local2 stores makes lines of some megabytes at most."""

Text = Annotated[str, msgspec.Meta(min_length=1)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Stamp = str
"""A time in the ledger's form."""
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
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
    """The first line. `records` is the number of records when the export began."""

    format: int
    local2: str
    exported_at: Moment
    records: Count
    scope: OwnerScope | None = None
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
    """A record with every column that is not derived from others, except its place."""

    id: Text
    kind: Kind
    content: str
    event_time: Moment
    source_class: SourceClass
    scope: OwnerScope = "session"
    owner: str = ""
    topic: Text | None = None
    label: str | None = None
    role: str | None = None
    source_ref: str | None = None
    memory_type: MemoryType | None = None
    durability: Durability = "standard"
    importance: Fraction = 0.5
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
    confidence: Fraction | None = None
    score: Score | None = None
    superseded_by: str | None = None
    retired_at: Moment | None = None
    retired_why: RetirementReason | None = None
    stored_at: Moment | None = None
    pinned: bool | None = None
    vector: StoredVector | None = None


class PlaceLine(Line, frozen=True):
    """A record's place in its session, as an offset from the row of another record (`at`)."""

    record: Text
    at: Text
    offset: float = 0.0


class RelationLine(Line, frozen=True):
    source: Text
    relation: Text
    target: Text


class StampedLine(Line, frozen=True):
    """Base of lines with a time in the ledger's form; `stamp` names the field."""

    stamp: ClassVar[str] = "event_time"

    def __post_init__(self) -> None:
        time = getattr(self, self.stamp)
        try:
            msgspec.convert(time, datetime)
        except msgspec.ValidationError as error:
            raise ValueError(f"{self.stamp}: {quoted(time)} is not a time") from error


class FeedbackLine(StampedLine, frozen=True):
    owner: str
    query_id: str
    score: Score
    event_time: Stamp
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
    key: OutputKey
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
    """How often a record was recalled, and how many of these its importance already includes."""

    stamp = "last"
    record: Text
    times: Count
    last: Stamp
    weighed: Count


class ItemLine(StampedLine, frozen=True):
    """An item of a framework; `record` is the id of the record that makes it searchable."""

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


class ShowingLine(StampedLine, frozen=True):
    """Which records were shown, each with its score, by a recall (`question`) or before an answer.

    `answer`: the id of the episode.
    """

    stamp = "shown_at"
    owner: str
    shown_at: Stamp
    records: tuple[tuple[Text, float | None], ...]
    agent: str | None = None
    session_id: str | None = None
    query_id: str | None = None
    question: str | None = None
    answer: str | None = None


class EndLine(Line, frozen=True):
    """The last line, which a truncated file lacks; `counts` is the number of lines by type."""

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
    | ShowingLine
)
"""A line with content of the memory; a file has them in this order."""
AnyLine = HeaderLine | Stored | EndLine
SECTIONS: Final = tuple(str(line.__struct_config__.tag) for line in get_args(Stored))
"""The types of lines in file order: lines follow those that they refer to, where possible."""

L = TypeVar("L")
_any_line: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(AnyLine)
_stored: msgspec.json.Decoder[Stored] = msgspec.json.Decoder(Stored)


def any_line(data: bytes, number: int) -> AnyLine:
    """Decode a line of an export file; `number` is for the error message.

    Raises:
        BadRequestError: It is not JSON, or not a line of an export.
    """
    return _decode_line(_any_line, data, number)


def stored_line(data: bytes, number: int) -> Stored:
    """Decode a line with content, which is neither the header nor the end.

    Raises:
        BadRequestError: It is not such a line.
    """
    return _decode_line(_stored, data, number)


def _decode_line(decoder: msgspec.json.Decoder[L], data: bytes, number: int) -> L:
    try:
        return read_json(data, decoder.decode)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = abridged(error).rstrip(".")
        remedy = None
        if is_undeclared(problem):
            remedy = "If a newer local2 wrote the file, update this one."
        raise BadRequestError(
            f"Line {number} is not a line of an export: {problem}.",
            remedy=remedy,
            logged="A line is not a line of an export.",
        ) from error
