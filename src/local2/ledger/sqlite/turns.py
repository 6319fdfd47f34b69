"""Stores each turn once, with its newest answer, and the ratings of answers.

A question is recorded when it is received, a tool result when the tool returns. A turn or
conversation that reports them later completes these records instead of adding new ones.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from local2.ledger.records import DERIVED_FROM, NewRecord, Written, principal_of, stamp
from local2.ledger.sessions import (
    LONG_RESULT,
    Rating,
    is_same_call,
    is_same_result,
    with_args_in_id,
)
from local2.ledger.sqlite.database import Row, SqlConnection
from local2.ledger.sqlite.record_rows import Cause, RecordRows
from local2.ledger.sqlite.rows import TenantRows, as_json
from local2.protocol.envelope import content_id, utc_now
from local2.protocol.memories import EPISODIC

MAX_COMPARED = 1_000
"""Maximum number of results of one tool in a session that are compared with a new one."""
RECORDS_PER_TRANSACTION = 500
"""Maximum number of a turn's records in one transaction; all other writes wait for it."""
_REPORTED_COLUMNS = ("kind", "role", "label", "source_ref", "content")
"""The columns that distinguish a turn's records, together with the arguments of a call."""

_Known = dict[tuple[Any, ...], list[Row]]


class Received:
    """Messages and tool results that no turn or conversation has reported yet."""

    def __init__(self, rows: TenantRows, received: "ReceivedRows") -> None:
        self._rows = rows
        self._received = received

    async def store(self, record: NewRecord) -> Written:
        """Add a received record, unless its turn has already reported it."""
        return await self._rows.write(lambda c: self._received.store(c, record))


class ReceivedRows:
    """The rows of received records; used inside a transaction."""

    def __init__(self, rows: TenantRows, records: RecordRows) -> None:
        self._rows = rows
        self._records = records

    def store(self, connection: SqlConnection, record: NewRecord) -> Written:
        """Add a received record, unless its turn has already reported it."""
        if record.kind == "tool_output" and record.query_id is not None:
            found = self._possible_matches(connection, "reported_result", record)
            if (row := _first_same(found, record)) is not None:
                self._rows.execute(connection, "received", id=row["id"])
                return Written(id=row["id"], was_new=False)
        return self._records.store(connection, record)

    def report_question(self, connection: SqlConnection, question: NewRecord) -> str | None:
        """Mark the question that a turn reports as reported; return its id, None if not stored.

        A question received without session id or query id gets those of the turn.
        """
        known = self._rows.execute(connection, "known_as", id=question.id).fetchone()
        wanted = ("owner", "query_id", "session_id", "content", "source_ref")
        asked = {name: getattr(question, name) for name in wanted}
        if known is None and question.query_id is not None:
            known = self._rows.execute(connection, "known_question", **asked).fetchone()
        if known is not None:
            self._rows.execute(connection, "reported", id=known["id"])
            return str(known["id"])
        pending = self._rows.execute(connection, "pending_question", **asked).fetchone()
        if pending is None:
            return None
        self._rows.execute(
            connection, "adopt_question", **asked, id=pending["id"], alias=question.id
        )
        return str(pending["id"])

    def report_result(self, connection: SqlConnection, result: NewRecord) -> Written | None:
        """Complete a tool result that was received before it is reported; None if it was not."""
        known = self._rows.execute(connection, "known_as", id=result.id).fetchone()
        if known is not None:
            return Written(id=known["id"], was_new=False)
        row = _first_same(self._possible_matches(connection, "pending_result", result), result)
        if row is None:
            return None
        metadata = {**result.metadata, **msgspec.json.decode(row["metadata"])}
        self._rows.execute(
            connection,
            "report_result",
            id=row["id"],
            alias=result.alias or result.id,
            source_ref=result.source_ref,
            query_id=result.query_id,
            turn=result.turn,
            stands_at=result.stands_at,
            metadata=as_json(metadata),
        )
        return Written(id=row["id"], was_new=False)

    def with_unique_id(self, connection: SqlConnection, result: NewRecord) -> NewRecord:
        """Return the result, with another id if a different call has its id."""
        if "args" not in result.metadata:
            return result
        known = self._rows.execute(connection, "known_result", id=result.id).fetchall()
        if not known or first_same_call(known, result) is not None:
            return result
        return with_args_in_id(result)

    def _possible_matches(
        self, connection: SqlConnection, statement: str, result: NewRecord
    ) -> Iterable[Row]:
        """Return the tool's results in the session with the same text, or also long ones."""
        values: dict[str, Any] = {
            name: getattr(result, name)
            for name in ("owner", "session_id", "query_id", "label", "content")
        }
        long = len(result.content) >= LONG_RESULT
        return self._rows.execute(
            connection, statement, **values, long=long, compared=LONG_RESULT, limit=MAX_COMPARED
        )


