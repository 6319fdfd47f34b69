"""The types of the ledger's door for exporting, importing and erasing.

Data about erased records contains no content and no names.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from local.errors import BadRequestError
from local.ledger.search import Place
from local.protocol.portable import SECTIONS

SAMPLES = 20
"""Of the erased texts, those that a search is tried with afterwards."""


class ExportFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The records to export: all, an owner's places, or one session of the owner.

    `talks`: whether notes, ratings and tool outputs belong to it.
    """

    places: tuple[Place, ...] | None = None
    owner: str = ""
    session_id: str | None = None
    talks: bool = True
    vectors: bool = False


class ExportCursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The place where an export continues: in a section, after a row or a relation.

    `skip` are bytes of the next line that were exported already.
    """

    section: str = SECTIONS[0]
    after: int | tuple[str, str, str] = 0
    skip: int = 0

    @classmethod
    def of(cls, text: str | None) -> "ExportCursor":
        """Return the cursor that a page named; without one, the beginning.

        Raises:
            BadRequestError: The cursor is not that of a page.
        """
        if text is None:
            return cls()
        try:
            cursor = msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise BadRequestError(f"cursor: {text!r} is not valid.") from error
        is_relation = isinstance(cursor.after, tuple)
        if cursor.section not in SECTIONS or is_relation != (cursor.section == "relation"):
            raise BadRequestError(f"cursor: {text!r} is not valid.")
        return cursor

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class Importing(msgspec.Struct, frozen=True, kw_only=True):
    """The importing user and agent, and the time."""

    user: str | None
    agent: str | None
    at: datetime


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """An owner's selection to erase: one of the other fields, or everything of the owner.

    This is what belongs to the owner or to the owner's sessions, and what the owner stated for an
    agent or everybody; limited to `scopes`, if they are given.
    """

    owner: str
    session_id: str | None = None
    topic: str | None = None
    id: str | None = None
    scopes: frozenset[str] | None = None

    @property
    def whole_owner(self) -> bool:
        return self.session_id is None and self.topic is None and self.id is None

    @property
    def by_session(self) -> bool:
        """Whether to erase what no record refers to, too: notes, ratings that wait."""
        return self.topic is None and self.id is None


class Selected(msgspec.Struct, frozen=True, kw_only=True):
    """Rows in the order in which they are erased: derived records before their sources."""

    rows: tuple[int, ...]
    counts: Mapping[str, int]
    """By their names for people: messages, facts, notes, …"""


class Unindexed(msgspec.Struct, frozen=True):
    """A row that has to leave the index, and the id that the index knows it by."""

    row: int
    id: str


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that one transaction has erased."""

    rows: tuple[int, ...]
    ids: tuple[str, ...]
    unindexed: tuple[Unindexed, ...]
    samples: tuple[str, ...]


class Traces(msgspec.Struct, frozen=True, kw_only=True):
    """The traces of erased records that are found; there should be none."""

    ids: int
    references: int
    vectors: int
    texts: int


class Anonymised(msgspec.Struct, frozen=True):
    """A record whose content and identity were cleared."""

    id: str
    kind: str


class Lifting(msgspec.Struct, frozen=True, kw_only=True):
    """Whether erased content may be stored again, and when it was erased."""

    at: datetime
    allow_again: bool = False


def joined(parts: Iterable[Erased]) -> Erased:
    """Return the sum of what several transactions have erased."""
    all_ = list(parts)
    return Erased(
        rows=tuple(row for one in all_ for row in one.rows),
        ids=tuple(id_ for one in all_ for id_ in one.ids),
        unindexed=tuple(each for one in all_ for each in one.unindexed),
        samples=tuple(text for one in all_ for text in one.samples)[:SAMPLES],
    )
