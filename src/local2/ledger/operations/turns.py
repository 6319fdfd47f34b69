"""Stores each turn once, with its newest answer, and the ratings of answers.

Three things keep a turn from being stored twice, however often it is sent or delivered:

- JetStream drops a message whose `Nats-Msg-Id` it has seen in the last two minutes
  (`generator/publication.py`, `bus/streams.py`)
- a record's id is made of its content, its session and its turn
  (`memory/intake/conversations.py`), and an id that is there is not inserted again (`ON CONFLICT`,
  `insert_records`)
- what was heard before its turn was reported is recognised and completed (`unreported.py`)
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby, islice
from typing import Any

import msgspec

from local2.ledger.engines import Row
from local2.ledger.operations.records import (
    Cause,
    is_there,
    relate,
    store_record,
    store_records,
    supersede,
)
from local2.ledger.operations.showings import Showing, ShownRecord, add_showing
from local2.ledger.operations.tombstones import erased_since, was_erased
from local2.ledger.operations.transactions import Part, Transaction, as_json, writes_of
from local2.ledger.operations.unreported import (
    report_question,
    report_result,
    with_unique_id,
)
from local2.ledger.records import DERIVED_FROM, NewRecord, Written, stamp
from local2.protocol.envelope import content_id, utc_now
from local2.protocol.memories import EPISODIC
from local2.protocol.payloads import Json

RECORDS_PER_TRANSACTION = 500
"""Maximum number of a turn's records in one transaction; all other writes wait for it."""
_REPORTED_COLUMNS = ("kind", "role", "label", "source_ref", "content")
"""The columns that distinguish a turn's records, together with the arguments of a call."""

_RATED_BY = ("owner", "query_id", "session_id")
"""What a rating names the answer by."""

_ANY = b"any"
"""In place of a call's arguments, which are an object, for the first call whatever they are."""

_Known = dict[tuple[tuple[Any, ...], bytes | None], Row]
"""The first record of a turn with these columns and arguments, which are None where unknown."""


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """Where a turn stands in the stream that delivered it, and when the stream stored it."""

    sequence: int
    at: datetime


class Rating(msgspec.Struct, frozen=True, kw_only=True):
    """A user's rating of the answer to a query; without a session id, in any session."""

    owner: str
    query_id: str
    session_id: str | None
    score: float
    comment: str | None
    event_time: datetime


