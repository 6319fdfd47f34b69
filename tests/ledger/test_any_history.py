"""Whatever is done to a ledger, in any order: each write is there, and what was erased is not.

Two tenants' ledgers in one file are changed at random, beside a plain model of what they should
hold. After each step a ledger holds, counts and finds what the model holds, and nothing else; its
audit tells what became of each record, and names none that was erased.
"""

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count, cycle, product
from typing import Any, Literal, TypeVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from exporting import IMPORTER, lines, parsed
from ledger.conftest import NewLedger, OpenLedger, every_ledger
from ledgers import DAY, EMBEDDER, OWNER, angle, fact, find, message, record, searching, to_index
from local2.ledger.erasing import Erased, ErasureOptions, Selected, Selection, Traces, combined
from local2.ledger.ledger import Ledger
from local2.ledger.operations.relations import Relation
from local2.ledger.operations.upkeep import Change
from local2.ledger.records import DERIVED_FROM, ERASED, EXTRACTED_FROM, Actor, Written, sources_of
from local2.ledger.search import Place
from local2.protocol.envelope import utc_now
from local2.protocol.portable import RecordLine

T = TypeVar("T")

ERASED_AT, AFTER_ERASURES = DAY + timedelta(days=1), DAY + timedelta(days=2)
TENANTS = st.sampled_from(["acme", "acme", "acme", "other"])
OWNERS = st.sampled_from([OWNER, OWNER, OWNER, "eve"])
"""Most is done to one owner's records: so they meet often."""
SESSIONS = st.sampled_from(["s1", "s2"])
TOPICS = ("user.metal", "user.drink")
METALS = st.sampled_from(["osmium", "iridium", "gold"])
"""So few that the same words are said again, for another topic, or by somebody else."""
PICKED = st.integers(0, 40)
"""Which of the records so far: it has this number, counted in a circle."""


@dataclass
class Expected:
    """A record as the ledger should hold it."""

    kind: Literal["chat_message", "episode", "fact"]
    owner: str
    content: str
    session_id: str | None = None
    topic: str | None = None
    turn: str | None = None
    superseded_by: str | None = None
    retired_why: str | None = None
    indexed: bool = False
    derived_from: set[str] = field(default_factory=set)
    extracted_from: list[str] = field(default_factory=list)
    audit: list[str] = field(default_factory=list)
    """What was done to it, oldest first."""

    @property
    def active(self) -> bool:
        return self.superseded_by is None

    @property
    def columns(self) -> tuple[object, ...]:
        return (
            self.kind,
            self.owner,
            self.content,
            self.session_id,
            self.topic,
            self.turn,
            self.superseded_by,
            self.retired_why,
            self.extracted_from,
        )


