"""What crosses the ledger's door when records leave a memory, come into one, or are erased.

What is told of erased records has no content, and nobody's name.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from local.errors import BadRequestError
from local.ledger.search import Place
from local.protocol.portable import SECTIONS

SAMPLES = 20
"""Of the erased texts, with which it is looked whether a search finds them still."""


class ExportFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What is exported: everything, or what lies in places of one owner, or of one session of his.

    `talks`: whether notes, ratings and tool outputs belong to it.
    """

    places: tuple[Place, ...] | None = None
    owner: str = ""
    session_id: str | None = None
    talks: bool = True
    vectors: bool = False


class ExportCursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where an export goes on: in a section, after a row or a relation.

    `skip` are bytes of the next line that were exported already.
    """

    section: str = SECTIONS[0]
    after: int | tuple[str, str, str] = 0
    skip: int = 0

    @classmethod
    def of(cls, text: str | None) -> "ExportCursor":
        """The cursor that a page named; the beginning, without one.

        Raises:
            BadRequestError: No page names such a cursor.
        """
        if text is None:
            return cls()
        try:
            cursor = msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise BadRequestError(f"cursor: {text!r} is none.") from error
        is_relation = isinstance(cursor.after, tuple)
        if cursor.section not in SECTIONS or is_relation != (cursor.section == "relation"):
            raise BadRequestError(f"cursor: {text!r} is none.")
        return cursor

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class Importing(msgspec.Struct, frozen=True, kw_only=True):
    """Who imports, and when."""

    user: str | None
    agent: str | None
    at: datetime


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What an owner wants to have erased: one of the others, or everything of his.

    His is what belongs to him or to his sessions, and what he stated for an agent or everybody; of
    that no more than is in `scopes`, where they are given.
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
        """Whether what no record tells of is meant, too: notes, ratings that wait."""
        return self.topic is None and self.id is None


class Selected(msgspec.Struct, frozen=True, kw_only=True):
    """Rows in the order in which they are erased: what was derived before what it came from."""

    rows: tuple[int, ...]
    counts: Mapping[str, int]
    """By what people call it: messages, facts, notes, …"""


class Unindexed(msgspec.Struct, frozen=True):
    """What has to leave the index: the row, and the id that the index knows it by."""

    row: int
    id: str


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction erased."""

    rows: tuple[int, ...]
    ids: tuple[str, ...]
    unindexed: tuple[Unindexed, ...]
    samples: tuple[str, ...]


class Traces(msgspec.Struct, frozen=True, kw_only=True):
    """What is found of erased records, which should be nothing."""

    ids: int
    references: int
    vectors: int
    texts: int


class Anonymised(msgspec.Struct, frozen=True):
    """A record whose content and identity were cleared."""

    id: str
    kind: str


class Lifting(msgspec.Struct, frozen=True, kw_only=True):
    """Whether what is erased may come back, and when it was erased."""

    at: datetime
    allow_again: bool = False


def joined(parts: Iterable[Erased]) -> Erased:
    """What several transactions erased."""
    all_ = list(parts)
    return Erased(
        rows=tuple(row for one in all_ for row in one.rows),
        ids=tuple(id_ for one in all_ for id_ in one.ids),
        unindexed=tuple(each for one in all_ for each in one.unindexed),
        samples=tuple(text for one in all_ for text in one.samples)[:SAMPLES],
    )
