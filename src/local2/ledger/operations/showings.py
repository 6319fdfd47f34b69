"""Notes which memories were shown: by recalls, where they are logged, and before turns' answers."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from local2.ledger.engines import Row
from local2.ledger.operations.transactions import (
    AFTER_ALL,
    Part,
    Transaction,
    as_json,
    reads,
    writes_of,
)
from local2.ledger.records import stamp


class ShownRecord(NamedTuple):
    """A record that was shown, with its score in a recall."""

    id: str
    score: float | None = None


class Showing(msgspec.Struct, frozen=True, kw_only=True):
    """Which records were shown to a user, best first.

    Either by a recall, which asked `question`, or before the answer of a turn, whose episode has
    the id `answer`.
    """

    owner: str
    agent: str | None = None
    session_id: str | None = None
    query_id: str | None = None
    question: str | None = None
    answer: str | None = None
    shown_at: datetime
    records: tuple[ShownRecord, ...]
    row: int = 0


class ShowingFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What was shown to these owners in a session, for a query, or of a record."""

    owners: tuple[str, ...]
    of: Literal["session", "query", "record"]
    name: str


class Showings(Part):
    """What one tenant's users were shown."""

    @writes_of(lambda *_, **__: [])
    def add(self, tx: Transaction, showings: Iterable[Showing]) -> None:
        """Note what was shown."""
        for showing in showings:
            add_showing(tx, showing)

    @reads
    def find(
        self, tx: Transaction, wanted: ShowingFilter, limit: int, *, before: int | None = None
    ) -> list[Showing]:
        """What was noted last, in that order; `before`: continue before this row."""
        found: list[Row] = []
        for owner in wanted.owners:
            found += tx.execute(
                f"showings_of_{wanted.of}",
                name=wanted.name,
                owner=owner,
                before=AFTER_ALL if before is None else before,
                limit=limit,
            ).fetchall()
        latest = sorted(found, key=lambda row: -int(row["row"]))[:limit]
        return [showing_of(tx, row) for row in latest]

    @writes_of(lambda *_, **__: [])
    def drop_logged(self, tx: Transaction, *, before: datetime, limit: int) -> int:
        """Delete up to `limit` logged recalls from before a time; return how many."""
        found = tx.execute("logged_before", before=stamp(before), limit=limit).fetchall()
        drop_showings(tx, found)
        return len(found)


def add_showing(tx: Transaction, showing: Showing) -> None:
    """Note what was shown, unless that of the same answer is noted."""
    values = {**msgspec.structs.asdict(showing), "shown_at": stamp(showing.shown_at)}
    inserted = tx.execute("insert_showing", **values).fetchone()
    if inserted is not None:
        shown = (
            {"showing": inserted["row"], "position": position, "record": id_, "score": score}
            for position, (id_, score) in enumerate(showing.records)
        )
        tx.execute_each("insert_shown", shown)


def showing_of(tx: Transaction, row: Row) -> Showing:
    """What a row of `showing` says, with the records that were shown."""
    shown = [tuple(record) for record in tx.execute("shown_in", showing=row["row"])]
    return msgspec.convert({**dict(row), "records": shown}, Showing)


def drop_showings(tx: Transaction, showings: Sequence[Row]) -> None:
    """Delete these rows of `showing`, and what they showed."""
    rows = as_json([row["row"] for row in showings])
    for statement in ("drop_shown_in", "drop_showings"):
        tx.execute(statement, rows=rows)