class Tenant:
    """What one tenant's ledger should hold: records in the order in which they were stored."""

    def __init__(self) -> None:
        self.records: dict[str, Expected] = {}
        self.leaving: set[str] = set()  # the index
        self.erasures = 0
        self.erased: set[str] = set()
        self.erased_texts: set[tuple[str, str]] = set()
        self.supports: set[tuple[str, str]] = set()
        self.exports: list[list[bytes]] = []

    def facts(self, owner: str | None = None) -> dict[str, Expected]:
        return {
            id_: found
            for id_, found in self.records.items()
            if found.kind == "fact" and owner in {None, found.owner}
        }

    def under(self, owner: str, topic: str) -> list[str]:
        """Return the ids of a topic's versions, the newest first."""
        return [id_ for id_, found in self.facts(owner).items() if found.topic == topic][::-1]

    def retire(self, id_: str, by: str, why: str = "superseded") -> None:
        retired = self.records[id_]
        retired.superseded_by, retired.retired_why = by, why
        retired.audit.append(why)
        self.leaving.add(id_)

    def restore(self, id_: str) -> None:
        restored = self.records[id_]
        restored.superseded_by = restored.retired_why = None
        restored.indexed = False
        restored.audit.append("undone")
        self.leaving.discard(id_)

    def move_supports(self, former: str, version: str) -> None:
        """What supports a fact, or is supported by it, goes with another version of it."""
        for edge in [*self.supports]:
            (other,) = set(edge) - {former} if former in edge else [None]
            if other not in {None, version} and self.records[other].superseded_by != former:
                self.supports.remove(edge)
                self.supports.add((version, other) if edge[0] == former else (other, version))

    def versions_of(self, id_: str) -> set[str]:
        """Return the ids of a record, of those that replaced it, and of all that these replaced."""
        versions = {id_} & self.records.keys()
        newest = id_
        while (found := self.records.get(newest)) and found.superseded_by:
            newest = found.superseded_by
            versions.add(newest)
        while (
            older := {id_ for id_, found in self.records.items() if found.superseded_by in versions}
            - versions
        ):
            versions |= older
        return versions

    def selected(self, selection: Selection) -> set[str]:
        """Return the ids of what is erased: the selection, whole turns, and what derives of it."""
        owned = {id_: one for id_, one in self.records.items() if one.owner == selection.owner}
        if selection.id is not None:
            gone = self.versions_of(selection.id) & owned.keys()
        elif selection.topic is not None:
            topic = selection.topic.lower()
            gone = {id_ for id_, found in owned.items() if found.topic == topic}
        else:
            session_id = selection.session_id
            gone = {
                id_
                for id_, one in owned.items()
                if session_id is None or (session_id == one.session_id and not one.extracted_from)
            }
        while (
            more := {
                id_
                for id_, found in owned.items()
                if (found.turn and any(self.records[other].turn == found.turn for other in gone))
                or (found.derived_from and found.derived_from <= gone)
            }
            - gone
        ):
            gone |= more
        return gone

    def erase(self, ids: Iterable[str]) -> list[str]:
        """Erase records; return the ids of those that were merged into them."""
        self.erasures += 1
        for id_ in ids:
            gone = self.records.pop(id_)
            self.erased.add(id_)
            self.erased_texts.add((gone.owner, gone.content))
            if gone.active:
                self.leaving.add(id_)
        self.supports = {ends for ends in self.supports if not self.erased & {*ends}}
        merged = []
        for id_, left in self.records.items():
            left.derived_from -= self.erased
            left.extracted_from = [one for one in left.extracted_from if one not in self.erased]
            if left.superseded_by in self.erased:
                left.superseded_by = ""
                if left.retired_why == "merged":
                    merged.append(id_)
        return merged

    def restore_merged(self, ids: Iterable[str]) -> None:
        """Restore these, of a topic the first, unless another fact has the topic."""
        for id_ in ids:
            one = self.records[id_]
            others = self.under(one.owner, one.topic) if one.topic else []
            if not any(self.records[other].active for other in others):
                self.restore(id_)


