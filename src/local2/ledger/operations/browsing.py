"""Shows records page by page, the newest first.

A page reads a bounded number of records, even if few of them are wanted, because queries wait for
it; such a page may have fewer records than were asked for, and says where to continue.
"""

import heapq
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from local2.errors import BadRequestError
from local2.keys import fold_topic
from local2.ledger.engines import Cursor
from local2.ledger.operations.places import place_of, place_word
from local2.ledger.operations.transactions import (
    AFTER_ALL,
    Part,
    Transaction,
    as_json,
    reads,
    reads_apart,
    records_at,
)
from local2.ledger.records import Record, stamp
from local2.ledger.search import Place
from local2.protocol.browsing import DayCount, RecordState, SessionCount, SessionsPage
from local2.protocol.memories import Kind, MemoryType, OwnerScope, SourceClass

MAX_READ = 3_000
"""Maximum number of records that one page reads."""
MAX_MESSAGES_READ = 20_000
"""Maximum number of messages that are read for a page of sessions."""
MESSAGES: tuple[Kind, ...] = ("chat_message", "tool_output", "transcript")
ROWS_AT_ONCE = 250
"""Number of records with the words that are read by one statement."""
LAST_TIME = "9"
"""It sorts after every time."""


class BrowseFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The records to show; None stands for no condition.

    `places`: whose they are; without them, all of the tenant. `agent`: who stored them. `topic`:
    how their keys begin. `terms`: words that they contain, all of them.
    """

    states: frozenset[RecordState]
    places: Sequence[Place] | None = None
    kinds: Sequence[Kind] | None = None
    scopes: Sequence[OwnerScope] | None = None
    types: Sequence[MemoryType] | None = None
    sources: Sequence[SourceClass] | None = None
    agent: str | None = None
    session_id: str | None = None
    topic: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    terms: Sequence[str] = ()


class BrowseCursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The record after which a page continues: its time as it is stored, and its row.

    The time is empty while words are looked for: these records come in the order of their rows.
    """

    event_time: str
    row: int

    @classmethod
    def of(cls, text: str | None) -> "BrowseCursor | None":
        """Decode the `next` of a page; None means the beginning.

        Raises:
            BadRequestError: The text is not the `next` of a page.
        """
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise BadRequestError(
                f"after: {text!r} is not valid.", remedy="Pass `next` of the page before."
            ) from error

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class BrowsedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record, with its state, and how often and when it was recalled."""

    record: Record
    state: RecordState
    recalls: int = 0
    recalled_at: datetime | None = None


class BrowsedRecords(msgspec.Struct, frozen=True, kw_only=True):
    """A page of records; `next` is where to continue, None at the end."""

    records: list[BrowsedRecord]
    next: BrowseCursor | None


class PlaceCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many records of a place stand, how many no longer do, and the time of the newest."""

    place: Place
    active: int
    past: int
    last: datetime


class _Walked(NamedTuple):
    """A record that was read; `state` is None if it is not wanted, whatever its state."""

    event_time: str
    row: int
    state: RecordState | None


class _Message(NamedTuple):
    """A message in a session; without one, `session_id` is None."""

    event_time: str
    row: int
    owner: str
    session_id: str | None


