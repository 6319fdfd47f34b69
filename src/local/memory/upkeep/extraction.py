"""Extraction: users' messages are read for facts, after they were stored word for word.

A job of the backlog with a task a message. A fact from a message has an id made of both, and is
stored together with the end of the task: reading a message again after a kill changes nothing.

A new fact is compared with known ones: it is the same, a later value, an addition or a
contradiction. A fact that is older, weaker, or another user's retires nothing: statements of a
document or a tool about earlier facts have no force. Where a sentence alone is not clear, both
facts stay.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
import structlog

from local.ledger.door import Ledger
from local.ledger.records import (
    EXTRACTED_FROM,
    OWN_ONLY,
    TENANT_OWNED,
    NewRecord,
    Record,
    Task,
    TaskKind,
    class_of,
    place_of_topic,
)
from local.ledger.upkeep import ExtractedFact, FactRelation, MessageGroup
from local.memory.changes import Changes
from local.memory.extraction.items import Extractor, Item, Passage, Utterance
from local.memory.scopes import may_retire
from local.memory.upkeep.backlog import Job
from local.protocol.envelope import content_id
from local.protocol.memories import Owning
from local.text.names import folded
from local.text.words import stems, words

Verdict = Literal["unrelated", "duplicate", "enriches", "supersedes", "outdated", "contradicts"]
"""The verdict on a new fact and a known one; `outdated`: the known one was stated later."""

ACCUMULATING = frozenset({"event", "task", "interaction", "user_request", "summary"})
"""Types of which two never exclude each other."""
DENIALS = frozenset({"not", "no", "never", "don", "doesn", "didn", "isn", "aren", "won", "without"})
"""Words, without clitics, that turn a statement into its opposite."""
TOGETHER = 64
"""Messages read together: some 10 ms by rules."""
GATHERING = 0.1
"""Seconds to wait for more messages if there are few: every batch is a commit, behind which others
wait that have yet to be acknowledged."""
COMPARED = 1_000
"""Facts whose stems are held: more than those of a batch are compared with."""

log = structlog.get_logger()


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    known: NewRecord
    verdict: Verdict


def compare(new: NewRecord, known: Sequence[NewRecord]) -> list[Comparison]:
    """Return the verdicts that are not `unrelated`; a duplicate is the only one."""
    compared = [Comparison(known=old, verdict=verdict_on(new, old)) for old in known]
    related = [one for one in compared if one.verdict != "unrelated"]
    same = [one for one in related if one.verdict == "duplicate"]
    return same[:1] or related


def verdict_on(new: NewRecord, old: NewRecord) -> Verdict:
    """Return what the new fact is to an old one of the same scope and owner."""
    if new.memory_type == "task" and new.session_id != old.session_id:
        return "unrelated"
    if _contains(old, new):
        return "duplicate"
    if _same_key(new, old):
        return _under_one_key(new, old)
    if _contains(new, old) and may_retire(new, old) and new.topic is None is old.topic:
        return "enriches" if new.event_time >= old.event_time else "unrelated"
    return "unrelated"


def _under_one_key(new: NewRecord, old: NewRecord) -> Verdict:
    if class_of(old) == "asserted" and _contains(new, old):
        return "duplicate"  # such as "Elixir", beside a sentence that contains it
    if not may_retire(new, old):
        return "contradicts"
    return "supersedes" if new.event_time >= old.event_time else "outdated"


def _same_key(new: NewRecord, old: NewRecord) -> bool:
    return (
        new.topic is not None and old.topic is not None and folded(new.topic) == folded(old.topic)
    )


def _contains(one: NewRecord, other: NewRecord) -> bool:
    """Return whether the one contains everything that the other states."""
    if ACCUMULATING & {one.memory_type, other.memory_type}:
        return one.content.casefold().split() == other.content.casefold().split()
    whole, part = _reading(one.content), _reading(other.content)
    return whole.denies == part.denies and part.stems in whole.stems


class _Reading(NamedTuple):
    denies: bool
    stems: str


@lru_cache(COMPARED)
def _reading(content: str) -> _Reading:
    """Return what is compared of a fact; each is compared with many, one after the other."""
    found = words(content)
    return _Reading(not DENIALS.isdisjoint(found), f" {' '.join(stems(found))} ")


class Extraction(Job):
    """Reads users' messages, the oldest first: later ones may replace earlier facts."""

    name = "extraction"
    kinds = ("extract",)

    def __init__(self, ledger: Ledger, changes: Changes, extractor: Extractor) -> None:
        self._ledger = ledger
        self._changes = changes
        self._extractor = extractor

    def together(self, kind: TaskKind) -> int:
        del kind
        return TOGETHER

    async def do(self, tasks: Sequence[Task]) -> None:
        """Read messages, and store the facts found in them with the end of their tasks.

        Raises:
            ModelError: The extractor's model is out of reach; the messages wait for it.
        """
        if len(tasks) < TOGETHER:
            await asyncio.sleep(GATHERING)
        groups = await self._ledger.extraction.messages(tasks)
        records = [record for group in groups for record in await self._read(group)]
        facts = await self._compared(records)
        read = [task.id for task in tasks]
        written = await self._ledger.extraction.store(facts, tasks, sources=read)
        new = sum(one.was_new for one in written)
        if new:
            log.info("facts_extracted", messages=len(read), found=len(facts), new=new)
        self._changes.written(written, [fact.record for fact in facts])

    async def _read(self, group: MessageGroup) -> list[NewRecord]:
        passage = Passage(
            messages=[_utterance(message) for message in group.messages],
            context=[_utterance(message) for message in group.context],
        )
        messages = {message.id: message for message in group.messages}
        return [
            record
            for item in await self._extractor.extract(passage)
            for record in _records(item, [messages[source] for source in item.sources])
        ]

    async def _compared(self, records: Sequence[NewRecord]) -> list[ExtractedFact]:
        """Return each fact with its relation to known ones, and to those found before it."""
        if not records:
            return []
        found: list[ExtractedFact] = []
        for record, known in zip(records, await self._ledger.extraction.like(records), strict=True):
            gone = {id_ for fact in found for id_ in fact.replaces}
            remaining = [one for one in known if one.id not in gone]
            found.append(_fact(record, compare(record, [*remaining, *_before(record, found)])))
        _reading.cache_clear()  # so that forgotten content is not in memory either
        return found


