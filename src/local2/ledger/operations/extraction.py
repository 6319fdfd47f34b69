"""Selects messages for extraction, and stores the extracted facts with their sources.

The source messages of a fact are recorded twice: as ids in its metadata, and as relations.
"""

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from heapq import nlargest
from itertools import groupby

import msgspec

from local2.language.words import informative_words
from local2.ledger.operations.backlog import finish_claimed
from local2.ledger.operations.facts import RecentTopics
from local2.ledger.operations.places import place_word
from local2.ledger.operations.records import (
    Cause,
    active_fact_of_topic,
    add_records,
    add_to_audit,
    is_active,
    is_there,
    relate,
    supersede,
)
from local2.ledger.operations.tombstones import was_erased
from local2.ledger.operations.transactions import (
    Part,
    TenantRows,
    Transaction,
    reads,
    record_of,
    records_at,
    records_of,
)
from local2.ledger.records import (
    DERIVED_FROM,
    TENANT_OWNED,
    NewRecord,
    Record,
    Task,
    Written,
    source_class_of,
)
from local2.ledger.search import Place
from local2.protocol.envelope import utc_now
from local2.protocol.memories import RelationType

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
COMPARED = 1_000
"""Number of characters of a record by which related facts are looked for."""
COMMON = 50
"""Number of facts with a word from which it does not count as rare."""
MIN_SHARED = 0.3
"""Minimum rarity of the words that a related fact shares, as a share of all words' rarity."""


class MessageGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one session to extract facts from; `context` are the messages before them."""

    messages: Sequence[Record]
    context: Sequence[Record]


class OwnerMessages(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be read of one owner. Some of the tasks may be of messages edited since."""

    owner: str
    tasks: list[Task]
    groups: list[MessageGroup]


class FactRelation(msgspec.Struct, frozen=True, kw_only=True):
    """A relation from a new fact to a known one."""

    type: RelationType
    target: str


class RelatedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was stored, and other active facts of its owner that share its words, best first."""

    record: Record
    related: Sequence[Record]


class ExtractedFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact found in messages, and how it relates to known facts.

    `sources` are the ids of the messages. `same_as` is the id of a known fact that states the same.
    `replaces` are the ids of facts that the new one retires; `outdated_by` is the id of a fact that
    was stated later and retires the new one.
    """

    record: NewRecord
    sources: Sequence[str]
    same_as: str | None = None
    replaces: Sequence[str] = ()
    outdated_by: str | None = None
    relations: Sequence[FactRelation] = ()


class EndedFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that its user ended or denied in a message; nothing replaces it."""

    fact: NewRecord
    message: Record

    @property
    def retires(self) -> bool:
        """Whether it is retired: what an agent stored on purpose is only marked."""
        return source_class_of(self.fact) == "stated"


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """What was stored of an extraction: a result for each fact found, and the facts retired."""

    written: list[Written]
    ended: list[NewRecord]


def merge_sources(tx: Transaction, older: str, newer: str, cause: Cause) -> None:
    """Add the sources of the older fact to the newer one."""
    known, related = _messages_of(tx, newer), _targets_of(tx, newer)
    messages = [message for message in _messages_of(tx, older) if message not in known]
    targets = [target for target in _targets_of(tx, older) if target not in related]
    if messages:
        _write_sources(tx, newer, [*known, *messages])
    for target in targets:
        relate(tx, newer, DERIVED_FROM, target)
    if messages or targets:
        detail = {"merged": older, "messages": messages, "targets": targets}
        add_to_audit(tx, "enriched", newer, cause, detail)


def add_sources(tx: Transaction, record_id: str, messages: Sequence[str]) -> None:
    """Add messages to a fact's sources."""
    known = _messages_of(tx, record_id)
    new = [message for message in messages if message not in known]
    if known and new:
        _write_sources(tx, record_id, [*known, *new])


def has_sources(
    tx: Transaction,
    record_id: str,
    messages: Sequence[str],
    targets: Sequence[str],
) -> bool:
    """Whether a fact still has all of these sources."""
    known_messages = _messages_of(tx, record_id)
    known_targets = _targets_of(tx, record_id)
    return set(messages) <= set(known_messages) and set(targets) <= set(known_targets)


def remove_sources(
    tx: Transaction,
    record_id: str,
    messages: Collection[str],
    targets: Collection[str],
) -> None:
    """Remove sources that `merge_sources` added, or that were erased."""
    if messages:
        left = [message for message in _messages_of(tx, record_id) if message not in messages]
        _write_sources(tx, record_id, left)
    for target in targets:
        tx.execute("unrelate", source=record_id, type=DERIVED_FROM, target=target)