class LedgerBrowsing(Part):
    """Shows one tenant's records."""

    @reads
    def page(
        self, tx: Transaction, wanted: BrowseFilter, limit: int, after: BrowseCursor | None
    ) -> BrowsedRecords:
        """The next records that pass a filter, at most `limit`."""
        walked = _with_words(tx, wanted, after) if wanted.terms else _by_time(tx, wanted, after)
        states: dict[int, RecordState] = {}
        last: _Walked | None = None
        for number, walk in enumerate(walked):
            if last is not None and (len(states) == limit or number == MAX_READ):
                is_by_time = not wanted.terms
                end = BrowseCursor(last.event_time if is_by_time else "", last.row)
                return BrowsedRecords(records=_records(tx, states), next=end)
            if walk.state in wanted.states:
                states[walk.row] = walk.state
            last = walk
        return BrowsedRecords(records=_records(tx, states), next=None)

    @reads_apart
    def counts(self, tx: Transaction, places: Sequence[Place] | None) -> list[PlaceCount]:
        """Count the records of these places, or of all of the tenant's; empty ones are left out."""
        suffix, asked = _of_places(tx, places)
        active = {row["place"]: row for row in tx.execute(f"count_active{suffix}", **asked)}
        past = {row["place"]: row for row in tx.execute(f"count_past{suffix}", **asked)}
        counts = []
        for word in sorted(active.keys() | past.keys()):
            found = [counted[word] for counted in (active, past) if word in counted]
            counts.append(
                PlaceCount(
                    place=place_of(word),
                    active=active[word]["records"] if word in active else 0,
                    past=past[word]["records"] if word in past else 0,
                    last=datetime.fromisoformat(max(row["last"] for row in found)),
                )
            )
        return counts

    @reads_apart
    def growth(
        self, tx: Transaction, places: Sequence[Place] | None, since: datetime
    ) -> list[DayCount]:
        """Count the records of these places, or of all, by their kinds and days, from a time on."""
        suffix, asked = _of_places(tx, places)
        asked["since"] = stamp(since)
        counts: Counter[tuple[date, Kind]] = Counter()
        for state in ("active", "past"):
            for row in tx.execute(f"growth_{state}{suffix}", **asked):
                day = date.fromisoformat(row["day"])
                counts[day, place_of(row["place"]).kind] += row["records"]
        return [
            DayCount(day=day, kind=kind, added=added)
            for (day, kind), added in sorted(counts.items())
        ]

    @reads_apart
    def sessions(
        self,
        tx: Transaction,
        owners: Sequence[str] | None,
        limit: int,
        after: BrowseCursor | None,
    ) -> SessionsPage:
        """The next sessions of these owners, or of all, those that were used last first.

        A page reads a bounded number of messages: with very long sessions, it may have fewer than
        `limit`. A session belongs where its newest message is.
        """
        start = {
            "before": LAST_TIME if after is None else after.event_time,
            "before_row": AFTER_ALL if after is None else after.row,
        }
        most = MAX_READ if owners is None else MAX_MESSAGES_READ
        known: set[tuple[str, str]] = set()
        listed: list[SessionCount] = []
        last: _Message | None = None
        for number, message in enumerate(_newest_messages(tx, owners, start, most + 1)):
            if last is not None and (len(listed) == limit or number == most):
                end = BrowseCursor(last.event_time, last.row)
                return SessionsPage(sessions=listed, next=end.text())
            last = message
            session_id = message.session_id
            if session_id is None or (message.owner, session_id) in known:
                continue
            known.add((message.owner, session_id))
            asked = {"owner": message.owner, "session_id": session_id}
            if after is not None and tx.execute("session_is_listed", **asked, **start).fetchone():
                continue
            messages = tx.execute("count_messages_of_session", **asked).fetchone()["messages"]
            first = tx.execute("first_message_of_session", **asked).fetchone()["event_time"]
            listed.append(
                SessionCount(
                    session_id=session_id,
                    user=message.owner or None,
                    messages=messages,
                    first=datetime.fromisoformat(first),
                    last=datetime.fromisoformat(message.event_time),
                )
            )
        return SessionsPage(sessions=listed)


def _of_places(tx: Transaction, places: Sequence[Place] | None) -> tuple[str, dict[str, Any]]:
    """How the names of statements about these places end, and what they ask; of all, if None."""
    if places is None:
        return "", {}
    return "_of_places", {"places": as_json([place_word(tx.tenant, place) for place in places])}


