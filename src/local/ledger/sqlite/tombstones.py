"""What an owner chose to erase, and its tombstones, so that no import brings it back.

Tombstones are keyed hashes. An item is recognised by its ids, and by its text under its speaker. A
message of a conversation is recognised by its ids alone: people write the same again, and mean it.
What somebody states or adds on purpose, a fact or a document, is never refused. Notes, ratings and
tool outputs are refused if they are older than the erasure of their owner or session.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from local.ledger.records import (
    EXTRACTED_FROM,
    TENANT_OWNED,
    NewRecord,
    class_of,
    principal_of,
    stamp,
)
from local.ledger.search import Place
from local.ledger.sqlite.database import Row, SqlConnection
from local.ledger.sqlite.record_columns import as_json
from local.ledger.sqlite.rows import TenantRows
from local.ledger.sqlite.working_sets import place_word
from local.ledger.transfer import Lifting, Selected, Selection
from local.protocol.memories import Kind
from local.protocol.portable import FeedbackLine, ItemLine, NoteLine, OutputLine
from local.text.names import folded

OWNED: tuple[Kind, ...] = ("chat_message", "tool_output", "transcript", "episode", "fact")
OWN: tuple[Kind, ...] = ("fact", "note", "episode")
"""What belongs to an owner directly, and to no session."""
NAMES: dict[str, str] = {
    "chat_message": "messages",
    "transcript": "messages",
    "tool_output": "tool results",
    "episode": "episodes",
    "note": "saved notes",
    "fact": "facts",
    "document_chunk": "document chunks",
}
"""The kinds of records in words for people."""
LEAST = 25
"""Characters of a message that is recognised by its text: a shorter one is repeated by chance."""
ON_PURPOSE = frozenset({"asserted", "document"})


class Selections:
    """The rows of each selection: whole turns, with all that rests on nothing else."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def of(self, selection: Selection, connection: SqlConnection) -> Selected:
        """Return every row to erase, derived ones before their sources, and how many of each."""
        chosen = self._chosen(selection, connection)
        rows = dict.fromkeys(chosen)
        new: Iterable[int] = chosen
        while new := [
            row for row in self._with(selection, connection, new, rows) if row not in rows
        ]:
            rows = dict.fromkeys((*new, *rows))  # derived records go first
        if selection.scopes is not None:
            rows = dict.fromkeys(self._in_scopes(selection.scopes, connection, list(rows)))
        found = self._rows.execute(connection, "to_erase", rows=as_json(list(rows))).fetchall()
        counts = Counter(NAMES[row["kind"]] for row in found)
        counts.update(self._beside(selection, connection, found))
        return Selected(rows=tuple(rows), counts={k: n for k, n in counts.items() if n})

    def _in_scopes(
        self, scopes: Collection[str], connection: SqlConnection, rows: Sequence[int]
    ) -> list[int]:
        asked = {"rows": as_json(rows), "scopes": as_json(sorted(scopes))}
        return [row["row"] for row in self._rows.execute(connection, "rows_in_scopes", **asked)]

    def _chosen(self, selection: Selection, connection: SqlConnection) -> list[int]:
        owner, execute = selection.owner, self._rows.execute
        if selection.id is not None:
            found = execute(connection, "rows_of_id", owner=owner, id=selection.id)
        elif selection.topic is not None:
            topic = folded(selection.topic)
            found = execute(connection, "rows_of_topic", owner=owner, topic=topic)
        else:
            tenant = self._rows.tenant
            places = [place_word(tenant, Place("session", owner, kind)) for kind in OWNED]
            places += [place_word(tenant, Place("user", owner, kind)) for kind in OWN]
            asked = {"places": as_json(places), "session_id": selection.session_id}
            found = execute(connection, "rows_of_owner", owner=owner, **asked)
        return [row["row"] for row in found]

    def _with(
        self,
        selection: Selection,
        connection: SqlConnection,
        new: Iterable[int],
        rows: Iterable[int],
    ) -> list[int]:
        """Return the rows with what goes along: turns and documents, and all derived from these."""
        asked = {"rows": as_json(list(new)), "owner": selection.owner}
        found = self._rows.execute(connection, "rows_of_turns", **asked).fetchall()
        found += self._rows.execute(connection, "rows_of_documents", **asked).fetchall()
        every = self._rows.execute(connection, "ids_of", rows=as_json(list(rows)))
        ids = as_json([row["id"] for row in every])
        derived = self._rows.execute(connection, "rows_derived", ids=ids, owner=selection.owner)
        return list(dict.fromkeys(row["row"] for row in (*derived.fetchall(), *found)))

    def _beside(
        self, selection: Selection, connection: SqlConnection, found: Sequence[Row]
    ) -> dict[str, int]:
        """Count the notes, tool outputs and ratings that go with the records."""
        owner, execute = selection.owner, self._rows.execute
        keys = as_json([row["key"] for row in found if row["key"]])
        every = selection.whole_owner
        outputs = execute(connection, "count_outputs", owner=owner, keys=keys, every=every)
        counts = {"long tool outputs": int(outputs.fetchone()["outputs"])}
        if selection.includes_unreferenced:
            asked = {"owner": owner, "session_id": selection.session_id}
            return counts | dict(execute(connection, "count_others", **asked).fetchone())
        ids = as_json([row["id"] for row in found])
        return counts | dict(execute(connection, "count_beside", ids=ids).fetchone())