class Turns(Part):
    """One tenant's turns."""

    @writes_of(lambda records, **_: [record.owner for record in records])
    def store(
        self,
        tx: Transaction,
        records: Sequence[NewRecord],
        *,
        derived_from: Sequence[str] = (),
        shown: Sequence[str] = (),
        delivered: Delivered | None = None,
    ) -> list[Written]:
        """Add the records of a turn, a part of them, or a note; the first is the episode, if any.

        A known record stays as it is. Another answer to the same query id replaces the older one,
        by time or else by arrival. Ratings that arrived early go to the first answer to a query id.
        `derived_from` are the ids of the records that the answer is based on, `shown` of those
        that were shown to the agent before it. `delivered`: where the turn belongs among those
        that other stacks store at the same time.
        """
        if was_erased(tx, records[0]):
            return [Written(id=record.id, was_new=False, erased=True) for record in records]
        question = next((record for record in records if record.id == record.turn), None)
        if question is not None:
            known_turn = report_question(tx, question)
            if known_turn not in {None, question.turn}:
                records = [msgspec.structs.replace(told, turn=known_turn) for told in records]
            if known_turn is not None:
                # Behind its question, and what is already stored of a turn with many calls; and
                # before the next question, which is stored when it is asked.
                around = tx.execute("question_position", id=known_turn).fetchone()
                if around["next_position"] is not None:
                    records = _between(records, around["last_position"], around["next_position"])
        if delivered is not None and tx.is_shared:
            records = self._in_stream_order(tx, records, delivered)
        # Read the known ones in one query: a turn may have thousands of calls.
        known: _Known = {}
        if len(records) > 1:
            refs = as_json([one.source_ref for one in records if one.source_ref is not None])
            for row in tx.execute("told_in_turn", turn=records[0].turn, source_refs=refs):
                columns = tuple(row[name] for name in _REPORTED_COLUMNS)
                known.setdefault((columns, _arguments(msgspec.json.decode(row["metadata"]))), row)
                known.setdefault((columns, _ANY), row)
        written: list[Written] = []
        for is_result, part in groupby(records, lambda record: record.role == "tool"):
            if is_result:
                written += [self._store_result(tx, record, known) for record in part]
            else:
                written += self._store_messages(tx, list(part), known)
        answer = written[0]
        if records[0].kind in EPISODIC and answer.was_new and not answer.superseded_by:
            if records[0].query_id is not None:  # ratings name it
                asked = {name: getattr(records[0], name) for name in _RATED_BY}
                waiting = tx.execute("waiting_ratings", **asked).fetchall()
                for row in waiting:
                    tx.execute("rate", **dict(row), answer=answer.id, is_just_given=True)
                if waiting or answer.replaced:  # ratings of an answer it replaces do not count
                    tx.execute("score_answer", answer=answer.id)
            for record, stored in zip(records, written, strict=True):
                if record.role == "tool":
                    continue
                if not stored.was_new and record.role == "user":  # the question was stored earlier
                    metadata = as_json(record.metadata)
                    tx.execute("annotate", id=stored.id, metadata=metadata)
                    for kind in record.tasks:  # again, now with the answer
                        tx.execute("queue_one", kind=kind, id=stored.id)
                for source in derived_from:
                    relate(tx, stored.id, DERIVED_FROM, source)
            if shown:
                before_answer = Showing(
                    owner=records[0].owner,
                    agent=records[0].agent,
                    session_id=records[0].session_id,
                    query_id=records[0].query_id,
                    answer=answer.id,
                    shown_at=records[0].event_time,
                    records=tuple(ShownRecord(id_) for id_ in dict.fromkeys(shown)),
                )
                add_showing(tx, before_answer)
        return written

    @writes_of(lambda rating: [rating.owner])
    def rate(self, tx: Transaction, rating: Rating) -> None:
        """Store a rating for the answer that was current when it was given; the last rating counts.

        One that was given before its owner erased everything, or the session, is dropped.
        The current answer is the newest one to the query id at that time, else the first later one.
        If there is none yet, the rating waits for the next answer.
        """
        values = msgspec.structs.asdict(rating) | {"event_time": stamp(rating.event_time)}
        if erased_since(tx, rating.owner, rating.session_id, values["event_time"]):
            return
        asked = {name: values[name] for name in _RATED_BY}
        found = (
            tx.execute("answer_at", **asked, event_time=values["event_time"]).fetchone()
            or tx.execute("first_answer", **asked).fetchone()
        )
        answer = found["id"] if found else None
        tx.execute("rate", **values, answer=answer, is_just_given=True)
        tx.execute("score_answer", answer=answer)

    def _in_stream_order(
        self, tx: Transaction, records: Sequence[NewRecord], delivered: Delivered
    ) -> Sequence[NewRecord]:
        """Put a turn before those of its session that were delivered later but stored earlier."""
        lead, turn = records[0], records[-1].turn
        if lead.session_id is None or turn is None:
            return records
        delivery = {"turn": turn, "sequence": delivered.sequence, "at": stamp(delivered.at)}
        session = {"owner": lead.owner, "session_id": lead.session_id}
        around = tx.execute("turns_around", **session, **delivery).fetchone()
        tx.execute("note_delivery", **delivery)
        if around["after"] is None:
            return records
        high = float(around["after"])
        low = high - 1
        if around["before"] is not None and around["before"] < high:
            low = max(low, float(around["before"]))
        return _between(records, low, high)

    def _store_messages(
        self, tx: Transaction, messages: Sequence[NewRecord], known: _Known
    ) -> list[Written]:
        """Store an episode, a note or messages; the new ones at once, which takes half the time."""
        before = [self._stored_before(tx, message, known) for message in messages]
        new = [message for message, stored in zip(messages, before, strict=True) if stored is None]
        added = iter(store_records(tx, new))
        return [stored or next(added) for stored in before]

    def _stored_before(self, tx: Transaction, message: NewRecord, known: _Known) -> Written | None:
        """What became of a message that is known, or that gives an answer again; None if new."""
        if message.turn is None:
            return None
        if message.kind == "episode" or message.role == "assistant":
            return self._answered_again(tx, message)
        return _known_as(message, known)

    def _store_result(self, tx: Transaction, record: NewRecord, known: _Known) -> Written:
        if same := _known_as(record, known):
            return same
        record = with_unique_id(tx, record)
        received = None
        if record.kind == "tool_output":
            received = report_result(tx, record)
        written = received or store_record(tx, record)
        if record.output is not None and written.was_new:
            tx.execute(
                "append_output",
                owner=record.owner,
                key=record.metadata["tool_output_key"],
                first=0,
                until=len(record.output),
                last=True,
                text=record.output,
            )
            tx.refuse_excess()
        return written

    def _answered_again(self, tx: Transaction, record: NewRecord) -> Written | None:
        active = tx.execute(
            "standing_answer", turn=record.turn, kind=record.kind, role=record.role
        ).fetchone()
        if active is None:
            return None
        if active["content"] == record.content:
            return Written(id=active["id"], was_new=False)
        event_time = stamp(record.event_time)
        if is_there(tx, record.id):
            if event_time <= active["event_time"]:
                return Written(id=record.id, was_new=False)
            new_id = content_id(record.id, event_time)  # an earlier answer is given again
            record = msgspec.structs.replace(record, id=new_id)
        store_record(tx, msgspec.structs.replace(record, stands_at=active["stands_at"]))
        cause = Cause.of(record, "its turn was answered again")
        if event_time < active["event_time"] <= stamp(utc_now()):  # a future time does not count
            supersede(tx, record.id, msgspec.structs.replace(cause, superseded_by=active["id"]))
            return Written(id=record.id, was_new=True, superseded_by=active["id"])
        supersede(tx, active["id"], cause)
        return Written(id=record.id, was_new=True, replaced=(active["id"],))


