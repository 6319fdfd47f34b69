"""Stores and loads the content of sessions: messages, notes, and long tool outputs.

A note that replaces others does not change their text; they are only marked as merged.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal, TypeVar

import msgspec

from local2.ledger.operations.places import place_word
from local2.ledger.operations.transactions import (
    Part,
    Transaction,
    as_json,
    reads,
    records_of,
    writes_of,
)
from local2.ledger.records import Record, stamp
from local2.ledger.search import Place
from local2.protocol.memories import MemoryType, OwnerScope
from local2.protocol.memory_tools import Note, SessionNotes
from local2.protocol.payloads import Json, OutputPart

SESSION_CHARACTERS = 500_000
"""Characters after which loading a session stops; it reads backwards and includes the message that
exceeds the limit."""
COUNTED_CHARACTERS = 100_000
"""Maximum number of characters that one message counts for: longer messages are cut for display."""

T = TypeVar("T")


class SessionKey(msgspec.Struct, frozen=True):
    """An owner's session; session ids are unique per owner only."""

    owner: str
    session_id: str


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message or tool result, with the columns that a conversation needs."""

    id: str
    role: str
    content: str
    event_time: datetime
    label: str | None
    source_ref: str | None
    query_id: str | None
    turn: str | None
    metadata: Json


MergeNotes = Callable[[Sequence[Note]], Note | None]
"""Given the notes before a new one, returns a note that replaces all notes up to its position."""


class FactSelection(msgspec.Struct, frozen=True, kw_only=True):
    """A selection of important facts of these scopes, owners and types, `limit` at most.

    It includes facts without a type. A fact is selected if its importance is at least `least` or
    its durability is `core`, and no other fact supersedes it. `standing` are the remaining facts
    that have a key; `pinned` are those that their user pinned, of all types.
    """

    places: tuple[tuple[OwnerScope, str], ...]
    types: tuple[MemoryType, ...]
    least: float
    limit: int
    group: Literal["important", "standing", "pinned"] = "important"


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded session: messages in order, notes, and the requested facts.

    `earlier`: whether there are more messages before these.
    """

    messages: list[StoredMessage]
    earlier: bool
    notes: list[Note]
    facts: list[list[Record]]


class StoredOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of a tool output that is `total` characters long so far."""

    total: int
    complete: bool
    text: str


class LedgerSessions(Part):
    """One tenant's sessions."""

    @reads
    def load(
        self,
        tx: Transaction,
        session: SessionKey,
        limit: int,
        important: Sequence[FactSelection],
        make: Callable[[StoredSession], T],
    ) -> T:
        """Load a session; return the result of `make`, called off the event loop.

        `make` receives the newest messages, `limit` at most, the notes, and the important facts.
        """
        messages: list[StoredMessage] = []
        characters, earlier = 0, False
        asked = msgspec.structs.asdict(session)
        found = tx.execute("session_messages", **asked, limit=limit + 1)  # the newest first
        for row in found:
            if earlier := len(messages) == limit or characters >= SESSION_CHARACTERS:
                found.close()
                break
            columns = {name: row[name] for name in StoredMessage.__struct_fields__}
            columns["event_time"] = datetime.fromisoformat(row["event_time"])
            columns["metadata"] = msgspec.json.decode(row["metadata"])
            messages.append(StoredMessage(**columns))
            characters += min(len(row["content"]), COUNTED_CHARACTERS)
        stored = StoredSession(
            messages=messages[::-1],
            earlier=earlier,
            notes=notes_in(tx, session),
            facts=self._facts(tx, important),
        )
        return make(stored)

    @reads
    def important(self, tx: Transaction, important: Sequence[FactSelection]) -> list[list[Record]]:
        """The important facts of each selection."""
        return self._facts(tx, important)

    def _facts(self, tx: Transaction, important: Sequence[FactSelection]) -> list[list[Record]]:
        """The facts of each selection, the most important first."""
        facts = []
        for wanted in important:
            places = [place_word(tx.tenant, Place(*place, "fact")) for place in wanted.places]
            found = tx.execute(
                f"{wanted.group}_facts",
                places=as_json(places),
                types=as_json(wanted.types),
                importance=wanted.least,
                limit=wanted.limit,
            )
            facts.append(records_of(found))
        return facts


class Notes(Part):
    """One tenant's notes."""

    @writes_of(lambda session, *_, **__: [session.owner])
    def store(
        self,
        tx: Transaction,
        session: SessionKey,
        role: str,
        content: str,
        at: datetime,
        *,
        merge: MergeNotes,
    ) -> SessionNotes:
        """Add a note, unless the role has already stored the same words in this session."""
        notes = notes_in(tx, session)
        if any((note.role, note.content) == (role, content) for note in notes):
            return SessionNotes(notes=notes, was_new=False, merged=0)
        position = notes[-1].position + 1 if notes else 1
        new = Note(position=position, role=role, content=content, event_time=at)
        self._insert(tx, session, new)
        merged = merge(notes)
        if merged is not None:
            asked = msgspec.structs.asdict(session)
            tx.execute("merge_notes", **asked, position=merged.position)
            self._insert(tx, session, merged)
        return SessionNotes(
            notes=notes_in(tx, session),
            was_new=True,
            merged=sum(note.position <= merged.position for note in notes) if merged else 0,
        )

    def _insert(self, tx: Transaction, session: SessionKey, note: Note) -> None:
        values = {**msgspec.structs.asdict(note), "event_time": stamp(note.event_time)}
        tx.execute("insert_note", **msgspec.structs.asdict(session), **values)
        tx.refuse_excess()


def notes_in(tx: Transaction, session: SessionKey) -> list[Note]:
    """The notes of a session in order; called inside a read or write."""
    found = tx.execute("notes", **msgspec.structs.asdict(session))
    return [msgspec.convert(dict(row), Note) for row in found]


class Outputs(Part):
    """One tenant's tool outputs; keys are unique per owner."""

    @writes_of(lambda owner, _: [owner])
    def store(self, tx: Transaction, owner: str, part: OutputPart) -> bool:
        """Store the next part of an output, unless it is stored already.

        Return False if the part before it is missing, or if the output is already complete.
        """
        values = {
            "owner": owner,
            "key": part.key,
            "first": part.offset,
            "last": part.last,
            "text": part.text,
        }
        until = part.offset + len(part.text)
        added = tx.execute("append_output", **values, until=until).rowcount
        if added:
            tx.refuse_excess()
        return bool(added or tx.execute("same_part", **values).fetchone())

    @reads
    def read(
        self, tx: Transaction, owner: str, key: str, offset: int, limit: int
    ) -> StoredOutput | None:
        """Up to `limit` characters of an output from `offset` on; None if there is none."""
        size = tx.execute("output_size", owner=owner, key=key).fetchone()
        if size is None:
            return None
        asked = {"owner": owner, "key": key, "first": offset, "until": offset + limit}
        rows = tx.execute("output_parts", **asked).fetchall()
        start = offset - rows[0]["first"] if rows else 0
        return StoredOutput(
            total=size["total"],
            complete=bool(size["complete"]),
            text="".join(row["text"] for row in rows)[start : start + limit],
        )