class Tombstones:
    """One tenant's tombstones, inside transactions. If there are none, that is cached."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows
        self._any: bool | None = None
        self._key = b""

    def stand_for(
        self, connection: SqlConnection, record: NewRecord, *, copied: bool = False
    ) -> bool:
        """Return whether a record was erased, and may not come back.

        What somebody stores on purpose may come back; `copied`: it is from an export, so nobody
        does.
        """
        if not self._are_there(connection) or (class_of(record) in ON_PURPOSE and not copied):
            return False
        return self._stand(connection, list(self._digests(record)))

    def stand_beside(
        self, connection: SqlConnection, line: NoteLine | FeedbackLine | OutputLine | ItemLine
    ) -> bool:
        """Return whether a line of an export is older than the erasure of its owner or session."""
        if not self._are_there(connection):
            return False
        digests = [self._chosen(Selection(owner=line.owner))]
        match line:
            case OutputLine():
                since = line.kept_at.replace(" ", "T")  # SQLite's own form of a time
                digests.append(self._digest("output", line.owner, line.key))
            case NoteLine() | FeedbackLine():
                since = line.event_time
                of_session = Selection(owner=line.owner, session_id=line.session_id)
                digests.append(self._chosen(of_session))
            case ItemLine():
                since = line.updated_at
                of_session = Selection(owner=line.owner, session_id=line.session_id)
                digests += [self._chosen(of_session)] if line.session_id else []
        return self._stand(connection, digests, since=since)

    def _stand(self, connection: SqlConnection, digests: Sequence[str], *, since: str = "") -> bool:
        asked = {"digests": as_json(digests), "since": since}
        return bool(self._rows.execute(connection, "stands_for", **asked).fetchone()["stands"])

    def add(
        self, connection: SqlConnection, selection: Selection, rows: Sequence[Row], how: Lifting
    ) -> None:
        """Prevent all of these rows from coming back."""
        self._are_there(connection)
        digests: list[str] = []
        for row in rows:
            names: list[tuple[str, ...]] = [
                ("id", row["id"]),
                *([("id", row["alias"])] if row["alias"] else []),
            ]
            if row["kind"] == "fact" or len(row["content"].strip()) >= LEAST:
                names.append(("text", selection.owner, row["content"].strip()))
            if row["key"]:
                names.append(("output", selection.owner, row["key"]))
            digests += [self._digest(*name) for name in names]
        self._add(connection, selection, digests, how)

    def add_beside(self, connection: SqlConnection, selection: Selection, how: Lifting) -> None:
        """Prevent notes, ratings and tool outputs older than this from coming back."""
        self._are_there(connection)
        self._add(connection, selection, [self._chosen(selection)], how)

    def _add(
        self,
        connection: SqlConnection,
        selection: Selection,
        digests: Sequence[str],
        how: Lifting,
    ) -> None:
        same = {
            "erased_at": stamp(how.at),
            "whose": self._digest("owner", selection.owner),
            "chosen": self._chosen(selection),
        }
        self._rows.execute_each(
            connection, "add_tombstone", ({"digest": digest, **same} for digest in digests)
        )
        self._any = True

    def lift(self, connection: SqlConnection, records: Sequence[NewRecord]) -> None:
        """Permit these records to come back."""
        if self._are_there(connection):
            digests = [digest for record in records for digest in self._digests(record)]
            self._rows.execute(connection, "lift_tombstones", digests=as_json(digests))
            self._any = None

    def lift_all(self, connection: SqlConnection, selection: Selection) -> None:
        """Permit all to come back that was erased by this selection, or all of an owner's."""
        if self._are_there(connection):
            self._rows.execute(
                connection,
                "lift_tombstones_of",
                whose=self._digest("owner", selection.owner),
                chosen=None if selection.whole_owner else self._chosen(selection),
            )
            self._any = None

    def chosen_among(
        self, connection: SqlConnection, digests: Collection[str]
    ) -> list[tuple[Selection, str]]:
        """Return all that could have been chosen, and was: each with the digest that proves it."""
        self._are_there(connection)
        found = {
            digest: selection
            for row in self._rows.execute(connection, "could_be_chosen")
            for selection in _selections(row)
            if (digest := self._chosen(selection)) in digests
        }
        return [(selection, digest) for digest, selection in found.items()]

    def _are_there(self, connection: SqlConnection) -> bool:
        if self._any is None:
            row = self._rows.execute(connection, "has_tombstones").fetchone()
            self._any, self._key = bool(row["any"]), row["key"]
        return self._any

    def _digests(self, record: NewRecord) -> Iterator[str]:
        for id_ in {record.id, record.alias, record.turn} - {None}:
            yield self._digest("id", id_)
        received_live = record.turn is not None or record.pending is not None
        stated_again = EXTRACTED_FROM in record.metadata  # in a message that was not erased
        text = record.content.strip()
        if not (received_live or stated_again) and (record.kind == "fact" or len(text) >= LEAST):
            yield self._digest("text", principal_of(record) or TENANT_OWNED, text)

    def _chosen(self, selection: Selection) -> str:
        topic = folded(selection.topic) if selection.topic else None
        return self._digest("chosen", selection.owner, selection.session_id, topic, selection.id)

    def _digest(self, *parts: str | None) -> str:
        data = msgspec.json.encode((self._rows.tenant, *parts))
        return hashlib.blake2b(data, key=self._key, digest_size=16).hexdigest()


def _selections(row: Row) -> Iterator[Selection]:
    """Yield the selections by which a record, or a note, could have been erased."""
    owner = row["owner"]
    if owner is None:
        return
    yield Selection(owner=owner)
    if row["session_id"] is not None:
        yield Selection(owner=owner, session_id=row["session_id"])
    if row["folded_topic"] is not None:
        yield Selection(owner=owner, topic=row["folded_topic"])
    for id_ in {row["id"], row["alias"]} - {None}:
        yield Selection(owner=owner, id=id_)
