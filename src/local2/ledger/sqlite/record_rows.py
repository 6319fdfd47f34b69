"""Writes records, inside one transaction. Every record that is stored passes through here."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from local2.keys import fold_topic
from local2.language.features import Features, pairs_of
from local2.ledger.records import (
    ACTIVE_RECORD_TASKS,
    NewRecord,
    Record,
    TaskKind,
    Written,
    features_of,
    principal_of,
    source_class_of,
    stamp,
)
from local2.ledger.sqlite.database import Row, SqlConnection
from local2.ledger.sqlite.rows import TenantRows, as_json, record_of
from local2.protocol.envelope import utc_now
from local2.protocol.memories import RetirementReason
from local2.protocol.payloads import Json

NO_STATE = dict.fromkeys(Record.__struct_fields__)
"""The columns of a new record's state, all empty."""


def columns_of(record: NewRecord, features: Features) -> dict[str, Any]:
    """Return the columns of a new or stored record."""
    values = {**NO_STATE, **msgspec.structs.asdict(record)}
    values["metadata"] = as_json(record.metadata)
    values["event_time"] = stamp(record.event_time)
    values["folded_topic"] = fold_topic(record.topic) if record.topic else None
    values["source_class"] = source_class_of(record)
    if isinstance(record, Record):
        values["retired_at"] = stamp(record.retired_at) if record.retired_at else None
    else:
        values["stated_by"] = principal_of(record)
    now = utc_now()
    stored_at = values["stored_at"] or (now if record.event_time > now else None)
    values["stored_at"] = stored_at and stamp(stored_at)
    values["pairs"] = pairs_of(features.stems)
    values["keywords"], values["queries"] = as_json(record.keywords), as_json(record.queries)
    return values


