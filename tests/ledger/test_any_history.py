"""Whatever is done to a ledger, in any order: each write is there, and what was erased is not.

Two tenants' ledgers in one file are changed at random, beside a plain model of what they should
hold. After each step a ledger holds, counts and finds what the model holds, and nothing else.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count, cycle
from typing import Any, TypeVar

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
from local2.ledger.erasing import ErasureOptions, Selection, Traces, combined
from local2.ledger.ledger import Ledger
from local2.ledger.records import Actor, Written

T = TypeVar("T")

ERASED, AFTER_ERASURES = DAY + timedelta(days=1), DAY + timedelta(days=2)
TENANTS = st.sampled_from(["acme", "other"])
OWNERS = st.sampled_from([OWNER, "eve"])
SESSIONS = st.sampled_from(["s1", "s2"])
TOPICS = ("user.metal", "user.drink")
METALS = st.sampled_from(["osmium", "iridium", "gold"])
"""So few that the same words are said again, for another topic, or by somebody else."""
PICKED = st.integers(0, 40)
"""Which of the records so far: it has this number, counted in a circle."""


@dataclass
class Expected:
    """A record as the ledger should hold it."""

    owner: str
    content: str
    session_id: str | None = None
    topic: str | None = None
    turn: str | None = None
    superseded_by: str | None = None
    indexed: bool = False
    derived_from: set[str] = field(default_factory=set)

    @property
    def active(self) -> bool:
        return self.superseded_by is None

    @property
    def columns(self) -> tuple[str | None, ...]:
        return (
            self.owner,
            self.content,
            self.session_id,
            self.topic,
            self.turn,
            self.superseded_by,
        )


class Tenant:
    """What one tenant's ledger should hold: records in the order in which they were stored."""

    def __init__(self) -> None:
        self.records: dict[str, Expected] = {}
        self.erased: set[str] = set()
        self.erased_texts: set[tuple[str, str]] = set()
        self.exports: list[list[bytes]] = []

    def facts(self, owner: str | None = None) -> dict[str, Expected]:
        return {
            id_: found
            for id_, found in self.records.items()
            if found.session_id is None and owner in {None, found.owner}
        }

    def under(self, owner: str, topic: str) -> list[str]:
        """Return the ids of a topic's versions, the newest first."""
        return [id_ for id_, found in self.facts(owner).items() if found.topic == topic][::-1]

    def supersede(self, id_: str, by: str) -> None:
        self.records[id_].superseded_by = by

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
            gone = {id_ for id_, found in owned.items() if found.topic == selection.topic}
        else:
            session_id = selection.session_id
            gone = {id_ for id_, one in owned.items() if session_id in {None, one.session_id}}
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

    def erase(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            gone = self.records.pop(id_)
            self.erased.add(id_)
            self.erased_texts.add((gone.owner, gone.content))
        for left in self.records.values():
            left.derived_from -= self.erased
            if left.superseded_by in self.erased:
                left.superseded_by = ""


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

    @initialize()
    def open(self) -> None:
        self._run(self._open(self._new_ledger()))

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
        expected.records[id_] = Expected(owner, said.content, session_id)

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
            expected.records[stated.id] = Expected(owner, stated.content, topic=topic)
        assert sorted(written.replaced) == sorted(gone)
        for id_ in gone:
            expected.supersede(id_, written.id)

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
                     topic=older.topic)  # fmt: skip
        actor = Actor(agent="cli", run=f"run{number}")

        async def edit() -> Written:
            found = await ledger.records.by_id([id_])
            return await ledger.facts.edit(found[id_], newer, "Wrong.", actor)

        async def undo() -> list[str | None]:
            page = await ledger.audit.page(lambda _: True, 9, run=actor.run)
            return [one.problem for one in await ledger.audit.undo(page.rows, actor)]

        written = self._run(edit())
        assert written.was_new == older.active
        if not older.active:
            return
        expected.records[newer.id] = Expected(older.owner, newer.content, topic=older.topic)
        expected.supersede(id_, newer.id)
        if undone:
            assert self._run(undo()) == [None]
            expected.supersede(newer.id, id_)
            older.superseded_by = None
            older.indexed = False

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
            expected.supersede(id_, "")

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
            expected.records[one.id] = Expected(
                owner, one.content, session_id, turn=one.turn, derived_from=set(sources)
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

    @rule(tenant=TENANTS, owner=OWNERS, part=st.sampled_from(["topic", "id", "id", "session", ""]),
          picked=PICKED)  # fmt: skip
    def erase(self, tenant: str, owner: str, part: str, picked: int) -> None:
        expected, ledger = self._tenants[tenant], self._ledger(tenant)
        ids = [*expected.records] or ["nothing"]
        selection = {
            "topic": Selection(owner=owner, topic=TOPICS[picked % 2].upper()),
            "id": Selection(owner=owner, id=ids[picked % len(ids)]),
            "session": Selection(owner=owner, session_id=f"s{1 + picked % 2}"),
            "": Selection(owner=owner),
        }[part]

        async def erase() -> tuple[set[str], Traces]:
            selected = await ledger.erasures.select(selection)
            options = ErasureOptions(at=ERASED)
            parts = ledger.erasures.erase(selection, selected.rows, options)
            erased = combined([part async for part in parts])
            return set(erased.ids), await ledger.erasures.traces(erased)

        folded = TOPICS[picked % 2] if part == "topic" else None
        gone = expected.selected(Selection(owner=owner, session_id=selection.session_id,
                                           topic=folded, id=selection.id))  # fmt: skip
        assert self._run(erase()) == (gone, Traces(ids=0, references=0, vectors=0, texts=0))
        expected.erase(gone)

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

    @rule(tenant=TENANTS)
    def copy_into_an_empty_ledger(self, tenant: str) -> None:
        """All of it, with the audit of erasures."""
        exported = self._run(lines(self._ledger(tenant)))
        copy = self._of_tenant(f"copy {next(self._numbers)}")
        self._run(copy.imports.store(parsed(exported), IMPORTER))
        assert sorted(self._run(lines(copy))) == sorted(exported)

    @invariant()
    def each_tenants_ledger_holds_what_it_should(self) -> None:
        tenant = next(self._looked_at)  # one after each step: what is wrong is still so after two
        self._run(self._check(self._ledger(tenant), self._tenants[tenant]))

    async def _check(self, ledger: Ledger, expected: Tenant) -> None:
        found = await ledger.records.by_id([*expected.records, *expected.erased])
        assert {
            id_: (one.owner, one.content, one.session_id, one.topic, one.turn, one.superseded_by)
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
        terms = ("osmium", "iridium", "gold", "lead", "which")
        assert (await find(ledger, searching(*terms))).contents == {
            one.content for one in active.values() if one.owner == OWNER
        }


@every_ledger
def test_any_history_leaves_what_was_written_and_nothing_of_what_was_erased(
    new_ledger: NewLedger,
) -> None:
    run_state_machine_as_test(
        lambda: AnyHistory(new_ledger),  # type: ignore[arg-type]
        # Shrinking what failed takes longer than a test may.
        settings=settings(max_examples=6, stateful_step_count=40, phases=(Phase.generate,)),
    )
