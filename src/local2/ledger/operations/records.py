"""Stores and reads records of any kind. Every record that is stored passes through here.

A fact has a history of versions; any other id exists once.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from local2.keys import fold_topic
from local2.language.features import Features, pairs_of
from local2.language.writings import other_writings
from local2.ledger.engines import Row
from local2.ledger.operations.places import users_of_places
from local2.ledger.operations.tombstones import was_erased
from local2.ledger.operations.transactions import (
    WRITERS,
    Part,
    Transaction,
    as_json,
    reads,
    record_of,
    records_at,
    records_of,
)
from local2.ledger.records import (
    ACTIVE_RECORD_TASKS,
    DERIVED_FROM,
    Actor,
    NewRecord,
    Record,
    Said,
    Shown,
    TaskKind,
    Usage,
    Written,
    further_names_of,
    principal_of,
    source_class_of,
    stamp,
)
from local2.protocol.envelope import content_id, utc_now
from local2.protocol.memories import RetirementReason
from local2.protocol.payloads import Json

RECORDS_PER_TRANSACTION = 1_000
"""Maximum number of records in one transaction; so many take about a fifth of a second."""
NAMING = ("superseded_by", "merged", "target", "messages", "targets")
"""Parts of a detail in the audit that name other records: one, or a list of them."""
NO_STATE = dict.fromkeys(Record.__struct_fields__)
"""The columns of a new record's state, all empty."""


class Records(Part):
    """One tenant's records."""

    async def store(self, records: Sequence[NewRecord]) -> list[Written]:
        """Add records; records whose ids exist already stay as they are.

        Many records take several transactions, so that other writes do not wait long.
        """
        written: list[Written] = []
        for start in range(0, len(records), RECORDS_PER_TRANSACTION):
            part = records[start : start + RECORDS_PER_TRANSACTION]
            written += await self._rows.resting_on(()).write(store_records, part)
        return written

    @reads
    def at(self, tx: Transaction, rows: Sequence[int]) -> list[Record]:
        """The records in these rows."""
        return list(records_at(tx, rows).values())

    @reads
    def by_id(self, tx: Transaction, ids: Sequence[str]) -> dict[str, Record]:
        """The records with these ids, active or not, by id."""
        rows = (tx.execute("record_by_id", id=id_).fetchone() for id_ in ids)
        return {row["id"]: record_of(row) for row in rows if row is not None}

    @reads
    def chain(self, tx: Transaction, *record_ids: str) -> list[Record]:
        """All versions of these records, the newest first."""
        return records_of(tx.execute("chain", ids=as_json(record_ids)))

    @reads
    def users(self, tx: Transaction, limit: int) -> list[str]:
        """Up to about `limit` users with personal memories; "" stands for no user."""

        def next_place(after: str, until: str) -> str | None:
            asked = {"after": after, "until": until}
            row = tx.execute("next_place", **asked).fetchone()
            return row["place"] if row else None

        users = users_of_places(tx.tenant, next_place)
        return list(dict.fromkeys(islice(users, limit)))

    @reads
    def shown(
        self,
        tx: Transaction,
        record_ids: Sequence[str],
        *,
        excluded_turn: str | None,
        characters: int,
    ) -> list[Shown]:
        """The beginnings of these records, of those in their turns, and of their sources.

        `excluded_turn` is a turn whose records are left out.
        """
        rows = tx.execute(
            "shown",
            ids=as_json(record_ids),
            turn=excluded_turn,
            characters=characters,
            derived_from=DERIVED_FROM,
        )
        return [Shown(id=row["id"], content=row["content"]) for row in rows]

    @reads
    def some_said(self, tx: Transaction, limit: int, known: object = None) -> Said | None:
        """The beginnings of people's messages among some records.

        None if nothing was committed since the version `known` of the ledger.
        """
        version = tx.version().number
        if version == known:
            return None
        rows = tx.execute("some_said", limit=limit).fetchall()
        return Said(version, [row["content"] for row in rows])

    @reads
    def usage(self, tx: Transaction) -> Usage:
        """How much the tenant stores, without counting it."""
        row = tx.execute("used").fetchone()
        return Usage(records=row["records"] if row else 0, bytes=row["bytes"] if row else 0)


def columns_of(record: NewRecord, features: Features) -> dict[str, Any]:
    """The columns of a new or stored record."""
    values = {**NO_STATE, **msgspec.structs.asdict(record)}
    values["folded_topic"] = fold_topic(record.topic) if record.topic else None
    values["source_class"] = source_class_of(record)
    if not isinstance(record, Record):
        values["stated_by"] = principal_of(record)
    now = utc_now()
    values["stored_at"] = values["stored_at"] or (now if record.event_time > now else None)
    called = further_names_of(record)
    texts = (record.content, record.topic, record.label, called)
    written = (" ".join(other_writings(text)) for text in texts if text)
    also = (pairs_of(features.stems), called, *written)
    values["pairs"] = " ".join(filter(None, also)) or None
    for name, write in WRITERS.items():
        if (value := values[name]) is not None:
            values[name] = write(value)
    return values