class AnyHistory(RuleBasedStateMachine):
    """Operations of the ledger in any order."""

    def __init__(self, new_ledger: NewLedger) -> None:
        super().__init__()
        self._new_ledger = new_ledger
        self._runner = asyncio.Runner()
        self._opened = AsyncExitStack()
        self._numbers = count(1)
        self._tenants = {"acme": Tenant(), "other": Tenant()}
        self._looked_at = cycle(self._tenants)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def _ledger(self, tenant: str) -> Ledger:
        return self._ledgers[tenant]

    async def _open(self, ledger: OpenLedger) -> None:
        of_tenant = await self._opened.enter_async_context(ledger())
        self._ledgers = {tenant: of_tenant(tenant) for tenant in self._tenants}
        self._of_tenant = of_tenant
        self._opens = ledger

    @initialize(
        metals=st.lists(METALS, min_size=2, max_size=2),
        picked=st.lists(PICKED, min_size=7, max_size=7),
    )
    def open(self, metals: list[str], picked: list[int]) -> None:
        """Open the ledgers, one with messages, a turn, and facts that were replaced and merged.

        So the first steps already meet what belongs together.
        """
        self._run(self._open(self._new_ledger()))
        for session_id, metal in zip(("s1", "s2"), metals, strict=True):
            self.say("acme", OWNER, session_id, metal)
        self.state("acme", OWNER, TOPICS[0], metals[0], None)
        self.export("acme")
        self.state("acme", OWNER, TOPICS[1], metals[1], 0)  # which replaces the former
        self.extract("acme", picked[0], picked[1], metals[1])
        self.extract("acme", picked[2], picked[3], metals[0])
        self.answer("acme", OWNER, "s1", picked[4])
        self.merge("acme", OWNER, picked[5], picked[6], undone=True)
        # An extracted fact and one with a topic of its own, which may be taken again.
        self.merge("acme", OWNER, 1 + picked[6] % 2, 1, undone=False)
        self.state("acme", OWNER, TOPICS[0], metals[1], None)
        self.merge("acme", OWNER, 2, 1, undone=False)
        if picked[6] % 3:
            self.state("acme", OWNER, TOPICS[0], metals[0], None)

    def teardown(self) -> None:
        self._run(self._opened.aclose())
        self._runner.close()

    @rule()
    def reopen(self) -> None:
        self._run(self._opened.aclose())
        self._run(self._open(self._opens))

    @rule()
    def reopen_after_a_kill(self) -> None:
        left = self._opens.after_a_kill()
        self._run(self._opened.aclose())
        self._run(self._open(left))

    @rule(tenant=TENANTS, owner=OWNERS, session_id=SESSIONS, metal=METALS)
    def say(self, tenant: str, owner: str, session_id: str, metal: str) -> None:
        expected = self._tenants[tenant]
        id_ = f"m{next(self._numbers)}"
        said = message(f"The heaviest of all metals is {metal}.", id=id_, owner=owner,
                       session_id=session_id)  # fmt: skip
        (written,) = self._run(self._ledger(tenant).records.store([said]))
        if (owner, said.content) in expected.erased_texts:
            assert written.erased
            return
        assert written.was_new
        expected.records[id_] = Expected("chat_message", owner, said.content, session_id)

    @rule(tenant=TENANTS, picked=PICKED)
    def say_again_with_the_same_id(self, tenant: str, picked: int) -> None:
        """A record that is there stays as it is, and an erased one does not return."""
        expected = self._tenants[tenant]
        ids = sorted({*expected.records, *expected.erased})
        if ids:
            again = message("Something else is said.", id=ids[picked % len(ids)])
            (written,) = self._run(self._ledger(tenant).records.store([again]))
            assert not written.was_new
            assert written.erased == (again.id in expected.erased)

    @rule(
        tenant=TENANTS,
        owner=OWNERS,
        topic=st.sampled_from([None, *TOPICS]),
        metal=METALS,
        replaced=st.none() | PICKED,
    )
    def state(
        self, tenant: str, owner: str, topic: str | None, metal: str, replaced: int | None
    ) -> None:
        expected, ledger = self._tenants[tenant], self._ledger(tenant)
        facts = expected.facts(owner)
        older = [] if replaced is None or not facts else [[*facts][replaced % len(facts)]]
        stated = fact(f"Likes {metal}.", id=f"f{next(self._numbers)}", owner=owner, topic=topic)

        async def store() -> Written:
            records = await ledger.records.by_id(older)
            return await ledger.facts.store(stated, replaces=list(records.values()))

        written = self._run(store())

        active = {id_: found for id_, found in facts.items() if found.active}
        same = [id_ for id_, found in active.items() if found.content == stated.content]
        if topic is not None:
            same = [id_ for id_ in same if active[id_].topic in {None, topic}]
        known = [id_ for id_ in same if topic in {None, active[id_].topic}]
        gone = [] if known else [id_ for id_ in active if topic and active[id_].topic == topic]
        gone += [] if known else [id_ for id_ in same if id_ not in gone]
        gone += [id_ for id_ in older if id_ in active and id_ not in {*gone, written.id}]
        if known:
            assert written.id in known
            assert not written.was_new
        else:
            assert (written.id, written.was_new) == (stated.id, True)
            expected.records[stated.id] = Expected("fact", owner, stated.content, topic=topic)
        assert sorted(written.replaced) == sorted(gone)
        for id_ in gone:
            expected.retire(id_, written.id)

    @rule(tenant=TENANTS, picked=PICKED, also=PICKED, metal=METALS)
    def extract(self, tenant: str, picked: int, also: int, metal: str) -> None:
        """Find a fact in one or two messages of a user."""
        expected, ledger = self._tenants[tenant], self._ledger(tenant)
        said = [id_ for id_, one in expected.records.items() if one.kind == "chat_message"]
        if not said:
            return
        first = said[picked % len(said)]
        source = expected.records[first]
        others = [id_ for id_ in said if expected.records[id_].owner == source.owner]
        sources = list(dict.fromkeys([first, others[also % len(others)]]))
        number = next(self._numbers)
        found = fact(f"Knows {metal}, {number}.", id=f"f{number}", owner=source.owner,
                     session_id=source.session_id, source_class="stated",
                     metadata={EXTRACTED_FROM: sources})  # fmt: skip

        async def store() -> Written:
            written = await ledger.facts.store(found)
            for id_ in sources:
                await ledger.facts.relate(found.id, DERIVED_FROM, id_)
            return written

        assert self._run(store()).was_new
        expected.records[found.id] = Expected(
            "fact",
            source.owner,
            found.content,
            source.session_id,
            derived_from=set(sources),
            extracted_from=sources,
        )

    @rule(tenant=TENANTS, owner=OWNERS, picked=PICKED, into=PICKED, undone=st.booleans())
    def merge(self, tenant: str, owner: str, picked: int, into: int, undone: bool) -> None:
        """Let one fact stand for two, as a consolidation does, and maybe take that back."""
        expected, ledger = self._tenants[tenant], self._ledger(tenant)
        active = [id_ for id_, one in expected.facts(owner).items() if one.active]
        if not active:
            return
        id_ = active[picked % len(active)]
        others = [other for other in expected.facts(owner) if other != id_]
        if not others:
            return
        newest = others[into % len(others)]
        actor = Actor(agent="consolidation", run=f"run{next(self._numbers)}")

        async def merge() -> list[bool]:
            facts = await ledger.upkeep.facts(Place("user", owner, "fact"), 0, 999)
            (older,) = (one for one in facts if one.id == id_)
            change = Change(action="merged", fact=older, reason="Same.", superseded_by=newest)
            return await ledger.upkeep.carry_out([change], actor)

        older, newer = expected.records[id_], expected.records[newest]
        assert self._run(merge()) == [newer.active]
        if not newer.active:
            return
        messages = [one for one in older.extracted_from if one not in newer.extracted_from]
        targets = older.derived_from - newer.derived_from
        expected.retire(id_, newest, "merged")
        newer.extracted_from = [*newer.extracted_from, *messages]
        newer.derived_from |= targets
        if messages or targets:
            newer.audit.append("enriched")
        if undone:
            problems = self._run(self._undo(ledger, actor))
            assert problems == [None] * (2 if messages or targets else 1)
            newer.extracted_from = [one for one in newer.extracted_from if one not in messages]
            newer.derived_from -= targets
            if messages or targets:
                newer.audit.append("undone")
            expected.restore(id_)

    async def _undo(self, ledger: Ledger, actor: Actor) -> list[str | None]:
        """Take back all changes of a run; return what was the problem with each."""
        page = await ledger.audit.page(lambda _: True, 9, run=actor.run)
        return [one.problem for one in await ledger.audit.undo(page.rows, Actor(agent="cli"))]

    @rule(tenant=TENANTS, picked=PICKED, undone=st.booleans())
    def edit(self, tenant: str, picked: int, undone: bool) -> None:
        """Write a fact anew, and maybe take that back."""
        expected, ledger = self._tenants[tenant], self._ledger(tenant)
        facts = expected.facts()
        if not facts:
            return
        id_ = [*facts][picked % len(facts)]
        older = facts[id_]
        number = next(self._numbers)
        newer = fact(f"Likes osmium {number}.", id=f"f{number}", owner=older.owner,
                     session_id=older.session_id, topic=older.topic,
                     metadata={EXTRACTED_FROM: older.extracted_from}
                     if older.extracted_from else {})  # fmt: skip
        actor = Actor(agent="cli", run=f"run{number}")

        async def edit() -> Written:
            found = await ledger.records.by_id([id_])
            return await ledger.facts.edit(found[id_], newer, "Wrong.", actor)

        written = self._run(edit())
        assert written.was_new == older.active
        if not older.active:
            return
        expected.records[newer.id] = Expected(
            "fact",
            older.owner,
            newer.content,
            older.session_id,
            older.topic,
            derived_from=set(older.extracted_from),
            extracted_from=older.extracted_from,
        )
        expected.retire(id_, newer.id, "edited")
        expected.move_supports(id_, newer.id)
        if undone:
            assert self._run(self._undo(ledger, actor)) == [None]
            expected.retire(newer.id, id_, "edited")
            expected.restore(id_)
            expected.move_supports(newer.id, id_)

    @rule(tenant=TENANTS, owner=OWNERS, picked=PICKED, other=PICKED)
    def relate(self, tenant: str, owner: str, picked: int, other: int) -> None:
        expected, ledger = self._tenants[tenant], self._ledger(tenant)
        facts = [id_ for id_, one in expected.facts(owner).items() if one.active]
        if len(facts) < 2:
            return
        source = facts[picked % len(facts)]
        target = [id_ for id_ in facts if id_ != source][other % (len(facts) - 1)]
        relation = Relation(source=source, type="supports", target=target, agent=None, user=owner,
                            at=DAY)  # fmt: skip
        was_new = self._run(ledger.relations.add(relation, lambda *_: None))
        assert was_new == ((source, target) not in expected.supports)
        if was_new:
            expected.supports.add((source, target))
            expected.records[source].audit.append("related")

    @rule(tenant=TENANTS, picked=PICKED)
    def withdraw(self, tenant: str, picked: int) -> None:
        expected, ledger = self._tenants[tenant], self._ledger(tenant)
        facts = expected.facts()
        if not facts:
            return
        id_ = [*facts][picked % len(facts)]

        async def withdraw() -> list[str]:
            found = await ledger.records.by_id([id_])
            withdrawn = await ledger.facts.withdraw([found[id_]], "Wrong.", Actor(agent="cli"), DAY)
            return [one.id for one in withdrawn]

        assert self._run(withdraw()) == [id_] * facts[id_].active
        if facts[id_].active:
            expected.retire(id_, "", "withdrawn")

    @rule(tenant=TENANTS, owner=OWNERS, session_id=SESSIONS, picked=st.none() | PICKED)
    def answer(self, tenant: str, owner: str, session_id: str, picked: int | None) -> None:
        """Store a turn, which may be derived from a fact; a second delivery changes nothing."""
        expected, ledger = self._tenants[tenant], self._ledger(tenant)
        facts = [*expected.facts(owner)]
        sources = [] if picked is None or not facts else [facts[picked % len(facts)]]
        number = next(self._numbers)
        about: dict[str, Any] = {
            "owner": owner,
            "session_id": session_id,
            "turn": f"t{number}",
            "query_id": f"q{number}",
            "event_time": AFTER_ERASURES,  # turns of before are refused
        }
        turn = [
            record(f"Q: Which, {number}?\nA: Lead.", id=f"e{number}", **about),
            message(f"Which, {number}?", id=f"t{number}", **about),
            message(f"Lead, {number}.", id=f"a{number}", role="assistant", **about),
        ]
        for was_new in (True, False):
            written = self._run(ledger.turns.store(turn, derived_from=sources))
            assert [one.was_new for one in written] == [was_new] * 3
        for one in turn:
            kind: Literal["episode", "chat_message"]
            kind = "episode" if one.kind == "episode" else "chat_message"
            expected.records[one.id] = Expected(
                kind, owner, one.content, session_id, turn=one.turn, derived_from=set(sources)
            )

    @rule(tenant=TENANTS)
    def embed(self, tenant: str) -> None:
        """Give a vector to each active record that has none."""
        expected, ledger = self._tenants[tenant], self._ledger(tenant)

        async def store_vectors() -> list[str]:
            waiting = await to_index(ledger, 999)
            new = sum(one.vector is None for one in waiting)  # what stands again has its vector
            await ledger.index.store_vectors(waiting, [angle(1)] * new, EMBEDDER)
            return [one.id for one in waiting]

        waiting = [id_ for id_, one in expected.records.items() if one.active and not one.indexed]
        assert sorted(self._run(store_vectors())) == sorted(waiting)
        for id_ in waiting:
            expected.records[id_].indexed = True

    @rule(tenant=TENANTS)
    def remove_from_the_index(self, tenant: str) -> None:
        """Remove what was retired or erased from the index, under the ids that it has there."""
        expected, ledger = self._tenants[tenant], self._ledger(tenant)

        async def remove() -> list[str]:
            tasks = await ledger.backlog.claim({"unindex": 999}, now=utc_now())
            await ledger.backlog.finish(tasks)
            return [str(task.id) for task in tasks]

        assert sorted(self._run(remove())) == sorted(expected.leaving)
        expected.leaving.clear()

    @rule(tenant=TENANTS, picked=PICKED)
    def erase_one(self, tenant: str, picked: int) -> None:
        """Erase a record, or one that is not there."""
        ids = [*self._tenants[tenant].records] or ["nothing"]
        id_ = ids[picked % len(ids)]
        one = self._tenants[tenant].records.get(id_)
        self._erase(tenant, Selection(owner=one.owner if one else OWNER, id=id_))

    @rule(tenant=TENANTS, owner=OWNERS, session_id=SESSIONS)
    def erase_a_session(self, tenant: str, owner: str, session_id: str) -> None:
        self._erase(tenant, Selection(owner=owner, session_id=session_id))

    @rule(tenant=TENANTS, owner=OWNERS, topic=st.sampled_from(TOPICS))
    def erase_a_topic(self, tenant: str, owner: str, topic: str) -> None:
        self._erase(tenant, Selection(owner=owner, topic=topic.upper()))

    @rule(
        tenant=TENANTS, owner=OWNERS, of=st.sampled_from(["an owner", "another's"]), picked=PICKED
    )
    def erase_more(self, tenant: str, owner: str, of: str, picked: int) -> None:
        """Erase everything of an owner, or nothing: the record is another's."""
        ids = [*self._tenants[tenant].records] or ["nothing"]
        id_ = None if of == "an owner" else ids[picked % len(ids)]
        self._erase(tenant, Selection(owner=owner, id=id_))

    def _erase(self, tenant: str, selection: Selection) -> None:
        expected, ledger = self._tenants[tenant], self._ledger(tenant)

        async def erase() -> tuple[Selected, Erased, Traces]:
            selected = await ledger.erasures.select(selection)
            options = ErasureOptions(at=ERASED_AT)
            parts = ledger.erasures.erase(selection, selected.rows, options)
            erased = combined([part async for part in parts])
            return selected, erased, await ledger.erasures.traces(erased)

        gone = expected.selected(selection)
        names = {"chat_message": "messages", "episode": "episodes", "fact": "facts"}
        counts = Counter(names[expected.records[id_].kind] for id_ in gone)
        in_index = {id_ for id_ in gone if expected.records[id_].active} | gone & expected.leaving

        selected, erased, traces = self._run(erase())

        assert (set(erased.ids), selected.counts) == (gone, counts)
        assert traces == Traces(ids=0, references=0, vectors=0, texts=0)
        assert {one.id for one in erased.unindexed} == in_index
        merged = expected.erase(gone)
        left = self._run(ledger.records.by_id(merged))
        # Of several of one topic any may be restored, but only one.
        expected.restore_merged(sorted(merged, key=lambda id_: left[id_].superseded_by is not None))

    @rule(tenant=TENANTS)
    def export(self, tenant: str) -> None:
        self._tenants[tenant].exports.append(self._run(lines(self._ledger(tenant))))

    @rule(tenant=TENANTS, picked=PICKED)
    def import_an_older_export(self, tenant: str, picked: int) -> None:
        """Nothing changes: it holds nothing new, and what was erased since then does not return."""
        expected, ledger = self._tenants[tenant], self._ledger(tenant)
        if expected.exports:
            older = expected.exports[picked % len(expected.exports)]
            before = self._run(lines(ledger))
            report = self._run(ledger.imports.store(parsed(older), IMPORTER))
            assert (report.new, report.replaced, report.conflicts) == ({}, 0, [])
            assert self._run(lines(ledger)) == before

    @rule(tenant=TENANTS, picked=PICKED, lacking=st.sets(PICKED, min_size=1))
    def bring_an_older_copy_up_to_date(self, tenant: str, picked: int, lacking: set[int]) -> None:
        """What was active in it is active, or its successor is there, even where records lack."""
        exports = self._tenants[tenant].exports
        if not exports:
            return
        older = parsed(exports[picked % len(exports)])
        newer = parsed(self._run(lines(self._ledger(tenant))))
        ids = [one.id for one in newer if isinstance(one, RecordLine)]
        left_out = {ids[one % len(ids)] for one in lacking} if ids else set()
        part = [one for one in newer
                if not (isinstance(one, RecordLine) and one.id in left_out)]  # fmt: skip

        async def import_both() -> None:
            copy = self._of_tenant(f"copy {next(self._numbers)}")
            await copy.imports.store(older, IMPORTER)
            there = {one.id for one in older if isinstance(one, RecordLine)}
            before = await copy.records.by_id([*there])
            active = [id_ for id_, one in before.items() if one.superseded_by is None]
            for imported in (part, newer):
                await copy.imports.store(imported, IMPORTER)
                after = await copy.records.by_id([*there, *ids])
                assert {after[id_].superseded_by for id_ in active} <= {None, *after}
            assert after.keys() == there | {*ids}

        self._run(import_both())

    @rule(tenant=TENANTS)
    def copy_into_an_empty_ledger(self, tenant: str) -> None:
        """All of it, with the audit of erasures."""
        exported = self._run(lines(self._ledger(tenant)))
        copy = self._of_tenant(f"copy {next(self._numbers)}")
        self._run(copy.imports.store(parsed(exported), IMPORTER))
        assert sorted(self._run(lines(copy))) == sorted(exported)

    @rule(tenant=TENANTS, picked=PICKED)
    def import_what_a_copy_lacked(self, tenant: str, picked: int) -> None:
        """It then is as if it had been there when what replaced it was erased."""
        expected = self._tenants[tenant]
        cases = []
        for owner, topic in product((OWNER, "eve"), TOPICS):
            selection = Selection(owner=owner, topic=topic)
            gone = expected.selected(selection)
            texts = {(expected.records[id_].owner, expected.records[id_].content) for id_ in gone}
            lacking = {
                id_
                for id_, one in expected.records.items()
                if one.superseded_by in gone and (one.owner, one.content) not in texts
            } - gone
            if lacking:
                cases.append((selection, gone, lacking))
        if not cases:
            return
        selection, gone, lacking = cases[picked % len(cases)]
        exported = parsed(self._run(lines(self._ledger(tenant))))
        ids = [*expected.records]

        async def erased_in_a_copy(lacking: set[str]) -> Counter[tuple[object, ...]]:
            copy = self._of_tenant(f"copy {next(self._numbers)}")
            there = [one for one in exported
                     if not (isinstance(one, RecordLine) and one.id in lacking)]  # fmt: skip
            await copy.imports.store(there, IMPORTER)
            selected = await copy.erasures.select(selection)
            options = ErasureOptions(at=ERASED_AT)
            async for _ in copy.erasures.erase(selection, selected.rows, options):
                pass
            await copy.imports.store(exported, IMPORTER)
            await self._check_audit(copy, gone)
            # Of several of one topic any may be restored, but only one.
            return Counter(
                (one.owner, one.topic, one.superseded_by, one.topic or one.id)
                for one in (await copy.records.by_id(ids)).values()
            )

        assert self._run(erased_in_a_copy(lacking)) == self._run(erased_in_a_copy(set()))

    async def _check_audit(self, ledger: Ledger, erased: set[str]) -> None:
        rows = (await ledger.audit.page(lambda _: True, 999)).rows
        assert not [row for row in rows if erased & {*re.findall(r"\w+", str(row.detail))}]

    @invariant()
    def each_tenants_ledger_holds_what_it_should(self) -> None:
        tenant = next(self._looked_at)  # one after each step: what is wrong is still so after two
        self._run(self._check(self._ledger(tenant), self._tenants[tenant]))

    async def _check(self, ledger: Ledger, expected: Tenant) -> None:
        found = await ledger.records.by_id([*expected.records, *expected.erased])
        assert {
            id_: (
                one.kind,
                one.owner,
                one.content,
                one.session_id,
                one.topic,
                one.turn,
                one.superseded_by,
                one.retired_why,
                sources_of(one),
            )
            for id_, one in found.items()
        } == {id_: one.columns for id_, one in expected.records.items()}
        counts = await ledger.counts()
        active = {id_: one for id_, one in expected.records.items() if one.active}
        assert counts.records == len(expected.records)
        assert counts.indexed == sum(one.indexed for one in active.values())
        assert counts.waiting == len(active) - counts.indexed
        for owner in (OWNER, "eve"):
            for topic in TOPICS:
                history = await ledger.facts.history("user", owner, topic)
                assert [one.id for one in history] == expected.under(owner, topic)
                current = await ledger.facts.topic("user", owner, topic)
                stands = next((id_ for id_ in expected.under(owner, topic) if id_ in active), None)
                assert (current.id if current else None) == stands
        await self._check_audit(ledger, expected.erased)
        done: defaultdict[str, list[str]] = defaultdict(list)
        successors: dict[str, str] = {}
        erasures = 0
        for row in (await ledger.audit.page(lambda _: True, 999)).rows:
            if "superseded_by" in row.detail:  # the newest rows come first
                successors.setdefault(row.record_id, row.detail["superseded_by"])
            if row.action == ERASED:
                erasures += 1
            else:
                done[row.record_id].insert(0, row.action)
        assert erasures == expected.erasures
        retired = {id_: one for id_, one in expected.records.items() if not one.active}
        assert {id_: successors.get(id_) for id_ in retired} == {
            id_: one.superseded_by for id_, one in retired.items()
        }
        assert done == {id_: one.audit for id_, one in expected.records.items() if one.audit}
        for id_, one in active.items():
            if one.kind == "fact":
                shown = await ledger.records.shown(
                    [id_], excluded_turn="none of these", characters=1
                )
                assert {source.id for source in shown} == {id_, *one.derived_from}
        terms = ("osmium", "iridium", "gold", "lead", "which")
        assert (await find(ledger, searching(*terms))).contents == {
            one.content for one in active.values() if one.owner == OWNER
        }


@every_ledger
def test_any_history_leaves_what_was_written_and_nothing_of_what_was_erased(
    new_ledger: NewLedger, request: pytest.FixtureRequest
) -> None:
    is_first = request.node.callspec.id == "sqlite"  # the others share its operations
    run_state_machine_as_test(
        lambda: AnyHistory(new_ledger),  # type: ignore[arg-type]
        # Shrinking what failed takes longer than a test may.
        settings=settings(
            max_examples=6 if is_first else 3, stateful_step_count=50, phases=(Phase.generate,)
        ),
    )
