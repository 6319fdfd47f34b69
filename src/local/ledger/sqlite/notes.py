"""Notes of sessions, in their order; those that another one stands for stay as they are."""

from datetime import datetime

import msgspec

from local.ledger.records import stamp
from local.ledger.sessions import Merge, Note, Noted, SessionOf
from local.ledger.sqlite.database import Connection
from local.ledger.sqlite.rows import TenantRows


class Notes:
    """One tenant's notes."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    async def store(
        self, session: SessionOf, role: str, content: str, at: datetime, *, merge: Merge
    ) -> Noted:
        """Add a note; what the role has noted already, word for word, is not noted again."""

        def store(connection: Connection) -> Noted:
            notes = notes_in(self._rows, connection, session)
            if any((note.role, note.content) == (role, content) for note in notes):
                return Noted(notes=notes, was_new=False)
            position = notes[-1].position + 1 if notes else 1
            new = Note(position=position, role=role, content=content, event_time=at)
            self._insert(connection, session, new)
            one = merge(notes)
            if one is not None:
                asked = msgspec.structs.asdict(session)
                self._rows.execute(connection, "merge_notes", **asked, position=one.position)
                self._insert(connection, session, one)
            return Noted(
                notes=notes_in(self._rows, connection, session),
                was_new=True,
                merged=sum(note.position <= one.position for note in notes) if one else 0,
            )

        return await self._rows.write(store)

    def _insert(self, connection: Connection, session: SessionOf, note: Note) -> None:
        values = {**msgspec.structs.asdict(note), "event_time": stamp(note.event_time)}
        self._rows.execute(connection, "insert_note", **msgspec.structs.asdict(session), **values)


def notes_in(rows: TenantRows, connection: Connection, session: SessionOf) -> list[Note]:
    """The notes in their order, inside a read or write."""
    found = rows.execute(connection, "notes", **msgspec.structs.asdict(session))
    return [
        Note(
            position=row["position"],
            role=row["role"],
            content=row["content"],
            event_time=datetime.fromisoformat(row["event_time"]),
            merges=row["merges"],
        )
        for row in found
    ]
