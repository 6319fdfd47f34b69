"""Exports the content of the ledger, page by page, as lines of an export file.

A page reads a bounded number of rows, even if few of them are wanted, because queries wait for it.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from local2.errors import BadRequestError
from local2.ledger.engines import Row
from local2.ledger.operations.places import place_word
from local2.ledger.operations.transactions import Part, Transaction, as_json, reads, record_of
from local2.ledger.search import Place
from local2.ledger.stored_vectors import unpacked
from local2.protocol.items import NOTHING, path_of
from local2.protocol.maintenance import ExportPage
from local2.protocol.portable import (
    MESSAGE_LINE_BYTES,
    SECTIONS,
    AccessLine,
    AuditLine,
    FeedbackLine,
    ItemLine,
    Line,
    NoteLine,
    OutputLine,
    PlaceLine,
    RecordLine,
    RelationLine,
    ShowingLine,
    StoredVector,
)

MAX_ROWS_READ = 2_000
"""Number of rows of a table that one page reads."""
ROWS_OF = {"place": "record", "access": "record"}
"""Sections whose rows are numbered by another table than the one they are named after."""
TALK_SECTIONS = frozenset({"feedback", "note", "output", "item", "showing"})
"""Sections that are exported only if `ExportFilter.talks` is set."""
FIRST_RELATION = ("", "", "")
"""The key before that of every relation."""

L = TypeVar("L", bound=Line)
Key = int | tuple[str, str, str]
Keyed = Iterator[tuple[Key, Line | None]]
"""Lines, each with the key after which the next page continues; None is a row that is left out."""


class ExportFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The records to export: all, those of an owner's places, or those of one of its sessions.

    `talks`: whether notes, ratings, tool outputs and items are exported, too.
    """

    places: tuple[Place, ...] | None = None
    owner: str = ""
    session_id: str | None = None
    talks: bool = True
    vectors: bool = False


class ExportCursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The position at which an export continues: in a section, after a row or a relation.

    `skip` is the number of bytes of the next line that were exported already.
    """

    section: str = SECTIONS[0]
    after: int | tuple[str, str, str] = 0
    skip: int = 0

    @classmethod
    def of(cls, text: str | None) -> "ExportCursor":
        """Decode the cursor of a page; None means the beginning.

        Raises:
            BadRequestError: The text is not the cursor of a page.
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


class Exports(Part):
    """One tenant's exports."""

    @reads
    def count(self, tx: Transaction, wanted: ExportFilter) -> int:
        """The number of records in an export."""
        return int(tx.execute("count_exported", **_asked(tx, wanted)).fetchone()["records"])

    @reads
    def page(self, tx: Transaction, wanted: ExportFilter, cursor: ExportCursor) -> ExportPage:
        """The next lines after a cursor, and the cursor of the next page."""
        section, after, skip = cursor.section, cursor.after, cursor.skip
        lines: list[msgspec.Raw] = []
        size = rows = 0
        for key, line in _lines(tx, _asked(tx, wanted), section, after):
            data = msgspec.json.encode(line) if line is not None else b""
            if len(data) > MESSAGE_LINE_BYTES and not lines:
                # A line that is too long for a page is exported in pieces.
                until = skip + MESSAGE_LINE_BYTES
                is_cut = until < len(data)
                rest = ExportCursor(section, after, until) if is_cut else ExportCursor(section, key)
                return ExportPage(
                    piece=data[skip:until],
                    cut=is_cut,
                    counts={} if is_cut else {section: 1},
                    cursor=rest.text(),
                )
            if size + len(data) > MESSAGE_LINE_BYTES:
                return _page_of_lines(section, lines, ExportCursor(section, after))
            rows += 1
            after = key
            if line is not None:
                lines.append(msgspec.Raw(data))
                size += len(data) + 1

        if isinstance(after, tuple):
            has_more = rows == MAX_ROWS_READ
        else:
            lasts = tx.execute("last_rows").fetchone()
            has_more = after < (lasts[ROWS_OF.get(section, section)] or 0)
        if has_more:
            return _page_of_lines(section, lines, ExportCursor(section, after))
        for following in SECTIONS[SECTIONS.index(section) + 1 :]:
            if wanted.talks or following not in TALK_SECTIONS:
                begin = FIRST_RELATION if following == "relation" else 0
                return _page_of_lines(section, lines, ExportCursor(following, begin))
        return _page_of_lines(section, lines, None)


def _asked(tx: Transaction, wanted: ExportFilter) -> dict[str, Any]:
    places = None
    if wanted.places is not None:
        places = as_json([place_word(tx.tenant, place) for place in wanted.places])
    return {
        "places": places,
        "owner": wanted.owner,
        "session_id": wanted.session_id,
        "vectors": wanted.vectors,
    }


def _page_of_lines(
    section: str, lines: list[msgspec.Raw], cursor: ExportCursor | None
) -> ExportPage:
    return ExportPage(
        lines=lines,
        counts={section: len(lines)} if lines else {},
        cursor=cursor.text() if cursor else None,
    )


def _lines(tx: Transaction, asked: dict[str, Any], section: str, after: Key) -> Keyed:
    """Yield the lines of a section after a key, at most those that one page reads."""
    if isinstance(after, tuple):
        source, relation, target = after
        begin = {"source": source, "relation": relation, "target": target}
        for row in tx.execute("export_relation", **asked, **begin, limit=MAX_ROWS_READ):
            key = (row["source"], row["relation"], row["target"])
            yield key, _line_of(RelationLine, row) if row["wanted"] else None
        return
    until = after + MAX_ROWS_READ
    for row in tx.execute(f"export_{section}", **asked, after=after, until=until):
        yield row["row"], _line(tx, section, row)
    yield until, None


def _line(tx: Transaction, section: str, row: Row) -> Line | None:
    """The line of a row; None if the row is left out."""
    match section:
        case "record":
            record, vector = record_of(row), None
            if row["vector"] is not None:
                data = unpacked(row["vector"]).tobytes()
                vector = StoredVector(embedder=row["embedder"], data=data)
            names = [name for name in RecordLine.__struct_fields__ if name != "vector"]
            return RecordLine(**{name: getattr(record, name) for name in names}, vector=vector)
        case "place":
            # Relative to a record, since row numbers differ between ledgers.
            at = row["stands_at"]
            of = {"owner": row["owner"], "session_id": row["session_id"]}
            base = tx.execute("record_at", **of, at=at, below=int(at // 1)).fetchone()
            if base is None:
                return None
            return PlaceLine(record=row["id"], at=base["id"], offset=at - base["row"])
        case "feedback":
            return _line_of(FeedbackLine, row)
        case "note":
            return _line_of(NoteLine, row)
        case "output":
            return _line_of(OutputLine, row, last=bool(row["last"]))
        case "audit":
            return _line_of(AuditLine, row, detail=msgspec.json.decode(row["detail"]))
        case "access":
            return _line_of(AccessLine, row)
        case "item":
            value = msgspec.Raw(row["value"]) if row["value"] is not None else NOTHING
            return _line_of(ItemLine, row, namespace=path_of(row["namespace"]), value=value)
        case "showing":
            shown = tx.execute("shown_in", showing=row["row"])
            records = tuple((record["record"], record["score"]) for record in shown)
            return _line_of(ShowingLine, row, records=records)
    raise AssertionError(section)


def _line_of(type_: type[L], row: Row, **other: Any) -> L:
    """The line of a row; the fields in `other` are not read from it."""
    names = [name for name in type_.__struct_fields__ if name not in other]
    return type_(**{name: row[name] for name in names}, **other)
