"""Stores conversations: each message once, with its newest version active if it was edited."""

from collections.abc import Callable, Mapping, Sequence
from typing import Self

import msgspec

from local2.errors import QuotaError, StorageError
from local2.ledger.engines import Row
from local2.ledger.operations.records import (
    RECORDS_PER_TRANSACTION,
    Cause,
    add_records,
    supersede,
)
from local2.ledger.operations.tombstones import was_erased
from local2.ledger.operations.transactions import Part, Transaction, as_json, reads, writes_of
from local2.ledger.operations.unreported import (
    is_same_call,
    is_same_result,
    report_result,
    with_args_in_id,
)
from local2.ledger.records import NewRecord, Written, principal_of
from local2.protocol.envelope import content_id, utc_now
from local2.protocol.payloads import Json

POSITION_STEP = 1 / 1024
"""Distance between a message and a new one inserted after it, if other messages already follow."""


class Conversations(Part):
    """One tenant's conversations, as agents report them."""

    async def store(
        self,
        records: Sequence[NewRecord],
        announce: Callable[[Sequence[Written], Sequence[NewRecord]], None] = lambda *_: None,
    ) -> list[Written]:
        """Add the records of a session; many records take several transactions.

        `announce` is called with what each of them has stored. An existing record stays as it is. A
        record with the same id and another text replaces the active version, which becomes history:
        the last reported text is the active one.

        Raises:
            StorageError, QuotaError: The ledger refused; if some are stored, the message says so.
        """
        ids = [record.alias or record.id for record in records if not _is_known_by_call(record)]
        has_edits = len(set(ids)) < len(ids)
        known = await self._known_versions(records) if has_edits else set[int]()
        written: list[Written] = []
        for start in range(0, len(records), RECORDS_PER_TRANSACTION):
            part = records[start : start + RECORDS_PER_TRANSACTION]
            are_known = [number in known for number in range(start, start + len(part))]
            try:
                new = await self._write(part, are_known)
            except (QuotaError, StorageError) as error:
                if not start:
                    raise
                stored = f"The first {start:,} of {len(records):,} records of the conversation are"
                message = f"{error.message} {stored} stored; sent again, it is completed."
                raise type(error)(message, remedy=error.remedy) from error
            announce(new, part)
            written += new
        return written

    @writes_of(lambda records, _: [record.owner for record in records])
    def _write(
        self, tx: Transaction, records: Sequence[NewRecord], are_known: Sequence[bool]
    ) -> list[Written]:
        return _SessionWriter(tx, records).store_all(are_known)

    @reads
    def _known_versions(self, tx: Transaction, records: Sequence[NewRecord]) -> set[int]:
        """The positions in `records` of versions that are stored already.

        These are a message's versions up to the last one that equals the active version. Without
        this check, a conversation with edits would add versions whenever it is sent again.
        """
        versions: dict[str, list[int]] = {}
        for number, record in enumerate(records):
            if not _is_known_by_call(record):
                versions.setdefault(record.alias or record.id, []).append(number)
        edited = [numbers for numbers in versions.values() if len(numbers) > 1]
        active = _active(tx, [records[number] for numbers in edited for number in numbers])
        known: set[int] = set()
        for numbers in edited:
            current = _find(active, records[numbers[0]])
            same = [
                n
                for n, number in enumerate(numbers)
                if current and current.repeats(records[number])
            ]
            known.update(numbers[: same[-1] + 1] if same else ())
        return known


class _Active(msgspec.Struct, frozen=True, kw_only=True):
    """The active version of a message."""

    id: str
    kind: str
    content: str
    metadata: Json

    @classmethod
    def from_row(cls, row: Row) -> Self:
        metadata = msgspec.json.decode(row["metadata"])
        return cls(id=row["id"], kind=row["kind"], content=row["content"], metadata=metadata)

    def repeats(self, record: NewRecord) -> bool:
        """Whether the record has the same content; older ledgers did not store the parts."""
        if self.kind == record.kind == "tool_output":
            return is_same_result(self.content, record.content)
        parts = self.metadata.get("parts")
        same = parts is None or parts == record.metadata.get("parts")
        return same and self.content == record.content