def tasks_of(record: NewRecord) -> tuple[TaskKind, ...]:
    """Return a new record's tasks; transcripts and the memory type `task` are not indexed."""
    if isinstance(record, Record) and record.superseded_by is not None:
        return ()
    unindexed = record.kind == "transcript" or record.memory_type == "task"
    return record.tasks if unindexed else ("index", *record.tasks)


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why a record is retired, by whom and when, for the audit.

    `superseded_by` is empty if nothing replaces the record. Changes of a `run` are undone together.
    """

    agent: str | None
    superseded_by: str
    at: datetime
    user: str | None = None
    why: RetirementReason = "superseded"
    reason: str | None = None
    run: str | None = None

    @classmethod
    def of(cls, newer: NewRecord) -> "Cause":
        """Return the cause for a record that a newer one replaces."""
        return cls(
            agent=newer.agent,
            superseded_by=newer.id,
            at=newer.event_time,
            user=principal_of(newer),
            reason="a newer version was stored",
        )


class WasErased(Protocol):
    """Returns whether a record was erased and must not be stored again; `copied`: by an import."""

    def __call__(
        self, connection: SqlConnection, record: NewRecord, *, copied: bool = False
    ) -> bool: ...


class RecordRows:
    """One tenant's records: a fact has a history of versions, any other id exists once."""

    def __init__(self, rows: TenantRows, was_erased: WasErased) -> None:
        self._rows = rows
        self.was_erased = was_erased

    def store(self, connection: SqlConnection, record: NewRecord) -> Written:
        """Add a record unless its id exists already, or it was erased."""
        return self.store_each(connection, [record])[0]

    def store_each(self, connection: SqlConnection, records: Sequence[NewRecord]) -> list[Written]:
        """Add records except those whose ids exist or were erased."""
        erased = [self.was_erased(connection, record) for record in records]
        allowed = [record for record, gone in zip(records, erased, strict=True) if not gone]
        added = iter(self.add(connection, allowed))
        return [
            Written(id=record.id, was_new=False, erased=True) if gone else next(added)
            for record, gone in zip(records, erased, strict=True)
        ]

    def add(self, connection: SqlConnection, records: Sequence[NewRecord]) -> list[Written]:
        """Add records that were not erased, except those whose ids exist; one statement per table.

        A Record, rather than a NewRecord, is added with its state.
        """
        wanted: dict[str, NewRecord] = {}
        for record in records:
            wanted.setdefault(record.id, record)
        rows = self._insert(connection, wanted) if wanted else {}
        return [Written(id=one.id, was_new=rows.pop(one.id, None) is not None) for one in records]

    def _insert(
        self, connection: SqlConnection, records: Mapping[str, NewRecord]
    ) -> dict[str, int]:
        """Add the records whose ids are new; return their rows by id."""
        features = {id_: one.features or features_of(one) for id_, one in records.items()}
        last = self._rows.execute(connection, "last_row").fetchone()["last"]
        columns = (columns_of(record, features[id_]) for id_, record in records.items())
        self._rows.execute(connection, "staging")
        self._rows.execute_each(connection, "stage_record", columns)
        self._rows.execute(connection, "insert_records")
        self._rows.execute(connection, "clear_staging")
        found = self._rows.execute(connection, "rows_added", last=last)
        rows: dict[str, int] = {row["id"]: row["row"] for row in found}
        if rows:
            self._rows.refuse_excess(connection)
        feature_rows = ({"record": row, **features[id_]._asdict()} for id_, row in rows.items())
        self._rows.execute_each(connection, "keep_features", feature_rows)
        tasks: defaultdict[TaskKind, list[int]] = defaultdict(list)
        for id_, row in rows.items():
            for kind in tasks_of(records[id_]):
                tasks[kind].append(row)
        for kind, rows_of_kind in tasks.items():
            self._rows.execute(connection, "add_tasks", kind=kind, rows=as_json(rows_of_kind))
        return rows

    def store_fact(
        self,
        connection: SqlConnection,
        record: NewRecord,
        *,
        owners: Collection[str] = (),
        again: bool = False,
    ) -> Written:
        """Make a record an active fact; if it has a topic, the only active fact of that topic.

        A fact with the same words is not written again; with `again`, it is replaced. Facts of the
        topic of these `owners`, by default only the record's own, are replaced.
        """
        if self.was_erased(connection, record):
            return Written(id=record.id, was_new=False, erased=True)
        record = self._with_known_topic(connection, record)
        topic = fold_topic(record.topic) if record.topic else None
        place = {"scope": record.scope, "owner": record.owner, "topic": topic}
        same = self._rows.execute(
            connection, "same_fact", **place, content=record.content
        ).fetchone()
        if same is not None and topic in {None, same["folded_topic"]} and not again:
            return Written(id=same["id"], was_new=False, topic=record.topic)
        older = [
            self._rows.execute(connection, "active_topic", **{**place, "owner": owner}).fetchone()
            for owner in sorted(owners or {record.owner}, reverse=True)
        ]
        replaced = [row["id"] for row in (*older, same) if row is not None]
        for record_id in replaced:
            self.supersede(connection, record_id, Cause.of(record))
        self.add(connection, [record])
        return Written(id=record.id, was_new=True, replaced=tuple(replaced), topic=record.topic)

    def active_topic(self, connection: SqlConnection, record: NewRecord) -> Record | None:
        """Return the active fact of a record's topic, if there is one."""
        if record.topic is None:
            return None
        place = {"scope": record.scope, "owner": record.owner, "topic": fold_topic(record.topic)}
        row = self._rows.execute(connection, "active_topic", **place).fetchone()
        return record_of(row) if row else None

    def _with_known_topic(self, connection: SqlConnection, record: NewRecord) -> NewRecord:
        """Return the record with its topic as first spelled."""
        if record.topic is None:
            return record
        place = {"scope": record.scope, "owner": record.owner, "topic": fold_topic(record.topic)}
        known = self._rows.execute(connection, "topic_as_written", **place).fetchone()
        return msgspec.structs.replace(record, topic=known["topic"]) if known else record

    def supersede(self, connection: SqlConnection, record_id: str, cause: Cause) -> bool:
        """Retire a record; return False if it is no longer active."""
        changed = self._rows.execute(
            connection,
            "supersede",
            id=record_id,
            superseded_by=cause.superseded_by,
            retired_at=stamp(cause.at),
            noted_at=stamp(utc_now()),
            why=cause.why,
        ).fetchall()
        if changed:
            row = changed[0]["row"]
            self._rows.execute(
                connection, "withdraw_tasks", row=row, kinds=as_json(ACTIVE_RECORD_TASKS)
            )
            self._rows.execute(connection, "add_task", kind="unindex", row=row)
            self.add_to_audit(
                connection, cause.why, record_id, cause, {"superseded_by": cause.superseded_by}
            )
        return bool(changed)

    def restore(self, connection: SqlConnection, retired: Row) -> bool:
        """Make a retired fact active again; return False if another active fact has its topic."""
        if retired["folded_topic"]:
            place = {"scope": retired["scope"], "owner": retired["owner"]}
            topic = retired["folded_topic"]
            if self._rows.execute(connection, "active_topic", **place, topic=topic).fetchone():
                return False
        self._rows.execute(connection, "restore", id=retired["id"])
        row = retired["row"]
        self._rows.execute(connection, "withdraw_tasks", row=row, kinds=as_json(["unindex"]))
        self._rows.execute(connection, "index_active", row=row)
        return True

    def add_to_audit(
        self, connection: SqlConnection, action: str, record_id: str, cause: Cause, detail: Json
    ) -> None:
        """Add a change of state to the audit; `detail` holds what is needed to undo it."""
        self._rows.execute(
            connection,
            "insert_audit",
            action=action,
            record_id=record_id,
            agent=cause.agent,
            user=cause.user,
            reason=cause.reason,
            run=cause.run,
            detail=as_json(detail),
            event_time=stamp(cause.at),
        )

    def relate(self, connection: SqlConnection, source: str, type_: str, target: str) -> None:
        """Store a relation between two records, unless it exists."""
        self._rows.execute(connection, "relate", source=source, type=type_, target=target)