def tasks_of(record: NewRecord) -> tuple[TaskKind, ...]:
    """A new record's tasks; transcripts and the memory type `task` are not indexed."""
    if isinstance(record, Record) and record.superseded_by is not None:
        return ()
    unindexed = record.kind == "transcript" or record.memory_type == "task"
    return record.tasks if unindexed else ("index", *record.tasks)


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why a record is retired, by whom and when, for the audit.

    `superseded_by` is empty if nothing replaces the record. Changes of a `run` are undone together.
    """

    agent: str | None
    superseded_by: str = ""
    at: datetime
    user: str | None = None
    why: RetirementReason = "superseded"
    reason: str | None = None
    run: str | None = None

    @classmethod
    def of(cls, newer: NewRecord, reason: str = "a newer version was stored") -> "Cause":
        """The cause for a record that a newer one replaces."""
        return cls(
            agent=newer.agent,
            superseded_by=newer.id,
            at=newer.event_time,
            user=principal_of(newer),
            reason=reason,
        )

    @classmethod
    def by(
        cls,
        actor: Actor,
        *,
        at: datetime,
        reason: str | None,
        superseded_by: str = "",
        why: RetirementReason = "superseded",
    ) -> "Cause":
        """The cause of a change that an actor makes, in the actor's run."""
        return cls(
            agent=actor.agent,
            superseded_by=superseded_by,
            at=at,
            user=actor.user,
            why=why,
            reason=reason,
            run=actor.run,
        )


def store_record(tx: Transaction, record: NewRecord) -> Written:
    """Add a record unless its id exists already, or it was erased."""
    return store_records(tx, [record])[0]


def store_records(tx: Transaction, records: Sequence[NewRecord]) -> list[Written]:
    """Add records except those whose ids exist or were erased."""
    erased = [was_erased(tx, record) for record in records]
    allowed = [record for record, gone in zip(records, erased, strict=True) if not gone]
    added = iter(add_records(tx, allowed))
    return [
        Written(id=record.id, was_new=False, erased=True) if gone else next(added)
        for record, gone in zip(records, erased, strict=True)
    ]


def add_records(tx: Transaction, records: Sequence[NewRecord]) -> list[Written]:
    """Add records that were not erased, except those whose ids exist; one statement per table.

    The parts of a long tool output are added with it.

    A Record, rather than a NewRecord, is added with its state.
    """
    if not records:
        return []
    wanted: dict[str, NewRecord] = {}
    for record in records:
        wanted.setdefault(record.id, record)
    rows = tx.add_rows(wanted)
    of_outputs = {
        content_id("output_part", id_, number): (id_, part)
        for id_ in rows
        for number, part in enumerate(wanted[id_].parts)
    }
    if of_outputs:
        tx.add_rows(
            {
                id_: msgspec.structs.replace(part, id=id_, turn=wanted[whole].turn)
                for id_, (whole, part) in of_outputs.items()
            }
        )
        for id_, (whole, _) in of_outputs.items():
            relate(tx, id_, DERIVED_FROM, whole)
    if rows:
        tx.refuse_excess()
    return [
        Written(id=record.id, was_new=rows.pop(record.id, None) is not None) for record in records
    ]


def store_fact(
    tx: Transaction,
    record: NewRecord,
    *,
    owners: Collection[str] = (),
    again: bool = False,
) -> Written:
    """Make a record an active fact; if it has a topic, the only active fact of that topic.

    A fact with the same words is not written again, and messages that denied it no longer count;
    with `again`, it is replaced. Facts of the topic of these `owners`, by default only the record's
    own, are replaced. An extracted fact may not do that: `Extractions.store` (`extraction.py`).
    """
    if was_erased(tx, record):
        return Written(id=record.id, was_new=False, erased=True)
    topic = fold_topic(record.topic) if record.topic else None
    place = {"scope": record.scope, "owner": record.owner, "topic": topic}
    if topic is not None and (first := tx.execute("topic_as_written", **place).fetchone()):
        record = msgspec.structs.replace(record, topic=first["topic"])  # as first spelled
    same = tx.execute("same_fact", **place, content=record.content).fetchone()
    if same is not None and topic in {None, same["folded_topic"]} and not again:
        tx.execute("forget_denials", id=same["id"])
        return Written(id=same["id"], was_new=False, topic=record.topic)
    older = [
        tx.execute("active_topic", **{**place, "owner": owner}).fetchone()
        for owner in sorted(owners or {record.owner}, reverse=True)
    ]
    replaced = [row["id"] for row in (*older, same) if row is not None]
    for record_id in replaced:
        supersede(tx, record_id, Cause.of(record))
    add_records(tx, [record])
    for record_id in replaced:
        tx.execute("keep_pinned", newer=record.id, older=record_id)
    return Written(id=record.id, was_new=True, replaced=tuple(replaced), topic=record.topic)