class _SessionWriter:
    """Writes some records of a session inside one transaction, in order.

    New messages are collected, and added together before anything else is written or read.
    """

    def __init__(
        self,
        tx: Transaction,
        records: Sequence[NewRecord],
    ) -> None:
        self._tx = tx
        self._here = records
        self._new: list[NewRecord] = []
        self._done: list[Written] = []
        self._active = _active(tx, records)
        known = [
            (number, active)
            for number, record in enumerate(records if self._active else ())
            if (active := _find(self._active, self._with_unique_id(record)))
        ]
        self._last_known = known[-1][0] if known else -1
        self._first_known = known[0][1] if known else None
        self._previous_id: str | None = None

    def store_all(self, known: Sequence[bool]) -> list[Written]:
        for number, (record, is_known) in enumerate(zip(self._here, known, strict=True)):
            self._store(number, self._with_unique_id(record), is_known=is_known)
        self._add_new()
        return self._done

    def _store(self, number: int, record: NewRecord, *, is_known: bool) -> None:
        current = _find(self._active, record)
        followed = number < self._last_known
        erased = was_erased(self._tx, record)
        if current is None and not (erased or followed or record.kind == "tool_output"):
            self._new.append(record)
            self._mark_active(record.id, record)
            return
        self._add_new()
        if erased:
            self._done.append(Written(id=record.id, was_new=False, erased=True))
            return
        if current is None:
            written = self._add(record, followed=followed)
        elif is_known or current.repeats(record):
            written = Written(id=current.id, was_new=False)
        else:
            written = self._replace(current, record)
        self._done.append(written)
        self._mark_active(written.id, record)

    def _add_new(self) -> None:
        if self._new:
            self._done += add_records(self._tx, self._new)
            self._new = []

    def _mark_active(self, id_: str, record: NewRecord) -> None:
        self._previous_id = id_
        newest = _Active(id=id_, kind=record.kind, content=record.content, metadata=record.metadata)
        self._active[record.id] = newest
        if record.alias is not None:
            self._active[record.alias] = newest

    def _with_unique_id(self, record: NewRecord) -> NewRecord:
        """The record; a tool result gets another id if a different call has its id."""
        current = self._active.get(record.id) if _is_known_by_call(record) else None
        if current is None or is_same_call(current.metadata, record.metadata):
            return record
        return with_args_in_id(record)

    def _add(self, record: NewRecord, *, followed: bool) -> Written:
        """Add a new record, or complete the one that was received before it is reported here."""
        if record.kind == "tool_output":
            placed = msgspec.structs.replace(record, stands_at=self._next_position())
            if (known := report_result(self._tx, placed)) is not None:
                return known
        if followed:
            record = msgspec.structs.replace(record, stands_at=self._next_position())
        return add_records(self._tx, [record])[0]

    def _replace(self, older: _Active, record: NewRecord) -> Written:
        newer = msgspec.structs.replace(
            record,
            id=content_id(older.id, record.content, record.metadata.get("parts")),
            stands_at=self._position(older.id),
        )
        cause = Cause(
            agent=record.agent,
            superseded_by=newer.id,
            at=utc_now(),
            user=principal_of(record),
            reason="the message was edited",
        )
        supersede(self._tx, older.id, cause)
        add_records(self._tx, [newer])  # what may be stored is; an erased version had its id, too
        return Written(id=newer.id, was_new=True, replaced=(older.id,))

    def _next_position(self) -> float | None:
        """The position after the previous record, at first that before the first known."""
        if self._previous_id is not None:
            return self._position(self._previous_id) + POSITION_STEP
        return None if self._first_known is None else self._position(self._first_known.id) - 0.5

    def _position(self, record_id: str) -> float:
        row = self._tx.execute("position_of", id=record_id).fetchone()
        return float(row["position"])


def _active(tx: Transaction, records: Sequence[NewRecord]) -> dict[str, _Active]:
    """The active versions of messages, by each id and alias of these."""
    ids = [id_ for record in records for id_ in (record.id, record.alias) if id_ is not None]
    ids += [with_args_in_id(record).id for record in records if _is_known_by_call(record)]
    found = tx.execute("known_messages", ids=as_json(ids))
    return {row["asked"]: _Active.from_row(row) for row in found}


def _is_known_by_call(record: NewRecord) -> bool:
    """Whether the record is a result that only its call distinguishes from others."""
    return record.alias is None and "args" in record.metadata


def _find(active: Mapping[str, _Active], record: NewRecord) -> _Active | None:
    return active.get(record.id) or active.get(record.alias or "")
