"""Stores lines of an export file in the ledger: ids decide, and existing records stay.

Where two records cannot both be active, the one of the newer time stays, and the other becomes
history.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from local.ledger.records import Record, with_features
from local.ledger.sqlite.database import SqlConnection
from local.ledger.sqlite.record_columns import as_json, record_of
from local.ledger.sqlite.rows import Cause, RecordRows, TenantRows
from local.ledger.sqlite.tombstones import Tombstones
from local.ledger.transfer import Importing
from local.protocol.items import NOTHING, path_text
from local.protocol.maintenance import Conflict, ImportReport
from local.protocol.portable import (
    AccessLine,
    AuditLine,
    FeedbackLine,
    ItemLine,
    Line,
    NoteLine,
    OutputLine,
    PlaceLine,
    RecordLine,
    RelationLine,
    Stored,
    StoredVector,
)
from local.protocol.reading import in_utc

REASON = "import"
"""In the audit: the reason of what was retired for an imported record."""
OF_RECORDS = tuple(name for name in RecordLine.__struct_fields__ if name != "vector")


class Imports:
    """One tenant's imports."""

    def __init__(
        self,
        rows: TenantRows,
        records: RecordRows,
        tombstones: Tombstones,
        held: Sequence[Callable[[], None]],
    ) -> None:
        """`held`: clears the parts of the ledger that hold records in memory."""
        self._rows = rows
        self._records = records
        self._tombstones = tombstones
        self._held = held

    async def store(
        self, lines: Sequence[Stored], by: Importing, *, dry_run: bool = False
    ) -> ImportReport:
        """Store lines, all or none; with `dry_run` none, and the report is what would be stored."""
        records = await asyncio.to_thread(_records_of, lines)

        def store(connection: SqlConnection) -> ImportReport:
            page = _Page(self._rows, self._records, self._tombstones, connection, by)
            for line in lines:
                page.store(line, records)
            if dry_run:
                raise _DryRunError(page.report)
            return page.report

        try:
            return await self._rows.write(store)
        except _DryRunError as done:
            return done.report
        finally:
            for forget in self._held:
                forget()


def _records_of(lines: Sequence[Stored]) -> dict[str, Record]:
    of_records = [line for line in lines if isinstance(line, RecordLine)]
    return {line.id: with_features(_record_of(line)) for line in of_records}


class _DryRunError(Exception):
    """Takes back what the transaction wrote."""

    def __init__(self, report: ImportReport) -> None:
        super().__init__()
        self.report = report