def _utterance(message: Record) -> Utterance:
    return Utterance(
        id=message.id,
        role=message.role or "",
        content=message.content,
        at=message.event_time,
        speaker=None if _is_owner(message) else message.label,
    )


def _is_owner(message: Record) -> bool:
    """Return whether the speaker's name is the user's own."""
    return (message.label or "").casefold() == message.owner.casefold()


def _records(item: Item, messages: Sequence[Record]) -> Iterator[NewRecord]:
    """Yield a record for each scope that the item belongs to."""
    last = messages[-1]
    for scope, owner in _places(item, last):
        yield NewRecord(
            id=content_id("extracted", scope, owner, [one.id for one in messages], item.content),
            kind="fact",
            content=item.content,
            event_time=last.event_time,
            scope=scope,
            owner=owner,
            topic=item.topic,
            memory_type=item.memory_type,
            durability=item.durability,
            importance=item.importance,
            metadata={EXTRACTED_FROM: [one.id for one in messages]},
            agent=last.agent,
            session_id=last.session_id,
            source_class="stated",
            stated_by=last.owner,
            summary=item.summary,
            keywords=item.keywords,
            queries=item.queries,
            confidence=item.confidence,
        )


def _places(item: Item, message: Record) -> list[tuple[Owning, str]]:
    """Return its owners: a fact under a key of everybody's is for the agent, too."""
    if item.memory_type == "task":
        return [("session", message.owner)]
    if item.topic is None:
        return [("user", message.owner)]
    place = place_of_topic(item.topic, message.owner)
    of_everybody = place == ("tenant", TENANT_OWNED)
    if of_everybody and message.metadata.get(OWN_ONLY):
        return [("user", message.owner)]
    return [place, ("agent", message.agent)] if of_everybody and message.agent else [place]


def _before(record: NewRecord, found: Iterable[ExtractedFact]) -> list[NewRecord]:
    """Return those found in the same batch that stand where the record will."""
    place = (record.scope, record.owner)
    return [
        fact.record
        for fact in found
        if fact.same_as is None
        and fact.outdated_by is None
        and (fact.record.scope, fact.record.owner) == place
    ]


def _fact(record: NewRecord, compared: Sequence[Comparison]) -> ExtractedFact:
    by = {
        verdict: [one.known for one in compared if one.verdict == verdict]
        for verdict in ("duplicate", "supersedes", "enriches", "outdated", "contradicts")
    }
    same, later = by["duplicate"], by["outdated"]
    return ExtractedFact(
        record=record,
        sources=record.metadata[EXTRACTED_FROM],
        same_as=same[0].id if same else None,
        replaces=[one.id for one in (*by["supersedes"], *by["enriches"])],
        outdated_by=later[0].id if later else None,
        relations=[FactRelation(type="contradicts", target=one.id) for one in by["contradicts"]],
    )
