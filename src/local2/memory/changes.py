"""Announce changes on the bus and wake the backlog. Announcements never have content."""

from collections.abc import Callable, Sequence

from local2.ledger.operations.audit import AuditRow
from local2.ledger.operations.upkeep import Change
from local2.ledger.records import NewRecord, Record, TaskKind, Written, sources_of
from local2.memory.backlog import Backlog
from local2.protocol import subjects
from local2.protocol.memories import Kind, RetirementReason
from local2.protocol.payloads import MemoryChange

MANY = 8
"""A write of this many records is probably followed by another, so the indexer waits for it."""

Announce = Callable[[str, MemoryChange], None]
"""Publishes a change under a subject, without waiting: a write does not depend on it."""


class Changes:
    """Announces the changes in one tenant's memory."""

    def __init__(self, backlog: Backlog, announce: Announce) -> None:
        self._announce = announce
        self._backlog = backlog

    @property
    def tasks_of_messages(self) -> tuple[TaskKind, ...]:
        """The tasks for a user's message."""
        return ("extract",) if self._backlog.handles("extract") else ()

    @property
    def tasks_of_facts(self) -> tuple[TaskKind, ...]:
        """The tasks for a stated fact."""
        return ("judge",) if self._backlog.handles("judge") else ()

    def written(self, written: Sequence[Written], records: Sequence[NewRecord]) -> None:
        """Announce those of the written records that are new, and the records they replaced."""
        new = [
            (stored, record)
            for stored, record in zip(written, records, strict=True)
            if stored.was_new
        ]
        if not new:
            return
        self._backlog.wake("index", many=len(new) >= MANY)
        self._backlog.wake(*{kind for record in records for kind in record.tasks})
        for stored, record in new:
            saved = MemoryChange(
                id=stored.id,
                kind=record.kind,
                topic=record.topic,
                memory_type=record.memory_type,
                sources=sources_of(record),
            )
            self._announce(subjects.MEMORY_SAVED, saved)
            for replaced in stored.replaced:
                self._announce_replaced(replaced, record, stored.id)
            if stored.superseded_by:
                self._announce_replaced(stored.id, record, stored.superseded_by)

    def replaced(self, record_id: str, by: NewRecord) -> None:
        """Announce that one record replaced another."""
        self._backlog.wake("unindex")
        self._announce_replaced(record_id, by, by.id)

    def retired(self, changes: Sequence[Change]) -> None:
        """Announce facts that upkeep has retired."""
        self._announce_retired(
            [
                MemoryChange(
                    id=change.fact.id,
                    kind="fact",
                    topic=change.fact.topic,
                    superseded_by=change.superseded_by or None,
                    memory_type=change.fact.memory_type,
                    why=change.action,
                )
                for change in changes
            ]
        )

    def ended(self, records: Sequence[NewRecord] | Sequence[Record], why: RetirementReason) -> None:
        """Announce records that nothing replaces: their user ended, denied or withdrew them."""
        self._announce_retired(
            [
                MemoryChange(
                    id=record.id,
                    kind=record.kind,
                    topic=record.topic,
                    memory_type=record.memory_type,
                    why=why,
                )
                for record in records
            ]
        )

    def deleted(self, ids: Sequence[str], kind: Kind) -> None:
        """Announce records that were retired without a replacement."""
        self._announce_retired([MemoryChange(id=id_, kind=kind, why="archived") for id_ in ids])

    def restored(self, changes: Sequence[AuditRow]) -> None:
        """Announce retired facts that are active again."""
        if not changes:
            return
        self._backlog.wake("index", "unindex")  # an edit's version gives way to the former one
        self._announce_each(
            subjects.MEMORY_RESTORED,
            [
                MemoryChange(
                    id=change.record_id,
                    kind=change.kind or "fact",
                    topic=change.topic,
                    memory_type=change.memory_type,
                )
                for change in changes
            ],
        )

    def _announce_retired(self, changes: Sequence[MemoryChange]) -> None:
        if changes:
            self._backlog.wake("unindex")
            self._announce_each(subjects.MEMORY_RETIRED, changes)

    def _announce_each(self, subject: str, changes: Sequence[MemoryChange]) -> None:
        for change in changes:
            self._announce(subject, change)

    def _announce_replaced(self, record_id: str, like: NewRecord, by: str) -> None:
        """Announce a replacement. `like`: either record; both have the same kind and topic."""
        change = MemoryChange(id=record_id, kind=like.kind, topic=like.topic, superseded_by=by)
        self._announce(subjects.MEMORY_SUPERSEDED, change)
