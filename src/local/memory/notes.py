"""Notes of a session: short, each under a role, in their order. Of too many the oldest become one.

That one has the beginning of each. The notes it stands for stay in the ledger.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Self

import msgspec

from local.ledger.records import stamp
from local.ledger.sqlite.database import Connection, Row
from local.ledger.sqlite.rows import TenantRows

MOST = 15
MERGED_AT_ONCE = 8
EXCERPT = 160
"""Characters that a merged note keeps of one."""
MERGED_SIZE = 2_000
"""Characters of a merged note at most; beyond it the oldest lines go."""
EARLIER = "earlier notes"
"""The role of a merged note."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """`merges` is how many notes it stands for; 0: it is one itself."""

    position: int
    role: str
    content: str
    event_time: datetime
    merges: int = 0

    @classmethod
    def from_row(cls, row: Row) -> Self:
        columns = {name: row[name] for name in cls.__struct_fields__}
        return cls(**{**columns, "event_time": datetime.fromisoformat(row["event_time"])})


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """The notes of a session after one was made; `merged` of them were just made one."""

    notes: list[Note]
    was_new: bool
    merged: int = 0


class Notes:
    """The notes of one owner's session; another owner's of the same id are others."""

    def __init__(self, rows: TenantRows, owner: str, session_id: str) -> None:
        self._rows = rows
        self._session = {"owner": owner, "session_id": session_id}

    async def add(self, role: str, content: str, at: datetime) -> Noted:
        """Make a note; what the role has noted already, word for word, is not noted again."""
        return await self._rows.write(lambda c: self._add(c, role, content, at))

    def all_in(self, connection: Connection) -> list[Note]:
        """The notes in their order, inside a read or write."""
        found = self._rows.execute(connection, "notes", **self._session)
        return [Note.from_row(row) for row in found]

    def _add(self, connection: Connection, role: str, content: str, at: datetime) -> Noted:
        notes = self.all_in(connection)
        if any((note.role, note.content) == (role, content) for note in notes):
            return Noted(notes=notes, was_new=False)
        position = notes[-1].position + 1 if notes else 1
        new = Note(position=position, role=role, content=content, event_time=at)
        self._insert(connection, new)
        oldest = notes[:MERGED_AT_ONCE] if len(notes) >= MOST else []
        if oldest:
            self._merge(connection, oldest)
        return Noted(notes=self.all_in(connection), was_new=True, merged=len(oldest))

    def _merge(self, connection: Connection, oldest: Sequence[Note]) -> None:
        one = merged(oldest)
        self._rows.execute(connection, "merge_notes", **self._session, position=one.position)
        self._insert(connection, one)

    def _insert(self, connection: Connection, note: Note) -> None:
        values = {**msgspec.structs.asdict(note), "event_time": stamp(note.event_time)}
        self._rows.execute(connection, "insert_note", **self._session, **values)


def merged(notes: Sequence[Note]) -> Note:
    """One note for several: a line of each, of the newest at least, and how many they were."""
    lines = [line for note in notes for line in _lines(note)]
    kept = _newest(lines, MERGED_SIZE)
    total = sum(note.merges or 1 for note in notes)
    left_out = f", the oldest {total - len(kept)} left out" if len(kept) < total else ""
    last = notes[-1]
    return Note(
        position=last.position,
        role=EARLIER,
        content="\n".join([f"{total} notes, shortened{left_out}:", *kept]),
        event_time=last.event_time,
        merges=total,
    )


def _lines(note: Note) -> Iterator[str]:
    """What a merged note says of this one: its beginning, or the lines that it is made of."""
    if note.merges:
        yield from note.content.split("\n")[1:]
        return
    text = " ".join(note.content.split())
    if len(text) > EXCERPT:
        text = f"{text[:EXCERPT].rpartition(' ')[0] or text[:EXCERPT]} …"
    yield f"{note.role}: {text}"


def _newest(lines: Sequence[str], size: int) -> list[str]:
    kept: list[str] = []
    for line in reversed(lines):
        size -= len(line) + 1
        if size < 0:
            break
        kept.insert(0, line)
    return kept
