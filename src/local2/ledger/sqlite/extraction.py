"""Selects messages for extraction, and stores the extracted facts with their sources.

The source messages of a fact are recorded twice: as ids in its metadata, and as relations.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

import msgspec

from local2.language.words import informative_words
from local2.ledger.records import DERIVED_FROM, NewRecord, Record, Task, Written
from local2.ledger.search import Place
from local2.ledger.sqlite.database import SqlConnection
from local2.ledger.sqlite.record_rows import Cause, RecordRows
from local2.ledger.sqlite.records import RecentTopics
from local2.ledger.sqlite.rows import TenantRows, as_json, record_of
from local2.ledger.sqlite.working_sets import place_word
from local2.ledger.upkeep import ExtractedFact, MessageGroup
from local2.protocol.envelope import utc_now

CONTEXT_BEFORE = 10
"""Number of messages before those that are read: they may show what "it" and "there" refer to."""
CONTEXT_AFTER = 1
"""Number of messages after those that are read: an answer shows what of a statement matters."""
MAX_GROUP = 150
"""Maximum number of messages of one session that are read together."""
MAX_SIMILAR = 12
"""Maximum number of facts that a new one is compared with, those with most shared words first."""
QUERY_WORDS = 16
"""Maximum number of words of a fact that are searched for to find similar facts."""


class Sources:
    """Changes the sources of one tenant's facts; used inside a write."""

    def __init__(self, rows: TenantRows, records: RecordRows) -> None:
        self._rows = rows
        self._records = records

    def merge(self, connection: SqlConnection, older: str, newer: str, cause: Cause) -> None:
        """Add the sources of the older fact to the newer one."""
        known, related = self._messages(connection, newer), self._targets(connection, newer)
        messages = [one for one in self._messages(connection, older) if one not in known]
        targets = [one for one in self._targets(connection, older) if one not in related]
        if messages:
            self._write(connection, newer, [*known, *messages])
        for target in targets:
            self._records.relate(connection, newer, DERIVED_FROM, target)
        if messages or targets:
            detail = {"merged": older, "messages": messages, "targets": targets}
            self._records.add_to_audit(connection, "enriched", newer, cause, detail)

    def add(self, connection: SqlConnection, record_id: str, messages: Sequence[str]) -> None:
        """Add messages to a fact's sources."""
        known = self._messages(connection, record_id)
        new = [one for one in messages if one not in known]
        if known and new:
            self._write(connection, record_id, [*known, *new])

    def has(
        self,
        connection: SqlConnection,
        record_id: str,
        messages: Sequence[str],
        targets: Sequence[str],
    ) -> bool:
        """Return whether a fact still has all of these sources."""
        known_messages = self._messages(connection, record_id)
        known_targets = self._targets(connection, record_id)
        return set(messages) <= set(known_messages) and set(targets) <= set(known_targets)

    def remove(
        self,
        connection: SqlConnection,
        record_id: str,
        messages: Collection[str],
        targets: Collection[str],
    ) -> None:
        """Remove sources that `merge` added, or that were erased."""
        if messages:
            known = self._messages(connection, record_id)
            self._write(connection, record_id, [one for one in known if one not in messages])
        for target in targets:
            self._rows.execute(
                connection, "unrelate", source=record_id, type=DERIVED_FROM, target=target
            )

    def _messages(self, connection: SqlConnection, record_id: str) -> list[str]:
        row = self._rows.execute(connection, "sources_of", id=record_id).fetchone()
        return msgspec.json.decode(row["messages"], type=list[str]) if row else []

    def _write(self, connection: SqlConnection, record_id: str, messages: Sequence[str]) -> None:
        listed = json.dumps(list(messages))
        self._rows.execute(connection, "keep_sources", id=record_id, messages=listed)

    def _targets(self, connection: SqlConnection, record_id: str) -> list[str]:
        found = self._rows.execute(connection, "targets_of", id=record_id, type=DERIVED_FROM)
        return [row["target"] for row in found]


