"""Stores what is heard before its turn or conversation reports it, and completes it then.

A question is recorded when it is received, a tool result when the tool returns (the Listener). A
turn or conversation that reports them later completes these records instead of adding new ones.

Agents may report a tool result twice, cut, in another form, or without its arguments. This module
decides when two results are the same.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from local2.ledger.engines import Row
from local2.ledger.operations.records import columns_of, store_record
from local2.ledger.operations.transactions import Part, Transaction, as_json, record_of, writes_of
from local2.ledger.records import NewRecord, Written, features_of
from local2.protocol.envelope import content_id

LONG_RESULT = 3_000
"""Length in characters from which results are compared by their beginnings of this length only,
since some are reported cut."""
PREVIEW_START = "[Output of "
"""Beginning of the line that precedes a preview of a tool output."""
MAX_COMPARED = 1_000
"""Maximum number of results of one tool in a session that are compared with a new one."""
MAX_FORMS_COMPARED = 20
"""The same for results with other texts, which may differ in their form only."""


class Unreported(Part):
    """Messages and tool results that no turn or conversation has reported yet."""

    @writes_of(lambda record: [record.owner])
    def store(self, tx: Transaction, record: NewRecord) -> Written:
        """Add a received record, unless its turn has already reported it.

        A result that was reported is known by the id of the received one, which may be heard again.
        """
        if (known := tx.execute("known_as", id=record.id).fetchone()) is not None:
            return Written(id=known["id"], was_new=False)
        if record.kind == "tool_output" and record.query_id is not None:
            found = _possible_matches(tx, "reported_result", record)
            if (row := _first_same(found, record)) is not None:
                tx.execute("received", id=row["id"], alias=record.id)
                return Written(id=row["id"], was_new=False)
        return store_record(tx, record)


def report_question(tx: Transaction, question: NewRecord) -> str | None:
    """Mark the question that a turn reports as reported; return its id, None if not stored.

    A question received without session id or query id gets those of the turn.
    """
    known = tx.execute("known_as", id=question.id).fetchone()
    wanted = ("owner", "query_id", "session_id", "content", "source_ref")
    asked = {name: getattr(question, name) for name in wanted}
    if known is None and question.query_id is not None:
        known = tx.execute("known_question", **asked).fetchone()
    if known is not None:
        tx.execute("reported", id=known["id"])
        return str(known["id"])
    pending = tx.execute("pending_question", **asked).fetchone()
    if pending is None:
        return None
    tx.execute("adopt_question", **asked, id=pending["id"], alias=question.id)
    return str(pending["id"])


def report_result(tx: Transaction, result: NewRecord) -> Written | None:
    """Complete a tool result that was received before it is reported; None if it was not."""
    known = tx.execute("known_as", id=result.id).fetchone()
    if known is not None:
        return Written(id=known["id"], was_new=False)
    row = _first_same(_possible_matches(tx, "pending_result", result), result)
    if row is None:
        row = _first_in_another_form(tx, result)
    if row is None:
        return None
    received = msgspec.json.decode(row["metadata"])
    metadata = {**result.metadata, **received}
    pairs = None
    if metadata.get("args") != received.get("args"):  # it is found by its arguments, too
        stored = record_of(tx.execute("record_by_id", id=row["id"]).fetchone())
        completed = msgspec.structs.replace(stored, metadata=metadata)
        features = features_of(completed)
        pairs = columns_of(completed, features)["pairs"]
        tx.execute("renew_features", record=stored.row, **features._asdict())
    tx.execute(
        "report_result",
        id=row["id"],
        pairs=pairs,
        alias=result.alias or result.id,
        source_ref=result.source_ref,
        query_id=result.query_id,
        turn=result.turn,
        stands_at=result.stands_at,
        metadata=as_json(metadata),
    )
    return Written(id=row["id"], was_new=False)


def with_unique_id(tx: Transaction, result: NewRecord) -> NewRecord:
    """The result, with another id if a different call has its id."""
    if "args" not in result.metadata:
        return result
    known = tx.execute("known_result", id=result.id).fetchall()
    if not known or _first_same_call(known, result) is not None:
        return result
    return with_args_in_id(result)


def is_same_result(one: str, other: str) -> bool:
    """Whether two texts are the same tool result; either may be cut, or a preview."""
    if one == other:
        return True
    first, second = (
        (text.partition("\n")[2] if text.startswith(PREVIEW_START) else text)[:LONG_RESULT]
        for text in (one, other)
    )
    return first == second and len(first) == LONG_RESULT


def is_same_call(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two results may come from one call, by metadata; arguments may be missing."""
    return "args" not in one or "args" not in other or bool(one["args"] == other["args"])


def with_args_in_id(result: NewRecord) -> NewRecord:
    """The result with its arguments in its id, for when another call's result has its id.

    Agents may number calls anew in every reply, and calls with other arguments may return the same
    text. Only results after the first get such ids, so that ids in earlier exports still match.
    """
    args = msgspec.json.encode(result.metadata["args"], order="deterministic").decode()
    return msgspec.structs.replace(result, id=content_id(result.id, args))


def _possible_matches(tx: Transaction, statement: str, result: NewRecord) -> Iterable[Row]:
    """The tool's results in the session with the same text, or also long ones."""
    values: dict[str, Any] = {
        name: getattr(result, name)
        for name in ("owner", "session_id", "query_id", "label", "content")
    }
    long = len(result.content) >= LONG_RESULT
    return tx.execute(statement, **values, long=long, compared=LONG_RESULT, limit=MAX_COMPARED)


def _first_same_call(rows: Iterable[Row], result: NewRecord) -> Row | None:
    """The first row with the same arguments, else the first that may be the same call."""
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
    return _first_same_call(same, result)


def _first_in_another_form(tx: Transaction, result: NewRecord) -> Row | None:
    asked = {name: getattr(result, name) for name in ("owner", "session_id", "query_id", "label")}
    unformatted = _unformatted(result.content)
    rows = tx.execute("pending_results", **asked, limit=MAX_FORMS_COMPARED)
    same = (row for row in rows if _unformatted(row["content"]) == unformatted)
    return _first_same_call(same, result)


def _unformatted(text: str) -> str:
    """A result without its form: JSON written in one way, other text without blanks around it."""
    if text.lstrip().startswith(("{", "[")):
        with suppress(msgspec.DecodeError, RecursionError):
            value = msgspec.json.decode(text)
            return msgspec.json.encode(value, order="deterministic").decode()
    return text.strip()
