"""Extraction: what users say is read for facts, after it was stored word for word.

A job of the backlog, a task a message. What comes of a message has an id made of both, and is
stored together with the end of its task: whatever is read again after a kill changes nothing.

A new fact is compared with known ones: it is the same, a later value, an addition or a
contradiction. Nothing is retired by what is older, weaker, or another user's: whatever a document
or a tool says of earlier facts has no force. Where a sentence alone cannot tell, both stand.
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
from local.ledger.upkeep import Bearing, ExtractedFact, MessageGroup
from local.memory.changes import Changes
from local.memory.extraction.items import Extractor, Item, Passage, Said
from local.memory.scopes import may_retire
from local.memory.upkeep.backlog import Job
from local.protocol.envelope import content_id
from local.protocol.memories import Owning
from local.text.names import folded
from local.text.words import stems, words

Verdict = Literal["unrelated", "duplicate", "enriches", "supersedes", "outdated", "contradicts"]
"""Of the new fact to a known one; `outdated`: the known one was stated later."""

ACCUMULATING = frozenset({"event", "task", "interaction", "user_request", "summary"})
"""Types of which two never exclude each other."""
DENIALS = frozenset({"not", "no", "never", "don", "doesn", "didn", "isn", "aren", "won", "without"})
"""Words, without clitics, that turn a statement into its opposite."""
TOGETHER = 64
"""Messages read together: some 10 ms by rules."""
GATHERING = 0.1
"""Seconds in which more messages may come before few are read: every batch is a commit, behind
which others wait that have yet to be acknowledged."""
COMPARED = 1_000
"""Facts whose stems are held: more than those of a batch are compared with."""

log = structlog.get_logger()


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    known: NewRecord
    verdict: Verdict


def compare(new: NewRecord, known: Sequence[NewRecord]) -> list[Comparison]:
    """The verdicts that are not `unrelated`; a duplicate is the only one."""
    compared = [Comparison(known=old, verdict=verdict_on(new, old)) for old in known]
    related = [one for one in compared if one.verdict != "unrelated"]
    same = [one for one in related if one.verdict == "duplicate"]
    return same[:1] or related


def verdict_on(new: NewRecord, old: NewRecord) -> Verdict:
    """What the new fact is to an old one of the same scope and owner."""
    if new.memory_type == "task" and new.session_id != old.session_id:
        return "unrelated"
    if _says(old, new):
        return "duplicate"
    if _same_key(new, old):
        return _under_one_key(new, old)
    if _says(new, old) and may_retire(new, old) and new.topic is None is old.topic:
        return "enriches" if new.event_time >= old.event_time else "unrelated"
    return "unrelated"


def _under_one_key(new: NewRecord, old: NewRecord) -> Verdict:
    if class_of(old) == "asserted" and _says(new, old):
        return "duplicate"  # such as "Elixir", of a sentence that says it
    if not may_retire(new, old):
        return "contradicts"
    return "supersedes" if new.event_time >= old.event_time else "outdated"


def _same_key(new: NewRecord, old: NewRecord) -> bool:
    return (
        new.topic is not None and old.topic is not None and folded(new.topic) == folded(old.topic)
    )


def _says(one: NewRecord, other: NewRecord) -> bool:
    """Whether everything that the other says is said by the one as well."""
    if ACCUMULATING & {one.memory_type, other.memory_type}:
        return one.content.casefold().split() == other.content.casefold().split()
    said, asked = _reading(one.content), _reading(other.content)
    return said.denies == asked.denies and asked.stems in said.stems


class _Reading(NamedTuple):
    denies: bool
    stems: str


@lru_cache(COMPARED)
def _reading(content: str) -> _Reading:
    """What is compared of a fact; each is with many, one after the other."""
    found = words(content)
    return _Reading(not DENIALS.isdisjoint(found), f" {' '.join(stems(found))} ")


class Extraction(Job):
    """Reads what users say, the oldest first: what is said later may replace it."""

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
        """Read messages, and store what is worth remembering of them with the end of their tasks.

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
        await self._changes.written(written, [fact.record for fact in facts])

    async def _read(self, group: MessageGroup) -> list[NewRecord]:
        passage = Passage(
            messages=[_said(message) for message in group.messages],
            context=[_said(message) for message in group.context],
        )
        messages = {message.id: message for message in group.messages}
        return [
            record
            for item in await self._extractor.extract(passage)
            for record in _records(item, [messages[source] for source in item.sources])
        ]

    async def _compared(self, records: Sequence[NewRecord]) -> list[ExtractedFact]:
        """Every fact with what it is to those that are known, and to those found before it."""
        if not records:
            return []
        found: list[ExtractedFact] = []
        for record, known in zip(records, await self._ledger.extraction.like(records), strict=True):
            gone = {id_ for fact in found for id_ in fact.replaces}
            standing = [one for one in known if one.id not in gone]
            found.append(_fact(record, compare(record, [*standing, *_before(record, found)])))
        _reading.cache_clear()  # so that what is forgotten is not in memory either
        return found


def _said(message: Record) -> Said:
    return Said(
        id=message.id,
        role=message.role or "",
        content=message.content,
        at=message.event_time,
        speaker=None if _is_owner(message) else message.label,
    )


def _is_owner(message: Record) -> bool:
    """Whether the name of who speaks is the user's own."""
    return (message.label or "").casefold() == message.owner.casefold()


def _records(item: Item, messages: Sequence[Record]) -> Iterator[NewRecord]:
    """A record for each scope that the item belongs to."""
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
    """Whose it is: what is under a key of everybody's is for the agent, too."""
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
    """Those found in the same batch that stand where the record will."""
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
        bearings=[Bearing(type="contradicts", target=one.id) for one in by["contradicts"]],
    )