class Extractions:
    """One tenant's extractions."""

    def __init__(self, rows: TenantRows, records: RecordRows, topics: RecentTopics) -> None:
        self._rows = rows
        self._records = records
        self._topics = topics
        self._sources = Sources(rows, records)

    async def messages(self, tasks: Sequence[Task]) -> list[MessageGroup]:
        """Return the messages of these tasks that are still current, in groups by session."""
        asked = as_json([task.row for task in tasks])

        def read(connection: SqlConnection) -> list[MessageGroup]:
            found = self._rows.execute(connection, "records", rows=asked).fetchall()
            records = [record_of(row) for row in found if row["superseded_by"] is None]
            ordered = sorted(records, key=lambda one: (*_session_key(one), _position(one)))
            return [
                group
                for _, messages in groupby(ordered, key=_session_key)
                for group in self._groups(connection, list(messages))
            ]

        return await self._rows.read(read)

    def _groups(self, connection: SqlConnection, messages: list[Record]) -> Iterator[MessageGroup]:
        """Yield the messages of a session with those between them; distant ones in other groups."""
        while messages:
            first = messages[0]
            where = {
                "owner": first.owner,
                "session_id": first.session_id,
                "place": _position(first),
            }
            before = self._rows.execute(
                connection, "messages_before", **where, limit=CONTEXT_BEFORE
            )
            found = self._rows.execute(connection, "messages_from", **where, limit=MAX_GROUP)
            active = [record_of(row) for row in found] or [first]
            ids = [one.id for one in active]
            read = [one for one in messages if one.id in ids]
            until = ids.index(read[-1].id) + 1 + CONTEXT_AFTER
            context = [record_of(row) for row in before]
            yield MessageGroup(messages=active[:until], context=context)
            messages = messages[len(read) :]

    async def similar(self, facts: Sequence[NewRecord]) -> list[list[Record]]:
        """Return for each new fact the active fact of its key, and the owner's similar facts."""
        return await self._rows.read(lambda c: [list(self._similar(c, fact)) for fact in facts])

    def _similar(self, connection: SqlConnection, fact: NewRecord) -> Iterator[Record]:
        active = self._records.active_topic(connection, fact)
        if active is not None:
            yield active
        words = informative_words(fact.content)[:QUERY_WORDS]
        if not words:
            return
        place = place_word(self._rows.tenant, Place(fact.scope, fact.owner, "fact"))
        any_word = " OR ".join(f'"{word}"' for word in words)
        match = f"{{content topic pairs}}: ({any_word}) AND places: {place}"
        for row in self._rows.execute(connection, "facts_like", match=match, limit=MAX_SIMILAR):
            if active is None or row["id"] != active.id:
                yield record_of(row)

    async def store(
        self, facts: Sequence[ExtractedFact], tasks: Sequence[Task], *, sources: Sequence[str]
    ) -> list[Written]:
        """Store the facts found in messages, all or none, and finish the messages' tasks.

        Facts whose only source is an older version of a message are retired. `sources` are the ids
        of all messages that were read.
        """

        def write(connection: SqlConnection) -> list[Written]:
            for task in tasks:
                self._rows.execute(connection, "finish_task", kind=task.kind, row=task.row)
            written = [self._store(connection, fact) for fact in facts]
            for message in sources:
                self._retire_outdated(connection, message)
            return written

        try:
            return await self._rows.write(write)
        finally:
            for fact in facts:
                self._topics.forget(fact.record)

    def _store(self, connection: SqlConnection, fact: ExtractedFact) -> Written:
        record = fact.record
        sources = [source for source in fact.sources if self._is_active(connection, source)]
        erased = self._records.was_erased(connection, record)
        if erased or not sources:  # erased or edited during extraction
            return Written(id=record.id, was_new=False, erased=erased)
        if fact.same_as is not None and self._is_active(connection, fact.same_as):
            written = Written(id=fact.same_as, was_new=False)
            self._sources.add(connection, fact.same_as, sources)
        elif self._exists(connection, record.id):
            return Written(id=record.id, was_new=False)
        else:
            written = self._add(connection, fact)
        for source in sources:
            self._records.relate(connection, written.id, DERIVED_FROM, source)
        return written

    def _add(self, connection: SqlConnection, fact: ExtractedFact) -> Written:
        """Store a new fact; drop its key if a fact that it does not replace has the key."""
        record, replaced = fact.record, []
        for older in fact.replaces:
            if self._records.supersede(connection, older, Cause.of(record)):
                self._records.relate(connection, record.id, "supersedes", older)
                replaced.append(older)
        if self._records.active_topic(connection, record) is not None:
            record = msgspec.structs.replace(record, topic=None)
        self._records.add(connection, [record])
        later = fact.outdated_by
        if later is not None and self._exists(connection, later):
            cause = Cause(agent=record.agent, superseded_by=later, at=utc_now())
            self._records.supersede(connection, record.id, cause)
        for relation in fact.relations:
            if self._is_active(connection, relation.target):
                self._records.relate(connection, record.id, relation.type, relation.target)
        return Written(
            id=record.id,
            was_new=True,
            replaced=tuple(replaced),
            superseded_by=later,
            topic=record.topic,
        )

    def _is_active(self, connection: SqlConnection, record_id: str) -> bool:
        return self._rows.execute(connection, "is_active", id=record_id).fetchone() is not None

    def _exists(self, connection: SqlConnection, record_id: str) -> bool:
        return self._rows.execute(connection, "is_there", id=record_id).fetchone() is not None

    def _retire_outdated(self, connection: SqlConnection, message: str) -> None:
        found = self._rows.execute(connection, "extracted_from_older", message=message).fetchall()
        for row in found:
            cause = Cause(agent=None, superseded_by="", at=utc_now(), reason="message edited")
            self._records.supersede(connection, row["id"], cause)


def _session_key(message: Record) -> tuple[str, str]:
    return message.owner, message.session_id or message.id


def _position(message: Record) -> float:
    return float(message.row if message.stands_at is None else message.stands_at)
