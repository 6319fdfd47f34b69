"""Questions and results that were heard by themselves, until a turn or a conversation reports them.

A question is recorded when it is received, a result when its tool returns. What reports them later
says the same once more, and more of it: it completes their records and adds none.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from local.database import Connection, Row
from local.memory.ledger import Ledger
from local.memory.records import NewRecord, Written
from local.memory.rows import TenantRows
from local.protocol.ids import content_id

COMPARED = 3_000
"""Long results that begin with as many same characters are one: some are reported cut."""
MOST = 1_000
"""Of long results of one tool in a session no more are compared."""
PREVIEW = "[Output of "


class Received:
    """What one tenant received that nothing has reported yet."""

    def __init__(self, rows: TenantRows, ledger: Ledger) -> None:
        self._rows = rows
        self._ledger = ledger

    async def put(self, record: NewRecord) -> Written:
        """Add what was heard, unless its turn has reported it before."""
        return await self._rows.write(lambda c: self._put(c, record))

    def _put(self, connection: Connection, record: NewRecord) -> Written:
        if record.kind == "tool_output" and record.query_id is not None:
            found = self._long_or_same(connection, "reported_result", record)
            if (row := _first_same(found, record)) is not None:
                self._rows.execute(connection, "received", id=row["id"])
                return Written(id=row["id"], was_new=False)
        return self._ledger.add_in(connection, record)

    def question_in(self, connection: Connection, question: NewRecord) -> str | None:
        """The id of the question that a turn reports, if it is there; inside a write.

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

    def result_in(self, connection: Connection, result: NewRecord) -> Written | None:
        """The record of a result that was received before it is reported; inside a write."""
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

    def under_its_own_id(self, connection: Connection, result: NewRecord) -> NewRecord:
        """The result under another id where that is another call's; inside a write."""
        if "args" not in result.metadata:
            return result
        known = self._rows.execute(connection, "known_result", id=result.id).fetchall()
        if not known or first_same_call(known, result) is not None:
            return result
        return with_args_in_id(result)

    def _long_or_same(
        self, connection: Connection, statement: str, result: NewRecord
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


def is_same_result(one: str, other: str) -> bool:
    """Whether two texts are one result of a tool; either may be cut, or a preview."""
    if one == other:
        return True
    first, second = (_body(text)[:COMPARED] for text in (one, other))
    return first == second and len(first) == COMPARED


def is_same_call(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two results can be of one call by their metadata; what is heard may lack its args."""
    return "args" not in one or "args" not in other or bool(one["args"] == other["args"])


def with_args_in_id(result: NewRecord) -> NewRecord:
    """The result under the id that it has where another call's result has the one it came with.

    Calls may be numbered anew in every reply, and answer the same to other arguments. Only those
    behind the first of them have such ids, so that those of older ledgers go on matching.
    """
    args = msgspec.json.encode(result.metadata["args"], order="deterministic").decode()
    return msgspec.structs.replace(result, id=content_id(result.id, args))


def _body(text: str) -> str:
    """The result's own text, without the line that a preview begins with."""
    return text.partition("\n")[2] if text.startswith(PREVIEW) else text


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