class _Page:
    """Lines that are stored inside one transaction."""

    def __init__(
        self,
        rows: TenantRows,
        records: RecordRows,
        tombstones: Tombstones,
        connection: SqlConnection,
        by: Importing,
    ) -> None:
        self._rows = rows
        self._records = records
        self._tombstones = tombstones
        self._connection = connection
        self._by = by
        self._sizes: dict[str, int] = {}
        self.report = ImportReport(new={}, known={}, conflicts=[])
        self._stores: dict[type[Line], Callable[[Any], bool | None]] = {
            PlaceLine: self._place,
            RelationLine: self._relation,
            FeedbackLine: self._feedback,
            NoteLine: lambda line: self._changed("import_note", line),
            OutputLine: lambda line: self._changed("import_output", line),
            AuditLine: self._audit,
            AccessLine: self._access,
            ItemLine: self._item,
        }

    def store(self, line: Stored, records: dict[str, Record]) -> None:
        """Store a line, and count its outcome."""
        if isinstance(line, RecordLine):
            was_new = self._record(line, records[line.id])
        elif isinstance(line, FeedbackLine | NoteLine | OutputLine | ItemLine) and (
            self._tombstones.stand_beside(self._connection, line)
        ):
            self.report.erased += 1
            return
        else:
            was_new = self._stores[type(line)](line)
            self.report.unplaced += was_new is None
        if was_new is not None:
            counts = self.report.new if was_new else self.report.known
            kind = str(line.__struct_config__.tag)
            counts[kind] = counts.get(kind, 0) + 1

    def _record(self, line: RecordLine, record: Record) -> bool | None:
        """Return whether it is new; None where it was erased here, and must not come back."""
        known = self._one("record_state", id=record.id)
        if known is not None:
            self._retire_known(record, active=known["superseded_by"] is None)
            return False
        if self._records.was_erased(self._connection, record, copied=True):
            self.report.erased += 1
            return None
        other = self._in_the_way(record)
        if other is not None:
            record = self._settled(record, other)
        self._records.add(self._connection, [record])
        if other is not None and record.superseded_by == other.id:
            self._note_history(record)
        if line.vector is not None and self._fits(line.vector):
            row = self._one("record_state", id=record.id)["row"]
            vector = {"embedder": line.vector.embedder, "data": line.vector.data}
            self._rows.execute(self._connection, "keep_vector", row=row, id=record.id, **vector)
        return True

    def _fits(self, vector: StoredVector) -> bool:
        """Return whether it is as long as the others of its embedder; if not, it is made again."""
        if vector.embedder not in self._sizes:
            known = self._one("vector_size", embedder=vector.embedder)
            self._sizes[vector.embedder] = known["size"] if known else len(vector.data)
        return self._sizes[vector.embedder] == len(vector.data)

    def _retire_known(self, record: Record, *, active: bool) -> None:
        """Retire a record here if the file knows its successor, which has yet to come."""
        newer = record.superseded_by
        if active and newer and not self._is_here(newer):
            cause = self._cause(newer)
            self.report.replaced += self._records.supersede(self._connection, record.id, cause)

    def _in_the_way(self, record: Record) -> Record | None:
        """Return the active record of its topic, or of its part of a document, if it is active."""
        if record.superseded_by is not None:
            return None
        if record.kind == "document_chunk":
            row = self._one("active_chunk", source_ref=record.source_ref)
            return record_of(row) if row else None
        return self._records.active_topic(self._connection, record)

    def _settled(self, record: Record, other: Record) -> Record:
        """Return the record to store beside another in its way; the older one is retired."""
        wins = record.event_time > other.event_time
        winner, history = (record, other) if wins else (other, record)
        if record.content != other.content:
            document = record.source_ref if record.kind == "document_chunk" else None
            self.report.conflicts.append(
                Conflict(kept=winner.id, history=history.id, topic=record.topic, document=document)
            )
        if wins:
            self._records.supersede(self._connection, other.id, self._cause(record.id))
            return record
        return msgspec.structs.replace(
            record, superseded_by=other.id, retired_at=self._by.at, retired_why="superseded"
        )

    def _note_history(self, record: Record) -> None:
        newer = record.superseded_by or ""
        self._records.note(
            self._connection,
            "superseded",
            record.id,
            self._cause(newer),
            {"superseded_by": newer},
        )

    def _cause(self, newer: str) -> Cause:
        by = self._by
        return Cause(agent=by.agent, superseded_by=newer, at=by.at, user=by.user, reason=REASON)

    def _place(self, line: PlaceLine) -> bool | None:
        if self._changed("set_place", line):
            return True
        return False if self._is_here(line.record) and self._is_here(line.at) else None

    def _relation(self, line: RelationLine) -> bool | None:
        """Return whether to store a relation; one of a record that was erased here is left out."""
        if not self._is_here(line.source):
            return None
        known = self._rows.execute(
            self._connection, "relate", source=line.source, type=line.relation, target=line.target
        )
        return known.rowcount > 0

    def _feedback(self, line: FeedbackLine) -> bool | None:
        if line.answer is not None and not self._is_here(line.answer):
            return None
        was_new = self._changed("import_feedback", line)
        asked = {"answer": line.answer, "score": line.score}
        if was_new and self._one("scored_otherwise", **asked) is not None:
            self._rows.execute(self._connection, "score_answer", answer=line.answer)
        return was_new

    def _audit(self, line: AuditLine) -> bool | None:
        if not self._is_here(line.record_id):
            return None
        detail = as_json(line.detail)
        return self._changed("import_audit", line, detail=detail)

    def _access(self, line: AccessLine) -> bool | None:
        if self._changed("import_access", line):
            return True
        return False if self._is_here(line.record) else None

    def _item(self, line: ItemLine) -> bool:
        """Store the newer of two items of one key, and retire the record of the other."""
        place = {"namespace": path_text(line.namespace), "key": line.key}
        known = self._one("item_state", owner=line.owner, collection=line.collection, **place)
        record = line.record if line.record and self._is_here(line.record) else None
        is_newer = known is None or line.updated_at > known["updated_at"]
        if is_newer:
            value = None if bytes(line.value) == bytes(NOTHING) else bytes(line.value)
            self._changed("import_item", line, **place, record=record, value=value)
        older, newer = (known and known["record"], record)[:: 1 if is_newer else -1]
        if older and older != newer:
            self._records.supersede(self._connection, older, self._cause(newer or ""))
        return is_newer

    def _is_here(self, record_id: str) -> bool:
        return self._one("record_state", id=record_id) is not None

    def _changed(self, statement: str, line: Line, **other: Any) -> bool:
        values = {**msgspec.structs.asdict(line), **other}
        changed = self._rows.execute(self._connection, statement, **values).rowcount > 0
        if changed:
            self._rows.refuse_excess(self._connection)
        return changed

    def _one(self, statement: str, **values: Any) -> Any:
        return self._rows.execute(self._connection, statement, **values).fetchone()


def _record_of(line: RecordLine) -> Record:
    columns = {name: getattr(line, name) for name in OF_RECORDS}
    for name in ("event_time", "retired_at"):
        columns[name] = columns[name] and in_utc(columns[name], name)
    return Record(**columns)