def is_there(tx: Transaction, record_id: str) -> bool:
    """Whether there is a record with this id, active or not."""
    return tx.execute("record_state", id=record_id).fetchone() is not None


def is_active(tx: Transaction, record_id: str) -> bool:
    """Whether there is a record with this id that was not retired."""
    row = tx.execute("record_state", id=record_id).fetchone()
    return row is not None and row["superseded_by"] is None


def active_fact_of_topic(tx: Transaction, record: NewRecord) -> Record | None:
    """The active fact of a record's topic, if there is one."""
    if record.topic is None:
        return None
    place = {"scope": record.scope, "owner": record.owner, "topic": fold_topic(record.topic)}
    row = tx.execute("active_topic", **place).fetchone()
    return record_of(row) if row else None


def supersede(tx: Transaction, record_id: str, cause: Cause) -> bool:
    """Retire a record, an output with its parts; return False if it is no longer active."""
    changed = tx.execute(
        "supersede",
        id=record_id,
        superseded_by=cause.superseded_by,
        retired_at=stamp(cause.at),
        noted_at=stamp(utc_now()),
        why=cause.why,
    ).fetchall()
    if changed:
        row = changed[0]["row"]
        tx.execute("drop_tasks", rows=as_json([row]), kinds=as_json(ACTIVE_RECORD_TASKS))
        tx.execute("add_task", kind="unindex", row=row)
        add_to_audit(tx, cause.why, record_id, cause, {"superseded_by": cause.superseded_by})
        if changed[0]["kind"] == "tool_output":
            for part in tx.execute("parts_of", id=record_id).fetchall():
                supersede(tx, part["id"], cause)
    return bool(changed)


def restore(tx: Transaction, retired: Row) -> bool:
    """Make a retired record active again; return False if another one stands in its place.

    That is an active fact of its topic, or another version of a part of a document.
    """
    is_chunk = retired["kind"] == "document_chunk"
    if is_chunk and tx.execute("active_chunk", source_ref=retired["source_ref"]).fetchone():
        return False
    if retired["folded_topic"]:
        place = {"scope": retired["scope"], "owner": retired["owner"]}
        topic = retired["folded_topic"]
        if tx.execute("active_topic", **place, topic=topic).fetchone():
            return False
    tx.execute("restore", id=retired["id"])
    row = retired["row"]
    tx.execute("drop_tasks", rows=as_json([row]), kinds=as_json(["unindex"]))
    tx.execute("index_active", row=row)
    return True


def add_to_audit(tx: Transaction, action: str, record_id: str, cause: Cause, detail: Json) -> None:
    """Add a change of state to the audit; `detail` holds what is needed to undo it."""
    added = tx.execute(
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
    name_in_audit(tx, added.fetchone()["row"], detail)


def name_in_audit(tx: Transaction, row: int, detail: Json) -> None:
    """Note which other records a row of the audit names, so that their erasure finds it."""
    if named := named_in(detail):
        tx.execute("name_in_audit", row=row, ids=as_json(named))


def named_in(detail: Json) -> list[str]:
    """The ids of other records in the detail of a row of the audit."""
    values = [detail.get(name) for name in NAMING]
    named = [one for value in values for one in (value if isinstance(value, list) else [value])]
    return sorted({one for one in named if isinstance(one, str) and one})


def without_names(detail: Json, gone: Collection[str]) -> Json:
    """The detail of a row of the audit once these records are erased."""
    left = dict(detail)
    for name in detail.keys() & NAMING:
        value = detail[name]
        if isinstance(value, list):
            left[name] = [one for one in value if one not in gone]
        elif value in gone:
            left[name] = ""
    return left


def stand_alone(tx: Transaction, merged: Row, at: datetime) -> None:
    """Make a fact active again whose replacement was erased: others had stated it, too."""
    if restore(tx, merged):
        reason = "what it was merged into was erased"
        cause = Cause(agent=None, at=at, reason=reason)
        add_to_audit(tx, "undone", merged["id"], cause, {"action": "merged"})


def relate(tx: Transaction, source: str, type_: str, target: str) -> None:
    """Store a relation between two records, unless it exists."""
    tx.execute("relate", source=source, type=type_, target=target)
