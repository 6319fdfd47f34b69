"""Store and read the facts of one caller.

Facts have a topic key, are made of a triplet, or are plain text. Everything is limited to what the
caller may see and write.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, get_args

import msgspec

from local2.errors import InvalidArgumentsError
from local2.keys import checked_topic, is_topic, is_user_topic
from local2.language.names import states_alias
from local2.language.statements import differ_in_value
from local2.ledger.ledger import Ledger
from local2.ledger.operations.relations import TripletFact
from local2.ledger.records import (
    EXTRACTED_FROM,
    Actor,
    Fact,
    NewRecord,
    Record,
    Written,
    checked_text,
    place_of_topic,
    principal_of,
    sources_of,
)
from local2.memory.changes import Changes
from local2.memory.scopes import (
    check_may_write,
    may_retire,
    may_see,
    own_places,
    owner_in,
    owner_of,
    stated_by,
)
from local2.protocol.envelope import Caller, Clock, new_id
from local2.protocol.memories import Kind, OwnerScope, RetirementReason, Triplet
from local2.protocol.memory_tools import (
    MAX_RELATED,
    EditedMemory,
    HiddenMemories,
    PinnedMemories,
    RetiredFacts,
)

RELATED_SECONDS = 0.05
"""Maximum seconds that a write's answer waits for related facts: usually one to three thousandths,
but other reads may come first."""
MAX_COMPARED = 10
"""Maximum number of records of one write for which related facts are looked for."""

FACTS: tuple[Kind, ...] = ("fact",)
SETTLED: tuple[Kind, ...] = ("fact", "note")
"""The kinds that are stated one by one, and can be edited and retired."""
WITH_REASON: frozenset[RetirementReason] = frozenset(
    {"edited", "withdrawn", "hidden", "contradicted"}
)
"""Why a record was retired by a caller, who gave a reason, or by what its user said."""


class Facts:
    """The facts that one caller may read and write."""

    def __init__(
        self,
        ledger: Ledger,
        changes: Changes,
        caller: Caller,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._changes = changes
        self._caller = caller
        self._clock = clock

    async def topic(self, topic: str) -> Record | None:
        """The active version of a standing fact. Its key is spelled as first stored.

        Raises:
            InvalidArgumentsError: The key violates the rule for topics.
        """
        for scope, owner in self._places_of(topic):
            if found := await self._ledger.facts.topic(scope, owner, topic):
                return found
        return None

    async def topics_like(self, topic: str) -> list[str]:
        """The caller's keys that may have been meant by one that is not in use."""
        places = self._places_of(topic)
        near = [await self._ledger.facts.topics_like(*place, topic) for place in places]
        return list(dict.fromkeys(key for keys in near for key in keys))

    def _places_of(self, topic: str) -> list[tuple[OwnerScope, str]]:
        """Where a fact with this key may be: first where `store_topic` puts it."""
        first = place_of_topic(checked_topic(topic), self._caller.user)
        only_users = is_user_topic(topic)
        places = [at for at in own_places(self._caller) if at[0] == "user" or not only_users]
        return sorted(places, key=lambda place: place != first)

    async def history(self, topic_or_id: str) -> list[Record]:
        """All versions of a fact, newest first, by its topic key or any version's id.

        A caller who may see one version also sees the anonymised ones.

        Raises:
            InvalidArgumentsError: The key or id is blank.
        """
        checked_text(topic_or_id, "topic_or_id")
        if is_topic(topic_or_id):
            places = own_places(self._caller)
            found = [await self._ledger.facts.history(*place, topic_or_id) for place in places]
            ids = [record.id for versions in found for record in versions]
        else:
            ids = [topic_or_id]
        chain = await self._ledger.records.chain(*ids)
        visible = [record for record in chain if may_see(record, self._caller)]
        if all(record.retired_why == "anonymised" for record in visible):
            return []  # anonymised records no longer have an owner to check
        rows = {record.row for record in visible}
        return [
            version
            for version in chain
            if version.row in rows or version.retired_why == "anonymised"
        ]

    async def store_topic(self, topic: str, content: str) -> Written:
        """Set the value of a standing fact.

        Raises:
            InvalidArgumentsError: The key violates the rule for topics, or the content is blank.
        """
        scope, owner = place_of_topic(checked_topic(topic), self._caller.user)
        return await self._write(self._record(content, scope, owner, topic=topic))

    async def store(self, fact: Fact, *, replaces: Sequence[str] = ()) -> Written:
        """Store a fact.

        It replaces a fact of the same topic at once, and in the same transaction the facts with the
        ids `replaces`, all or none. If a judge is configured, contradictions to other facts are
        looked for after this returns.

        Raises:
            InvalidArgumentsError: The caller lacks the identity that the scope needs, the topic is
                invalid or belongs to another scope, the content is blank, or the fact may not
                replace one of `replaces`.
        """
        is_users = fact.topic is not None and is_user_topic(checked_topic(fact.topic))
        if is_users and fact.scope != "user":
            raise InvalidArgumentsError(
                f"topic: {fact.topic!r} is a key for the user's own facts, not for scope "
                f"{fact.scope!r}.",
                remedy="Use scope 'user', or a key that starts with project. or constraint.",
            )
        record = self._record(
            fact.content,
            fact.scope,
            owner_in(fact.scope, self._caller),
            topic=fact.topic,
            memory_type=fact.memory_type,
            durability=fact.durability,
            importance=fact.importance,
            tasks=self._changes.tasks_of_facts,
        )
        older = await self._replaceable(replaces, "replaces", lambda _: record)
        written = await self._write(record, replaces=older)
        if written.was_new or record.topic is not None:
            return written
        # It is known, but news again if another value was stated since: "I live in Rome", once more
        # after "I live in Bath".
        (same, *_), (similar,) = await asyncio.gather(
            self._ledger.records.chain(written.id), self._ledger.extraction.similar([record])
        )
        was_changed = any(
            other.row > same.row
            and may_retire(record, other)
            and differ_in_value(record.content, other.content)
            for other in similar
        )
        return await self._write(record, again=True, replaces=older) if was_changed else written

    async def store_triplets(self, triplets: Sequence[Triplet], scope: OwnerScope) -> list[Written]:
        """Store each triplet as a fact of its own, all or none. Known facts are not stored again.

        A known name is stored in its first spelling. A fact is linked with the facts of its scope
        and owner, and of the tenant, that name its subject or object, also by an alias that another
        fact states ("Bob is also known as Robert Smith").

        Raises:
            InvalidArgumentsError: The caller lacks the identity that the scope needs, or a part is
                blank.
        """
        owner, at = owner_in(scope, self._caller), self._clock()
        normalised = [triplet.normalised() for triplet in triplets]
        for number, triplet in enumerate(normalised):
            for part in Triplet.__struct_fields__:
                if not getattr(triplet, part):
                    raise InvalidArgumentsError(
                        f"facts[{number}].{part} is blank.",
                        remedy="Give each fact a subject, a predicate and an object.",
                    )
        facts = [
            TripletFact(
                triplet=triplet,
                alias=states_alias(triplet.subject, triplet.predicate, triplet.object),
                record=self._record(
                    triplet.sentence(),
                    scope,
                    owner,
                    memory_type="fact",
                    metadata={"triplet": msgspec.to_builtins(triplet)},
                    tasks=self._changes.tasks_of_facts,
                    event_time=at,
                ),
            )
            for triplet in normalised
        ]
        written = await self._ledger.knowledge.store(facts)
        self._changes.written(written, [fact.record for fact in facts])
        return written

    async def edit(self, id_: str, content: str, reason: str) -> EditedMemory:
        """Replace a fact or a note with a version of another text, which keeps its other columns.

        If it has been replaced by a version of the same text already, nothing is written.

        Raises:
            InvalidArgumentsError: The text or the reason is blank, the caller may not replace the
                memory, it no longer stands, or the text was erased on request.
            ForbiddenError: The caller's role may not write to its scope.
        """
        checked_text(reason, "reason")
        (older,) = await self._replaceable([id_], "id", self._statement(content), SETTLED)
        if older.superseded_by is not None:
            known = await self._ledger.records.by_id([older.superseded_by])
            newer = known.get(older.superseded_by)
            if older.retired_why == "edited" and newer is not None and newer.content == content:
                return EditedMemory(id=newer.id, was_new=False)
            raise _no_longer_stands()
        if older.content == content:
            return EditedMemory(id=older.id, was_new=False)
        metadata = older.metadata  # of a fact, a triplet would no longer say the same
        if older.kind == "fact":
            metadata = {EXTRACTED_FROM: sources} if (sources := sources_of(older)) else {}
        kept = ("kind", "topic", "label", "memory_type", "durability", "importance", "session_id")
        record = self._record(
            content,
            older.scope,
            older.owner,
            **{name: getattr(older, name) for name in kept},
            metadata=metadata,
        )
        actor = self._actor_of_run()
        written = await self._ledger.facts.edit(older, record, reason, actor)
        if written.erased:
            raise InvalidArgumentsError(
                "content: this text was erased on request.", remedy="Write it in other words."
            )
        if not written.was_new:
            raise _no_longer_stands()
        self._changes.written([written], [record])
        return EditedMemory(id=record.id, was_new=True, run=actor.run)

    async def retire(self, ids: Sequence[str], reason: str) -> RetiredFacts:
        """Retire facts and notes, all or none; the answer has those that were still active.

        They stay in the history, with the reason. What an agent has of a fact for everybody is
        retired with it.

        Raises:
            InvalidArgumentsError: The reason is blank, or one of the ids is not that of a memory
                that the caller may replace.
            ForbiddenError: The caller's role may not write to the scope of one of them.
        """
        retired, run = await self._withdraw(ids, reason, SETTLED, "withdrawn")
        return RetiredFacts(retired=retired, run=run)

    async def hide(self, ids: Sequence[str], reason: str) -> HiddenMemories:
        """Let memories of any kind never be recalled again, all or none.

        Raises what `retire` raises.
        """
        hidden, run = await self._withdraw(ids, reason, get_args(Kind), "hidden")
        return HiddenMemories(hidden=hidden, run=run)

    async def pin(self, ids: Sequence[str], reason: str, *, pinned: bool = True) -> PinnedMemories:
        """Pin facts, all or none, so that they are among the first that are shown unasked.

        Raises what `retire` raises.
        """
        checked_text(reason, "reason")
        facts = await self._replaceable(ids, "ids", self._statement(reason))
        actor = self._actor_of_run()
        changed = await self._ledger.facts.pin(facts, reason, actor, self._clock(), pinned=pinned)
        return PinnedMemories(changed=changed, run=actor.run if changed else None)

    async def reasons(self, records: Sequence[Record]) -> dict[str, str]:
        """What was said to `edit`, `retire` or `hide`, or ended them, by the records' ids."""
        ids = [record.id for record in records if record.retired_why in WITH_REASON]
        return await self._ledger.facts.withdrawals(ids) if ids else {}

    async def related(self, ids: Sequence[str]) -> list[Record] | None:
        """A few standing facts about the same things as facts or messages that were just stored.

        They share words or a key with one of them, and the caller may replace them. Nearness of
        meaning is not used: what is new has no vectors yet, and to embed it would take longer than
        to store it. None if there was no time to look.
        """
        ids = ids[:MAX_COMPARED]
        try:
            async with asyncio.timeout(RELATED_SECONDS):
                found = await self._ledger.extraction.related(ids)
        except TimeoutError:
            return None
        standing = {
            older.id: older
            for group in found
            for older in group.related
            if older.id not in ids and may_retire(group.record, older)
        }
        return list(standing.values())[:MAX_RELATED]

    async def _withdraw(
        self, ids: Sequence[str], reason: str, kinds: Collection[Kind], why: RetirementReason
    ) -> tuple[list[str], str | None]:
        """The ids of the records that were still active, and the run, if there are any."""
        checked_text(reason, "reason")
        records = await self._replaceable(ids, "ids", self._statement(reason), kinds)
        actor = self._actor_of_run()
        retired = await self._ledger.facts.withdraw(records, reason, actor, self._clock(), why=why)
        self._changes.ended(retired, why)
        return [record.id for record in retired if record.id in ids], actor.run if retired else None

    def _statement(self, text: str) -> Callable[[Record], NewRecord]:
        """What makes the caller's statement in the place of a record."""
        return lambda record: self._record(text, record.scope, record.owner)

    def _actor_of_run(self) -> Actor:
        """The caller as the author of changes that are undone together."""
        return Actor(agent=self._caller.agent, user=owner_of(self._caller), run=new_id())

    async def _replaceable(
        self,
        ids: Sequence[str],
        argument: str,
        statement: Callable[[Record], NewRecord],
        kinds: Collection[Kind] = FACTS,
    ) -> list[Record]:
        """The records with these ids, if the caller's statement may retire each of them."""
        if not ids:
            return []
        known = await self._ledger.records.by_id(ids)
        facts = []
        for number, id_ in enumerate(ids):
            named = f"{argument}[{number}]" if argument != "id" else argument
            fact = known.get(id_)
            if fact is None or fact.kind not in kinds or not may_see(fact, self._caller):
                what = "memory" if len(kinds) > len(SETTLED) else " or ".join(kinds)
                raise InvalidArgumentsError(
                    f"{named}: there is no {what} with this id that you may see.",
                    remedy="Take the id from the result of a search, or from what else shows it.",
                )
            check_may_write(fact.scope, self._caller)
            new = statement(fact)
            if stated_by(fact, self._caller) == "self":  # also what nobody stated by name
                new = msgspec.structs.replace(new, stated_by=principal_of(fact))
            if not may_retire(new, fact):
                raise InvalidArgumentsError(
                    f"{named}: this {fact.kind} was stated by another user, or by a stronger "
                    "source, so it stays.",
                    remedy="Leave it out, and tell the user that both stand.",
                )
            facts.append(fact)
        return facts

    def _record(self, content: str, scope: OwnerScope, owner: str, **columns: Any) -> NewRecord:
        check_may_write(scope, self._caller)
        defaults: dict[str, Any] = {
            "kind": "fact",
            "event_time": self._clock(),
            "session_id": self._caller.session_id,
        }
        return NewRecord(
            id=new_id(),
            content=checked_text(content, "content"),
            scope=scope,
            owner=owner,
            agent=self._caller.agent,
            stated_by=owner_of(self._caller),
            **{**defaults, **columns},
        )

    async def _write(
        self, record: NewRecord, *, again: bool = False, replaces: Sequence[Record] = ()
    ) -> Written:
        written = await self._ledger.facts.store(
            record,
            again=again,
            and_unnamed=self._caller.has_unnamed and record.scope == "user",
            replaces=replaces,
        )
        stored = msgspec.structs.replace(record, id=written.id, topic=written.topic)
        self._changes.written([written], [stored])
        if not written.was_new:
            for replaced in written.replaced:
                self._changes.replaced(replaced, stored)
        return written


def _no_longer_stands() -> InvalidArgumentsError:
    return InvalidArgumentsError(
        "id: this memory no longer stands.",
        remedy="memory_history shows its newest version; edit that one.",
    )