def _messages_of(tx: Transaction, record_id: str) -> list[str]:
    row = tx.execute("sources_of", id=record_id).fetchone()
    return msgspec.json.decode(row["messages"], type=list[str]) if row else []


def _write_sources(tx: Transaction, record_id: str, messages: Sequence[str]) -> None:
    listed = json.dumps(list(messages))
    tx.execute("keep_sources", id=record_id, messages=listed)


def _targets_of(tx: Transaction, record_id: str) -> list[str]:
    found = tx.execute("targets_of", id=record_id, type=DERIVED_FROM)
    return [row["target"] for row in found]


class Extractions(Part):
    """One tenant's extractions."""

    def __init__(self, rows: TenantRows, topics: RecentTopics) -> None:
        super().__init__(rows)
        self._topics = topics
        self.is_shared = rows.is_shared

    @reads
    def messages(self, tx: Transaction, tasks: Sequence[Task]) -> list[OwnerMessages]:
        """The messages of these tasks that are still current, by owner, in groups by session."""
        records = records_at(tx, [task.row for task in tasks])
        ordered = sorted(
            records.values(), key=lambda record: (*_session_key(record), _position(record))
        )
        read: list[OwnerMessages] = []
        for owner, messages in groupby(ordered, key=lambda record: record.owner):
            current = [message for message in messages if message.superseded_by is None]
            groups = [
                group
                for _, of_session in groupby(current, key=_session_key)
                for group in self._groups(tx, list(of_session))
            ]
            own = [task for task in tasks if records[task.row].owner == owner]
            read.append(OwnerMessages(owner=owner, tasks=own, groups=groups))
        return read

    def _groups(self, tx: Transaction, messages: list[Record]) -> Iterator[MessageGroup]:
        """Yield the messages of a session with those between them; distant ones in other groups."""
        while messages:
            first = messages[0]
            where = {
                "owner": first.owner,
                "session_id": first.session_id,
                "position": _position(first),
            }
            before = tx.execute("messages_before", **where, limit=CONTEXT_BEFORE)
            found = tx.execute("messages_from", **where, limit=MAX_GROUP)
            active = records_of(found) or [first]
            ids = [message.id for message in active]
            read = [message for message in messages if message.id in ids]
            until = ids.index(read[-1].id) + 1 + CONTEXT_AFTER
            yield MessageGroup(messages=active[:until], context=records_of(before))
            messages = messages[len(read) :]

    @reads
    def similar(self, tx: Transaction, facts: Sequence[NewRecord]) -> list[list[Record]]:
        """For each new fact the active fact of its key, and the owner's similar facts."""
        every: list[list[Record]] = []
        for fact in facts:
            active = active_fact_of_topic(tx, fact)
            similar = [] if active is None else [active]
            if words := informative_words(fact.content)[:QUERY_WORDS]:
                place = place_word(tx.tenant, Place(fact.scope, fact.owner, "fact"))
                found = records_of(tx.text.facts_like(tx, words, place, MAX_SIMILAR))
                similar += [other for other in found if active is None or other.id != active.id]
            every.append(similar)
        return every

    @reads
    def related(self, tx: Transaction, ids: Sequence[str]) -> list[RelatedFacts]:
        """For each active record its owner's other active facts that share its rare words.

        Of messages, only those of users have any: facts about the user.
        """
        every: list[RelatedFacts] = []
        for id_ in ids:
            row = tx.execute("record_by_id", id=id_).fetchone()
            if row is None or row["superseded_by"] is not None:
                continue
            record = record_of(row)
            if record.role not in {None, "user"}:
                continue
            scope = "user" if record.scope == "session" else record.scope
            place = place_word(tx.tenant, Place(scope, record.owner, "fact"))
            number = tx.execute("count_facts", place=place).fetchone()["facts"]
            if not number:
                continue
            # All keys begin with one of the same few words, which say nothing about the fact.
            _, _, key = (record.topic or "").partition(".")
            total, shared = 0.0, defaultdict[int, float](float)
            for word in informative_words(f"{key} {record.content[:COMPARED]}")[:QUERY_WORDS]:
                found = tx.text.rows_of_word(tx, word, place, COMMON)
                if not 0 < len(found) < COMMON:
                    continue
                rarity = math.log((number + 1) / (len(found) + 0.5))
                total += rarity
                for other in found:
                    shared[other] += rarity
            shared.pop(record.row, None)
            near = [
                (score, other) for other, score in shared.items() if score >= MIN_SHARED * total
            ]
            best = records_at(tx, [other for _, other in nlargest(MAX_SIMILAR, near)])
            every.append(RelatedFacts(record=record, related=list(best.values())))
        return every

    async def store(
        self,
        found: Sequence[ExtractedFact | EndedFact],
        tasks: Sequence[Task],
        *,
        sources: Sequence[str],
        owners: Collection[str],
    ) -> Extracted:
        """Store what was found in messages, in order, all or none, and finish the messages' tasks.

        Facts whose only source is an older version of a message are retired. `sources` are the ids
        of all messages that were read, and `owners` theirs: writes about other owners go on
        meanwhile.
        """

        def write(tx: Transaction) -> Extracted:
            for task in tasks:
                finish_claimed(tx, task.kind, task.row)
            written: list[Written] = []
            ended: list[NewRecord] = []
            for change in found:
                if isinstance(change, ExtractedFact):
                    written.append(self._store(tx, change))
                elif self._end(tx, change):
                    ended.append(change.fact)
            for message in sources:
                for row in tx.execute("extracted_from_older", message=message).fetchall():
                    cause = Cause(agent=None, at=utc_now(), reason="message edited")
                    supersede(tx, row["id"], cause)
            return Extracted(written=written, ended=ended)

        facts = [
            change.record if isinstance(change, ExtractedFact) else change.fact for change in found
        ]
        # A message of a user may have stated what is the tenant's.
        rows = self._rows.resting_on({*owners, *(fact.owner for fact in facts), TENANT_OWNED})
        try:
            return await rows.write(write)
        finally:
            for fact in facts:
                self._topics.forget(fact)

    def _end(self, tx: Transaction, ended: EndedFact) -> bool:
        """Retire a fact without a successor, unless the message was erased or edited meanwhile.

        A fact that an agent stored stays, marked as contradicted by the message.
        """
        message = ended.message
        if not is_active(tx, message.id):
            return False
        if not ended.retires:
            if is_active(tx, ended.fact.id):
                relate(tx, message.id, "contradicts", ended.fact.id)
            return False
        cause = Cause(
            agent=message.agent,
            at=message.newness,
            user=message.owner,
            why="contradicted",
            reason=f"the user ended or denied it in the message {message.id}",
        )
        return supersede(tx, ended.fact.id, cause)

    def _store(self, tx: Transaction, fact: ExtractedFact) -> Written:
        record = fact.record
        sources = [source for source in fact.sources if is_active(tx, source)]
        erased = was_erased(tx, record)
        if erased or not sources:  # erased or edited during extraction
            return Written(id=record.id, was_new=False, erased=erased)
        if fact.same_as is not None and is_active(tx, fact.same_as):
            written = Written(id=fact.same_as, was_new=False)
            add_sources(tx, fact.same_as, sources)
            tx.execute("forget_denials", id=fact.same_as)
        elif is_there(tx, record.id):
            return Written(id=record.id, was_new=False)
        else:
            written = self._add(tx, fact)
        for source in sources:
            relate(tx, written.id, DERIVED_FROM, source)
        return written

    def _add(self, tx: Transaction, fact: ExtractedFact) -> Written:
        """Store a new fact, which retires only the facts that its extractor names.

        A fact that somebody states retires whatever has its key: `records.store_fact`.
        """
        record, replaced = fact.record, []
        for older in fact.replaces:
            if supersede(tx, older, Cause.of(record)):
                relate(tx, record.id, "supersedes", older)
                replaced.append(older)
        # What remains under the key was stated by somebody, or by another user. It keeps the key,
        # and the extracted fact is stored without one: both are recalled, the key gives the former.
        if active_fact_of_topic(tx, record) is not None:
            record = msgspec.structs.replace(record, topic=None)
        add_records(tx, [record])
        later = fact.outdated_by
        if later is not None and is_there(tx, later):
            cause = Cause(agent=record.agent, superseded_by=later, at=utc_now())
            supersede(tx, record.id, cause)
        for relation in fact.relations:
            if is_active(tx, relation.target):
                relate(tx, record.id, relation.type, relation.target)
        return Written(
            id=record.id,
            was_new=True,
            replaced=tuple(replaced),
            superseded_by=later,
            topic=record.topic,
        )


def _session_key(message: Record) -> tuple[str, str]:
    return message.owner, message.session_id or message.id


def _position(message: Record) -> float:
    return float(message.row if message.stands_at is None else message.stands_at)
