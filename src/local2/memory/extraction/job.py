"""Extract facts from users' messages, after these were stored word for word.

Each message is a task. The id of an extracted fact is made of the message's id and the fact, and
the fact is stored in the transaction that finishes the task, so extracting again after a kill
changes nothing.

A new fact is compared with known ones: it is the same, a later value, an addition or a
contradiction. It retires a known fact only if it is of the same user, newer and at least as strong;
documents and tools retire nothing that a user stated. In doubt, both facts stay.

A user also ends or denies what they stated ("I no longer work at Acme"): that retires the fact, and
nothing replaces it. What an agent stored for the user is only marked, and no longer a top memory.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Literal

import msgspec
import structlog

from local2.keys import fold_topic
from local2.language.corrections import has_new_amount, says_now
from local2.language.endings import Ending, endings_of, forget_matched, matched
from local2.language.statements import contains, forget_compared
from local2.ledger.ledger import Ledger
from local2.ledger.operations.extraction import (
    EndedFact,
    ExtractedFact,
    FactRelation,
    MessageGroup,
    OwnerMessages,
)
from local2.ledger.records import (
    EXTRACTED_FROM,
    OWN_ONLY,
    TENANT_OWNED,
    NewRecord,
    Record,
    Task,
    TaskKind,
    place_of_topic,
    source_class_of,
    sources_of,
)
from local2.memory.backlog import Job
from local2.memory.changes import Changes
from local2.memory.extraction.extractor import USER, Extractor, Passage, Utterance
from local2.memory.scopes import may_retire
from local2.protocol.envelope import content_id
from local2.protocol.memories import ACCUMULATING, OwnerScope

Effect = Literal["unrelated", "duplicate", "enriches", "supersedes", "outdated", "contradicts"]
"""What a new fact does to a known one; `outdated`: the known one was stated later."""

BATCH_MESSAGES = 64
"""Maximum number of messages in a batch, which takes about 10 ms by rules."""
GATHERING = 0.1
"""Seconds that an incomplete batch waits for more messages: each batch is a commit, which delays
other writes."""

log = structlog.get_logger()


class StatedFact(msgspec.Struct, frozen=True, kw_only=True):
    """A new fact. `corrects`: the content of a fact that was a mistake."""

    probe: NewRecord
    corrects: str | None = None


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """What a user says to be over or never to have been so, and what is searched for it.

    `probe` is not stored: it looks like the facts that the denial may end.
    """

    ending: Ending
    message: Record
    probe: NewRecord

    def ended(self, facts: Sequence[NewRecord]) -> list[NewRecord]:
        """Those of the known facts that it ends: what the same user stated, and not later.

        If it names no fact but a kind of them ("my instrument"), the only one of the kind. What an
        agent stored for the user may be ended by its name, but not what documents and tools say.
        """
        named: list[NewRecord] = []
        of_kind: list[NewRecord] = []
        speaker = _utterance(self.message).speaker
        for fact in facts:
            source = source_class_of(fact)
            if (
                source in {"stated", "asserted"}
                and may_retire(self.probe, fact)
                and fact.event_time <= self.probe.event_time
            ):
                how = matched(self.ending, fact.content, fact.topic, speaker)
                if how == "named":
                    named.append(fact)
                elif how == "kind" and source == "stated":
                    of_kind.append(fact)
        return named or (of_kind if len(of_kind) == 1 else [])


def compare(
    new: NewRecord, known: Sequence[NewRecord], *, corrects: str | None = None
) -> Mapping[Effect, Sequence[NewRecord]]:
    """The known facts by what a new one does to them; if it is a duplicate, only the first such.

    `corrects`: the content of a fact that the new one corrects.
    """
    compared: defaultdict[Effect, list[NewRecord]] = defaultdict(list)
    is_now = says_now(new.content)  # once, not for each of the known facts
    for old in known:
        compared[effect_on(new, old, corrects=corrects, is_now=is_now)].append(old)
    if duplicates := compared["duplicate"]:
        return {"duplicate": duplicates[:1]}
    return compared


def effect_on(new: NewRecord, old: NewRecord, *, corrects: str | None, is_now: bool) -> Effect:
    """Decide what a new fact does to an old one of the same scope and owner."""
    is_later = new.event_time >= old.event_time
    retires = may_retire(new, old)
    if corrects is not None and old.content == corrects and retires and is_later:
        return "supersedes"
    if new.memory_type == "task" and new.session_id != old.session_id:
        return "unrelated"
    if _contains(old, new):
        return "duplicate"
    if (
        new.topic is not None
        and old.topic is not None
        and fold_topic(new.topic) == fold_topic(old.topic)
    ):
        if source_class_of(old) == "asserted" and _contains(new, old):
            return "duplicate"  # the old one may be just "Elixir", the new one a sentence with it
        if not retires:
            return "contradicts"
        return "supersedes" if is_later else "outdated"
    if retires and is_later:
        if is_now and has_new_amount(new.content, old.content):
            return "supersedes"
        if _contains(new, old) and new.topic is None is old.topic:
            return "enriches"
    return "unrelated"


def _contains(one: NewRecord, other: NewRecord) -> bool:
    """Whether one fact contains everything that the other one states."""
    if (ACCUMULATING | {"task"}) & {one.memory_type, other.memory_type}:
        return one.content.casefold().split() == other.content.casefold().split()
    return contains(one.content, other.content)


class Extraction(Job):
    """Extracts facts from users' messages, oldest first: later ones may replace earlier facts."""

    name = "extraction"
    kinds = ("extract",)

    def __init__(self, ledger: Ledger, changes: Changes, extractor: Extractor) -> None:
        self._ledger = ledger
        self._changes = changes
        self._extractor = extractor

    def batch_size(self, kind: TaskKind) -> int:
        del kind
        return BATCH_MESSAGES

    async def do(self, tasks: Sequence[Task]) -> None:
        """Extract facts from messages, and store them while finishing the tasks.

        Where stacks share the ledger, each owner's are stored apart: together, they would hold up
        the writes of the first owner while they wait for those of the last.
        """
        if len(tasks) < BATCH_MESSAGES:
            await asyncio.sleep(GATHERING)
        read = await self._ledger.extraction.messages(tasks)
        if self._ledger.extraction.is_shared:
            for of_owner in read:
                await self._extract(of_owner.tasks, [of_owner])
        else:
            await self._extract(tasks, read)

    async def _extract(self, tasks: Sequence[Task], read: Sequence[OwnerMessages]) -> None:
        """Extract facts from messages in one transaction, and finish their tasks."""
        facts: list[StatedFact] = []
        denials: list[Denial] = []
        rows: dict[str, int] = {}
        """The rows of the messages by their ids."""
        sources = [task.id for task in tasks]
        for group in chain.from_iterable(of_owner.groups for of_owner in read):
            facts += await self._facts_in(group)
            denials += await asyncio.to_thread(denials_in, group, sources)
            rows.update((message.id, message.row) for message in group.messages)
        found = await self._compare(facts, denials, rows)
        stored = await self._ledger.extraction.store(
            found, tasks, sources=sources, owners=[of_owner.owner for of_owner in read]
        )
        records = [change.record for change in found if isinstance(change, ExtractedFact)]
        new = sum(fact.was_new for fact in stored.written)
        if new or stored.ended:
            log.info(
                "facts_extracted",
                messages=len(sources),
                found=len(records),
                new=new,
                ended=len(stored.ended),
            )
        self._changes.written(stored.written, records)
        self._changes.ended(stored.ended, "contradicted")

    async def _facts_in(self, group: MessageGroup) -> list[StatedFact]:
        """What the extractor finds: a fact for each place of each item."""
        passage = Passage(
            messages=[_utterance(message) for message in group.messages],
            context=[_utterance(message) for message in group.context],
        )
        messages = {message.id: message for message in group.messages}
        facts = []
        for item in await self._extractor.extract(passage):
            last = messages[item.sources[-1]]
            if item.memory_type == "task":
                places: list[tuple[OwnerScope, str]] = [("session", last.owner)]
            elif item.topic is None:
                places = [("user", last.owner)]
            else:
                places = [place_of_topic(item.topic, last.owner)]
            if places == [("tenant", TENANT_OWNED)]:
                if last.metadata.get(OWN_ONLY):
                    places = [("user", last.owner)]
                elif last.agent:  # what is for everybody also belongs to the agent
                    places.append(("agent", last.agent))
            for scope, owner in places:
                record = NewRecord(
                    id=content_id("extracted", scope, owner, list(item.sources), item.content),
                    kind="fact",
                    content=item.content,
                    event_time=last.newness,
                    scope=scope,
                    owner=owner,
                    topic=item.topic,
                    memory_type=item.memory_type,
                    durability=item.durability,
                    importance=item.importance,
                    metadata={EXTRACTED_FROM: list(item.sources)},
                    agent=last.agent,
                    session_id=last.session_id,
                    source_class="stated",
                    stated_by=last.owner,
                    summary=item.summary,
                    keywords=item.keywords,
                    queries=item.queries,
                    confidence=item.confidence,
                )
                facts.append(StatedFact(probe=record, corrects=item.corrects))
        return facts

    async def _compare(
        self, facts: Sequence[StatedFact], denials: Sequence[Denial], rows: Mapping[str, int]
    ) -> list[ExtractedFact | EndedFact]:
        """Compare each fact with known ones and with those before it, and end what was denied.

        `rows`: the rows of the messages by their ids.
        """

        def said_at(said: StatedFact | Denial) -> tuple[datetime, int, bool]:
            if isinstance(said, Denial):
                return said.message.newness, said.message.row, False
            return said.probe.event_time, rows[sources_of(said.probe)[-1]], True

        compared: Sequence[StatedFact | Denial] = facts
        if denials:  # in order of time, a message's denials before its facts
            compared = sorted([*denials, *facts], key=said_at)
        if not compared:
            return []
        known = await self._ledger.extraction.similar([said.probe for said in compared])
        return await asyncio.to_thread(_decide, compared, known)


