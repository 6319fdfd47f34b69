"""Sessions as they are read: whole, in one read."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from local.ledger.records import Record
from local.ledger.search import Place
from local.ledger.sessions import (
    CHARACTERS,
    LONGEST,
    Important,
    SessionOf,
    StoredMessage,
    StoredSession,
)
from local.ledger.sqlite.database import Connection, Row
from local.ledger.sqlite.notes import notes_in
from local.ledger.sqlite.place_words import place_word
from local.ledger.sqlite.rows import TenantRows, record_of

T = TypeVar("T")


class Sessions:
    """One tenant's sessions."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    async def load(
        self,
        session: SessionOf,
        limit: int,
        important: Sequence[Important],
        make: Callable[[StoredSession], T],
    ) -> T:
        """What `make` makes of a session, off the event loop: long ones take milliseconds.

        It is given the newest messages, `limit` at most, the notes, and the most important facts.
        """

        def load(connection: Connection) -> T:
            messages, earlier = self._newest(connection, session, limit)
            stored = StoredSession(
                messages=messages,
                earlier=earlier,
                notes=notes_in(self._rows, connection, session),
                facts=[self._facts(connection, wanted) for wanted in important],
            )
            return make(stored)

        return await self._rows.read(load)

    def _newest(
        self, connection: Connection, session: SessionOf, limit: int
    ) -> tuple[list[StoredMessage], bool]:
        """Messages in their order, and whether there are more before them."""
        messages: list[StoredMessage] = []
        characters = 0
        asked = msgspec.structs.asdict(session)
        found = self._rows.execute(connection, "session_messages", **asked, limit=limit + 1)
        for row in found:
            if len(messages) == limit or characters >= CHARACTERS:
                found.close()
                return messages[::-1], True
            messages.append(_message(row))
            characters += min(len(row["content"]), LONGEST)
        return messages[::-1], False

    def _facts(self, connection: Connection, wanted: Important) -> list[Record]:
        """The most important first."""
        tenant = self._rows.tenant
        places = [place_word(tenant, Place(*whose, "fact")) for whose in wanted.whose]
        found = self._rows.execute(
            connection,
            "important_facts",
            places=msgspec.json.encode(places).decode(),
            importance=wanted.least,
            limit=wanted.limit,
        )
        return [record_of(row) for row in found]


def _message(row: Row) -> StoredMessage:
    columns = {name: row[name] for name in StoredMessage.__struct_fields__}
    columns["event_time"] = datetime.fromisoformat(row["event_time"])
    columns["metadata"] = msgspec.json.decode(row["metadata"])
    return StoredMessage(**columns)