def parts_of(turn: Iterable[NewRecord]) -> Iterator[list[NewRecord]]:
    """The records of a turn in parts, each of which is stored in a transaction of its own.

    Of a turn with very many calls, results are stored first, with the question; the last part also
    has the episode. If it is interrupted, it is completed when it is delivered again.
    """
    records = iter(turn)
    lead = [next(records)]
    if lead[0].kind == "episode":
        lead.append(next(records))
    question = lead[-1]
    part = list(islice(records, RECORDS_PER_TRANSACTION))
    while following := list(islice(records, RECORDS_PER_TRANSACTION)):
        yield [question, *part]
        part = following
    yield [*lead, *part]


def _known_as(record: NewRecord, known: _Known) -> Written | None:
    """The record of the turn that says the same; None if there is none."""
    columns = tuple(getattr(record, name) for name in _REPORTED_COLUMNS)
    arguments = _arguments(record.metadata)
    # Without arguments on one side, it may be the same call, as in `is_same_call`.
    instead = _ANY if arguments is None else None
    same = known.get((columns, arguments)) or known.get((columns, instead))
    return Written(id=same["id"], was_new=False) if same else None


def _arguments(metadata: Json) -> bytes | None:
    """The arguments of a call, in a form that is the same for equal ones."""
    if "args" not in metadata:
        return None
    return msgspec.json.encode(metadata["args"], order="deterministic")


def _between(records: Sequence[NewRecord], low: float, high: float) -> list[NewRecord]:
    """The records at positions between two others, in their order."""
    step = (high - low) / (len(records) + 1)
    return [
        msgspec.structs.replace(record, stands_at=low + number * step)
        for number, record in enumerate(records, 1)
    ]