def _decide(
    compared: Sequence[StatedFact | Denial], known_facts: Sequence[Sequence[NewRecord]]
) -> list[ExtractedFact | EndedFact]:
    """What becomes of each fact, and of the known ones that are like it: long work, if many are.

    A batch of messages may state hundreds of facts, each of which is compared with the others.
    """
    found: list[ExtractedFact | EndedFact] = []
    gone: set[str] = set()
    """Ids of facts that were replaced or ended by what was compared before."""
    topics: defaultdict[str, set[str]] = defaultdict(set)
    """The topics of what each message states."""
    for said in compared:
        if isinstance(said, StatedFact) and said.probe.topic:
            for source in sources_of(said.probe):
                topics[source].add(fold_topic(said.probe.topic))
    for said, known in zip(compared, known_facts, strict=True):
        place = (said.probe.scope, said.probe.owner)
        candidates = [
            *(fact for fact in known if fact.id not in gone),
            *(  # of this batch, and stored in the same place
                change.record
                for change in found
                if isinstance(change, ExtractedFact)
                and change.same_as is None
                and change.outdated_by is None
                and change.record.id not in gone
                and (change.record.scope, change.record.owner) == place
            ),
        ]
        if isinstance(said, Denial):
            instead = topics[said.message.id]
            ended = [
                EndedFact(fact=fact, message=said.message)
                for fact in said.ended(candidates)
                if fact.topic is None or fold_topic(fact.topic) not in instead
            ]
            gone |= {change.fact.id for change in ended if change.retires}
            found += ended
            continue
        by_effect = compare(said.probe, candidates, corrects=said.corrects)
        same, later = by_effect.get("duplicate"), by_effect.get("outdated")
        fact = ExtractedFact(
            record=said.probe,
            sources=said.probe.metadata[EXTRACTED_FROM],
            same_as=same[0].id if same else None,
            replaces=[
                old.id for effect in ("supersedes", "enriches") for old in by_effect.get(effect, ())
            ],
            outdated_by=later[0].id if later else None,
            relations=[
                FactRelation(type="contradicts", target=old.id)
                for old in by_effect.get("contradicts", ())
            ],
        )
        gone |= set(fact.replaces)
        found.append(fact)
    forget_compared()  # erased content must not stay in memory
    forget_matched()
    return found


def denials_in(group: MessageGroup, ids: Collection[str]) -> list[Denial]:
    """What users end or deny in those of the messages that are to be read."""
    denials: list[Denial] = []
    before: dict[str | None, str] = {}
    """Each speaker's message before."""
    for message in (*group.context, *group.messages):
        if message.role != USER:
            continue
        if message.id in ids:
            for ending in endings_of(message.content, before.get(message.label, "")):
                probe = NewRecord(
                    id=content_id("denial", message.id, ending.searched),
                    kind="fact",
                    content=ending.searched,
                    event_time=message.newness,
                    scope="user",
                    owner=message.owner,
                    source_class="stated",
                    stated_by=message.owner,
                )
                denials.append(Denial(ending=ending, message=message, probe=probe))
        before[message.label] = message.content
    return denials


def _utterance(message: Record) -> Utterance:
    speaks_for_self = (message.label or "").casefold() == message.owner.casefold()
    return Utterance(
        id=message.id,
        role=message.role or "",
        content=message.content,
        at=message.event_time,
        speaker=None if speaks_for_self else message.label,
    )
