"""Questions and results that were heard by themselves, until a turn or a conversation reports them.

A question is recorded when it is received, a result when its tool returns. What reports them later
says the same once more, and more of it: it completes their records and adds none.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from local.ledger.records import NewRecord, Written
from local.ledger.results import COMPARED, is_same_call, is_same_result, with_args_in_id
from local.ledger.sqlite.database import Row, SqlConnection
from local.ledger.sqlite.rows import RecordRows, TenantRows

MOST = 1_000
"""Of long results of one tool in a session no more are compared."""


class Received:
    """What one tenant received that nothing has reported yet."""

    def __init__(self, rows: TenantRows, records: RecordRows) -> None:
        self._rows = rows
        self._received = ReceivedRows(rows, records)

    async def store(self, record: NewRecord) -> Written:
        """Add what was heard, unless its turn has reported it before."""
        return await self._rows.write(lambda c: self._received.store(c, record))


class ReceivedRows:
    """The same, inside a transaction."""

    def __init__(self, rows: TenantRows, records: RecordRows) -> None:
        self._rows = rows
        self._records = records

    def store(self, connection: SqlConnection, record: NewRecord) -> Written:
        """Add what was heard, unless its turn has reported it before."""
        if record.kind == "tool_output" and record.query_id is not None:
            found = self._long_or_same(connection, "reported_result", record)
            if (row := _first_same(found, record)) is not None:
                self._rows.execute(connection, "received", id=row["id"])
                return Written(id=row["id"], was_new=False)
        return self._records.store(connection, record)

    def question(self, connection: SqlConnection, question: NewRecord) -> str | None:
        """The id of the question that a turn reports, if it is there.

        One that was received without a session or a query id gets the turn's.
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

    def result(self, connection: SqlConnection, result: NewRecord) -> Written | None:
        """The record of a result that was received before it is reported."""
        known = self._rows.execute(connection, "known_as", id=result.id).fetchone()
        if known is not None:
            return Written(id=known["id"], was_new=False)
        row = _first_same(self._long_or_same(connection, "pending_result", result), result)
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
            metadata=msgspec.json.encode(metadata).decode(),
        )
        return Written(id=row["id"], was_new=False)

    def under_its_own_id(self, connection: SqlConnection, result: NewRecord) -> NewRecord:
        """The result under another id where that is another call's."""
        if "args" not in result.metadata:
            return result
        known = self._rows.execute(connection, "known_result", id=result.id).fetchall()
        if not known or first_same_call(known, result) is not None:
            return result
        return with_args_in_id(result)

    def _long_or_same(
        self, connection: SqlConnection, statement: str, result: NewRecord
    ) -> Iterable[Row]:
        """Results of the tool in the session that have the same words, or are long as this one."""
        values: dict[str, Any] = {
            name: getattr(result, name)
            for name in ("owner", "session_id", "query_id", "label", "content")
        }
        long = len(result.content) >= COMPARED
        return self._rows.execute(
            connection, statement, **values, long=long, compared=COMPARED, limit=MOST
        )


def first_same_call(rows: Iterable[Row], result: NewRecord) -> Row | None:
    """The first that has the same arguments, else the first that can be the same call's."""
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