def _newest_messages(
    tx: Transaction, owners: Sequence[str] | None, start: dict[str, Any], limit: int
) -> Iterator[_Message]:
    """Yield messages, the newest first; of a whole tenant, also records that are none."""
    if owners is None:
        for row in tx.execute("sessions_of_tenant", **start, limit=limit):
            yield _Message(row["event_time"], row["row"], row["owner"], row["session_id"])
        return

    def messages(owner: str, kind: Kind) -> Iterator[_Message]:
        place = place_word(tx.tenant, Place("session", owner, kind))
        for row in tx.execute("sessions_of_place", **start, place=place, limit=limit):
            yield _Message(row["event_time"], row["row"], owner, row["session_id"])

    walks = [messages(owner, kind) for owner in owners for kind in MESSAGES]
    yield from heapq.merge(*walks, key=itemgetter(0, 1), reverse=True)


def _by_time(
    tx: Transaction, wanted: BrowseFilter, after: BrowseCursor | None
) -> Iterator[_Walked]:
    """Yield the records of the places, or of the tenant, the newest first."""
    before, before_row = _until(wanted), AFTER_ALL
    if after is not None:
        before, before_row = min((before, before_row), (after.event_time, after.row))
    # A page reads no more than that, from whichever place.
    asked = {**_asked(wanted), "before": before, "before_row": before_row, "limit": MAX_READ + 1}
    cursors: list[Cursor] = []
    if wanted.places is None:
        cursors.append(tx.execute("browse_tenant", **asked))
    for place in wanted.places or ():
        word = place_word(tx.tenant, place)
        if "active" in wanted.states:
            cursors.append(tx.execute("browse_active", **asked, place=word))
        if wanted.states != {"active"}:
            cursors.append(tx.execute("browse_past", **asked, place=word))
    try:
        for row in heapq.merge(*cursors, key=itemgetter(0, 1), reverse=True):
            yield _Walked(row[0], row[1], row[2] if row[3] else None)
    finally:
        for cursor in cursors:
            cursor.close()


def _with_words(
    tx: Transaction, wanted: BrowseFilter, after: BrowseCursor | None
) -> Iterator[_Walked]:
    """Yield the records that contain all the words, those that were stored last first."""
    words = None
    if wanted.places is not None:
        words = [place_word(tx.tenant, place) for place in wanted.places]
    # Only active records have words for their places.
    among = words if wanted.states == {"active"} else None
    asked = {
        **_asked(wanted),
        "until": _until(wanted),
        "places": None if words is None else as_json(words),
    }
    before = AFTER_ALL if after is None else after.row
    while True:
        rows = tx.text.rows_of_words(tx, wanted.terms, among, before=before, limit=ROWS_AT_ONCE)
        read = {row["row"]: row for row in tx.execute("browse_rows", **asked, rows=as_json(rows))}
        for row in rows:
            own = read.get(row)
            is_wanted = own is not None and own["wanted"] and own["reached"]
            yield _Walked("", row, own["state"] if own is not None and is_wanted else None)
        if len(rows) < ROWS_AT_ONCE:
            return
        before = rows[-1]


def _asked(wanted: BrowseFilter) -> dict[str, Any]:
    topic = None if wanted.topic is None else fold_topic(wanted.topic)
    return {
        "kinds": _listed(wanted.kinds),
        "scopes": _listed(wanted.scopes),
        "types": _listed(wanted.types),
        "sources": _listed(wanted.sources),
        "agent": wanted.agent,
        "session_id": wanted.session_id,
        "topic": topic,
        "beyond": None if topic is None else f"{topic}{chr(sys.maxunicode)}",
        "since": "" if wanted.since is None else stamp(wanted.since),
    }


def _until(wanted: BrowseFilter) -> str:
    return LAST_TIME if wanted.until is None else stamp(wanted.until)


def _listed(values: Iterable[str] | None) -> str | None:
    return None if values is None else as_json(list(values))


def _records(tx: Transaction, states: dict[int, RecordState]) -> list[BrowsedRecord]:
    """The records in these rows, in their order."""
    records = records_at(tx, states)
    recalls = {row["row"]: row for row in tx.execute("recalls_of", rows=as_json(list(states)))}
    return [
        BrowsedRecord(
            record=records[row],
            state=state,
            recalls=recalls[row]["times"] if row in recalls else 0,
            recalled_at=datetime.fromisoformat(recalls[row]["last"]) if row in recalls else None,
        )
        for row, state in states.items()
    ]
