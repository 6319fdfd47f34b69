"""Telling the bus and the backlog what changed, by id and kind and never by content."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from local.ledger.records import NewRecord, TaskKind, Written, sources_of
from local.ledger.upkeep import AuditRow, Change
from local.memory.upkeep.backlog import Backlog
from local.protocol import subjects
from local.protocol.memories import Kind
from local.protocol.payloads import MemoryChange

MANY = 8
"""So many records of one write are likely to be followed by more: another conversation."""
AT_ONCE = 50
"""Announcements, which wait for nobody; then others have their turn."""

Announce = Callable[[str, MemoryChange], Awaitable[None]]
"""Raises nothing: what is written stays written, whether or not anybody hears of it."""


class Changes:
    """What was changed in one tenant's memory."""

    def __init__(self, backlog: Backlog, announce: Announce) -> None:
        self._announce = announce
        self._backlog = backlog

    @property
    def tasks_of_messages(self) -> tuple[TaskKind, ...]:
        """What is to be done with what a user says."""
        return ("extract",) if self._backlog.takes("extract") else ()

    @property
    def tasks_of_facts(self) -> tuple[TaskKind, ...]:
        """What is to be done with a fact that is stated."""
        return ("judge",) if self._backlog.takes("judge") else ()

    async def written(self, written: Sequence[Written], records: Sequence[NewRecord]) -> None:
        """Some of these records are new, and may have replaced others."""
        new = [(one, record) for one, record in zip(written, records, strict=True) if one.was_new]
        if not new:
            return
        self._backlog.wake("index", many=len(new) >= MANY)
        self._backlog.wake(*{kind for record in records for kind in record.tasks})
        for number, (one, record) in enumerate(new, start=1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            saved = MemoryChange(
                id=one.id,
                kind=record.kind,
                topic=record.topic,
                memory_type=record.memory_type,
                sources=sources_of(record),
            )
            await self._announce(subjects.MEMORY_SAVED, saved)
            for replaced in one.replaced:
                await self._tell_replaced(replaced, record, one.id)
            if one.superseded_by:
                await self._tell_replaced(one.id, record, one.superseded_by)

    async def replaced(self, record_id: str, by: NewRecord) -> None:
        """One record took the place of another."""
        self._backlog.wake("unindex")
        await self._tell_replaced(record_id, by, by.id)

    async def retired(self, changes: Sequence[Change]) -> None:
        """Facts were retired by upkeep."""
        if not changes:
            return
        self._backlog.wake("unindex")
        await self._tell_each(
            subjects.MEMORY_RETIRED,
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
            ],
        )

    async def deleted(self, ids: Sequence[str], kind: Kind) -> None:
        """Records were retired with nothing in their place."""
        if not ids:
            return
        self._backlog.wake("unindex")
        changes = [MemoryChange(id=id_, kind=kind, why="archived") for id_ in ids]
        await self._tell_each(subjects.MEMORY_RETIRED, changes)

    async def restored(self, changes: Sequence[AuditRow]) -> None:
        """Facts that had been retired are active again."""
        if not changes:
            return
        self._backlog.wake("index")
        await self._tell_each(
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

    async def _tell_each(self, subject: str, changes: Sequence[MemoryChange]) -> None:
        for number, change in enumerate(changes, start=1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            await self._announce(subject, change)

    async def _tell_replaced(self, record_id: str, like: NewRecord, by: str) -> None:
        """Both are of one kind, and of one topic if they have any."""
        change = MemoryChange(id=record_id, kind=like.kind, topic=like.topic, superseded_by=by)
        await self._announce(subjects.MEMORY_SUPERSEDED, change)