def first_same_call(rows: Iterable[Row], result: NewRecord) -> Row | None:
    """Return the first row with the same arguments, else the first that may be the same call."""
    first = None
    for row in rows:
        metadata = msgspec.json.decode(row["metadata"])
        if metadata.get("args") == result.metadata.get("args"):
            return row
        if first is None and is_same_call(metadata, result.metadata):
            first = row
    return first


def _first_same(rows: Iterable[Row], result: NewRecord) -> Row | None:
    same = (row for row in rows if is_same_result(row["content"], result.content))
    return first_same_call(same, result)


class Turns:
    """One tenant's turns."""

    def __init__(self, rows: TenantRows, records: RecordRows, received: ReceivedRows) -> None:
        self._rows = rows
        self._records = records
        self._received = received

    async def store(
        self, records: Sequence[NewRecord], *, derived_from: Sequence[str] = ()
    ) -> list[Written]:
        """Add the records of a turn, or a note; the first of them is its episode, if any.

        A known record stays as it is. Another answer to the same query id replaces the older one,
        by time or else by arrival. Ratings that arrived early go to the first answer to a query id.
        `derived_from` are the ids of the records that the answer is based on. The results of a turn
        with very many calls are stored first, in separate transactions; an interrupted turn is
        completed when it is delivered again.
        """
        lead = [one for one in records[:2] if one.kind == "episode" or one.id == one.turn]
        question = [one for one in lead if one.kind != "episode"]
        begin, end = len(lead), max(len(records) - RECORDS_PER_TRANSACTION, len(lead))
        early: list[Written] = []
        for start in range(begin, end, RECORDS_PER_TRANSACTION):
            part = [*question, *records[start : min(start + RECORDS_PER_TRANSACTION, end)]]
            early += (await self._write(part, ()))[len(question) :]
        rest = await self._write([*lead, *records[end:]], derived_from)
        return [*rest[:begin], *early, *rest[begin:]]

    async def rate(self, rating: Rating) -> None:
        """Store a rating for the answer that was current when it was given; the last rating counts.

        The current answer is the newest one to the query id at that time, else the first later one.
        If there is none yet, the rating waits for the next answer.
        """
        await self._rows.write(lambda c: self._rate(c, rating))

    async def _write(
        self, records: Sequence[NewRecord], derived_from: Sequence[str]
    ) -> list[Written]:
        return await self._rows.write(lambda c: self._store(c, records, derived_from))

    def _store(
        self, connection: SqlConnection, records: Sequence[NewRecord], derived_from: Sequence[str]
    ) -> list[Written]:
        if self._records.was_erased(connection, records[0]):
            return [Written(id=one.id, was_new=False, erased=True) for one in records]
        records = self._in_known_turn(connection, records)
        known = self._known_records(connection, records)
        written = [self._store_record(connection, record, known) for record in records]
        answer = written[0]
        if records[0].kind in EPISODIC and answer.was_new and not answer.superseded_by:
            self._give_ratings(connection, records[0], answer)
            for record, one in zip(records, written, strict=True):
                self._annotate(connection, record, one, derived_from)
        return written

    def _annotate(
        self, connection: SqlConnection, record: NewRecord, one: Written, sources: Sequence[str]
    ) -> None:
        """Apply what a new answer changes in its turn, including in a question stored earlier."""
        if record.role == "tool":
            return
        if not one.was_new and record.role == "user":
            metadata = as_json(record.metadata)
            self._rows.execute(connection, "annotate", id=one.id, metadata=metadata)
            for kind in record.tasks:  # again, now with the answer
                self._rows.execute(connection, "add_task_again", kind=kind, id=one.id)
        for source in sources:
            self._records.relate(connection, one.id, DERIVED_FROM, source)

    def _in_known_turn(
        self, connection: SqlConnection, records: Sequence[NewRecord]
    ) -> Sequence[NewRecord]:
        """Return the records with the id of the stored question as their turn, if it is stored."""
        for record in records:
            if record.id == record.turn:
                known = self._received.report_question(connection, record)
                if known not in {None, record.turn}:
                    return [msgspec.structs.replace(one, turn=known) for one in records]
        return records

    def _known_records(self, connection: SqlConnection, records: Sequence[NewRecord]) -> _Known:
        """Read all known records of the turn in one query: it may have thousands of calls."""
        known: _Known = {}
        if len(records) > 1:
            for row in self._rows.execute(connection, "told_in_turn", turn=records[0].turn):
                known.setdefault(tuple(row[name] for name in _REPORTED_COLUMNS), []).append(row)
        return known

    def _store_record(self, connection: SqlConnection, record: NewRecord, known: _Known) -> Written:
        if record.turn is None:
            return self._records.store(connection, record)
        if record.kind == "episode" or record.role == "assistant":
            return self._store_answer(connection, record)
        alike = known.get(tuple(getattr(record, name) for name in _REPORTED_COLUMNS), ())
        if (same := first_same_call(alike, record)) is not None:
            return Written(id=same["id"], was_new=False)
        record = self._received.with_unique_id(connection, record)
        received = None
        if record.kind == "tool_output":
            received = self._received.report_result(connection, record)
        return received or self._records.store(connection, record)

    def _store_answer(self, connection: SqlConnection, record: NewRecord) -> Written:
        active = self._rows.execute(
            connection, "standing_answer", turn=record.turn, kind=record.kind, role=record.role
        ).fetchone()
        if active is None:
            return self._records.store(connection, record)
        if active["content"] == record.content:
            return Written(id=active["id"], was_new=False)
        event_time = stamp(record.event_time)
        if self._rows.execute(connection, "is_there", id=record.id).fetchone():
            if event_time <= active["event_time"]:
                return Written(id=record.id, was_new=False)
            new_id = content_id(record.id, event_time)  # an earlier answer is given again
            record = msgspec.structs.replace(record, id=new_id)
        self._records.store(
            connection, msgspec.structs.replace(record, stands_at=active["stands_at"])
        )
        if event_time < active["event_time"] <= stamp(utc_now()):  # a future time does not count
            self._supersede(connection, record.id, by=active["id"], like=record)
            return Written(id=record.id, was_new=True, superseded_by=active["id"])
        self._supersede(connection, active["id"], by=record.id, like=record)
        return Written(id=record.id, was_new=True, replaced=(active["id"],))

    def _supersede(
        self, connection: SqlConnection, record_id: str, *, by: str, like: NewRecord
    ) -> None:
        cause = Cause(
            agent=like.agent,
            superseded_by=by,
            at=like.event_time,
            user=principal_of(like),
            reason="its turn was answered again",
        )
        self._records.supersede(connection, record_id, cause)

    def _give_ratings(self, connection: SqlConnection, episode: NewRecord, answer: Written) -> None:
        """Assign waiting ratings to a new answer; ratings of an answer it replaces do not count."""
        asked = {key: getattr(episode, key) for key in ("owner", "query_id", "session_id")}
        waiting = self._rows.execute(connection, "waiting_ratings", **asked).fetchall()
        for row in waiting:
            self._rows.execute(connection, "rate", **dict(row), answer=answer.id)
        if waiting or answer.replaced:
            self._rows.execute(connection, "score_answer", answer=answer.id)

    def _rate(self, connection: SqlConnection, rating: Rating) -> None:
        values = msgspec.structs.asdict(rating) | {"event_time": stamp(rating.event_time)}
        asked = {key: values[key] for key in ("owner", "query_id", "session_id")}
        found = (
            self._rows.execute(
                connection, "answer_at", **asked, event_time=values["event_time"]
            ).fetchone()
            or self._rows.execute(connection, "first_answer", **asked).fetchone()
        )
        answer = found["id"] if found else None
        self._rows.execute(connection, "rate", **values, answer=answer)
        self._rows.execute(connection, "score_answer", answer=answer)
