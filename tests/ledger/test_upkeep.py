"""Changes of a consolidation are written completely or not at all, and can be undone exactly."""

from datetime import timedelta
from typing import Any

import pytest

from ledgers import DAY, EMBEDDER, OWNER, angle, fact, message, to_index
from local2.errors import StorageError
from local2.ledger.ledger import Ledger
from local2.ledger.operations.audit import AuditPage, AuditRow
from local2.ledger.operations.upkeep import Access, ActiveFact, Change
from local2.ledger.records import EXTRACTED_FROM, Actor
from local2.ledger.search import Place
from local2.protocol.envelope import utc_now

HERE = Place("user", OWNER, "fact")
ACTOR = Actor(agent="tester", user=OWNER, run="r1")


async def facts(ledger: Ledger, place: Place = HERE) -> list[ActiveFact]:
    return await ledger.upkeep.facts(place, 0, 99)


async def stored(ledger: Ledger, *contents: str, **columns: Any) -> list[ActiveFact]:
    for content in contents:
        await ledger.facts.store(fact(content, **columns))
    return (await facts(ledger))[-len(contents) :]


def archive(one: ActiveFact) -> Change:
    return Change(action="archived", fact=one, reason="it has faded")


def merge(older: ActiveFact, newer: ActiveFact) -> Change:
    return Change(action="merged", fact=older, reason="the same", superseded_by=newer.id)


def weigh(one: ActiveFact, importance: float) -> Change:
    return Change(action="importance", fact=one, reason="recalled", importance=importance)


async def audit(ledger: Ledger, **filters: Any) -> AuditPage:
    return await ledger.audit.page(lambda _: True, 99, **filters)


async def undo(ledger: Ledger, *, run: str = "r1") -> list[str | None]:
    """Undo a run, and return the problem of each change."""
    rows = [row for row in (await audit(ledger, run=run)).rows if row.action != "undone"]
    return [one.problem for one in await ledger.audit.undo(rows, ACTOR)]


async def test_facts_are_read_by_place_and_page(ledger: Ledger, other: Ledger) -> None:
    await ledger.records.store([message("No fact.")])
    await stored(ledger, "One", "Two", "Three")
    await ledger.facts.store(fact("Everybody's", scope="tenant", owner=""))
    await other.facts.store(fact("Another tenant's", owner="eve"))

    first = await ledger.upkeep.next_place(None)
    second = await ledger.upkeep.next_place(first)

    assert {first, second} == {HERE, Place("tenant", "", "fact")}
    assert await ledger.upkeep.next_place(second) is None
    assert await ledger.upkeep.count(HERE) == 3
    page = await ledger.upkeep.facts(HERE, 0, 2)
    rest = await ledger.upkeep.facts(HERE, page[-1].row, 2)
    assert [one.content for one in [*page, *rest]] == ["One", "Two", "Three"]


async def test_a_fact_is_read_with_everything_that_decisions_need(ledger: Ledger) -> None:
    await ledger.facts.store(
        fact("x" * 2_001, topic="user.Long", metadata={EXTRACTED_FROM: ["m1"]}, importance=0.3)
    )

    (found,) = await facts(ledger)

    assert (found.content, found.topic, found.extracted) == ("", "user.long", True)
    assert (found.importance, found.stated_by, found.place) == (0.3, OWNER, HERE)
    assert (found.recalls, found.recalled_at, found.event_time) == (0, None, DAY)


async def test_recalls_are_counted_until_a_run_weighs_them(ledger: Ledger, other: Ledger) -> None:
    (one,) = await stored(ledger, "One")
    later = DAY + timedelta(days=1)
    await ledger.upkeep.add_access([Access(row=one.row, times=2, last=later)])
    await ledger.upkeep.add_access([Access(row=one.row, times=1, last=DAY)])
    await other.upkeep.add_access([Access(row=one.row, times=5, last=later)])
    (one,) = await facts(ledger)
    assert (one.recalls, one.recalled_at) == (3, later)

    assert await ledger.upkeep.carry_out([weigh(one, 0.6)], ACTOR) == [True]

    (one,) = await facts(ledger)
    assert (one.recalls, one.importance) == (0, 0.6)
    (row,) = (await audit(ledger)).rows
    assert (row.action, row.detail) == ("importance", {"before": 0.5, "after": 0.6})


async def test_every_change_is_audited_with_actor_time_reason_and_former_state(
    ledger: Ledger,
) -> None:
    before = utc_now() - timedelta(milliseconds=1)
    one, two = await stored(ledger, "One", "Two", topic=None)

    await ledger.upkeep.carry_out([merge(one, two)], ACTOR)

    (row,) = (await audit(ledger)).rows
    assert (row.action, row.record_id, row.agent, row.user) == ("merged", one.id, "tester", OWNER)
    assert (row.reason, row.run, row.detail) == ("the same", "r1", {"superseded_by": two.id})
    assert before <= row.event_time <= utc_now()
    (retired,) = [one for one in await ledger.records.chain(one.id) if one.superseded_by]
    assert (retired.retired_why, retired.retired_at) == ("merged", row.event_time)


async def test_a_fact_that_has_changed_since_it_was_read_is_not_changed(ledger: Ledger) -> None:
    one, two, three = await stored(ledger, "One", "Two", "Three")
    await ledger.upkeep.carry_out([archive(two), weigh(three, 0.6)], ACTOR)

    made = await ledger.upkeep.carry_out([merge(one, two), archive(two), weigh(three, 0.7)], ACTOR)

    assert made == [False, False, False]
    assert [fact.content for fact in await facts(ledger)] == ["One", "Three"]


async def test_changes_are_made_completely_or_not_at_all(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = await stored(ledger, "One", "Two")
    broken = weigh(two, 0.6)
    monkeypatch.setattr("local2.ledger.operations.upkeep.add_to_audit", lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        await ledger.upkeep.carry_out([archive(one), broken], ACTOR)

    assert len(await facts(ledger)) == 2
    assert not (await audit(ledger)).rows


async def test_undoing_an_archival_returns_the_fact_to_searches_and_the_index(
    ledger: Ledger,
) -> None:
    (one,) = await stored(ledger, "One")
    waiting = await to_index(ledger)
    await ledger.index.store_vectors(waiting, [angle(0)], EMBEDDER)
    await ledger.upkeep.carry_out([archive(one)], ACTOR)
    assert not await facts(ledger)

    assert await undo(ledger) == [None]

    assert await facts(ledger) == [one]
    assert [task.kind for task in await ledger.backlog.counts()] == ["index"]
    (again,) = await to_index(ledger)
    assert again.vector == angle(0)
    actions = [(row.action, row.run) for row in (await audit(ledger, record_id=one.id)).rows]
    assert actions == [("undone", "r1"), ("archived", "r1")]


async def test_undoing_while_the_fact_leaves_the_index_returns_it_there(ledger: Ledger) -> None:
    (one,) = await stored(ledger, "One")
    await ledger.index.store_vectors(await to_index(ledger), [angle(0)], EMBEDDER)
    await ledger.upkeep.carry_out([archive(one)], ACTOR)
    leaving = await ledger.backlog.claim({"unindex": 9}, now=utc_now())
    await undo(ledger)
    await ledger.index.store_vectors(await to_index(ledger), [], EMBEDDER)

    await ledger.backlog.finish(leaving)

    assert len(await to_index(ledger)) == 1


async def test_only_changes_without_later_ones_are_undone(ledger: Ledger) -> None:
    (named,) = await stored(ledger, "Rome", topic="user.city")
    one, two, three = await stored(ledger, "One", "Two", "Three")
    changes = [archive(named), archive(one), weigh(two, 0.6), merge(three, two)]
    await ledger.upkeep.carry_out(changes, ACTOR)
    await ledger.facts.store(fact("Berlin", topic="user.City"))
    (two,) = [one for one in await facts(ledger) if one.content == "Two"]
    await ledger.upkeep.carry_out([weigh(two, 0.9)], Actor(agent="tester", run="r2"))

    problems = await undo(ledger)

    taken = "another memory has its topic or its place"
    assert problems == [None, "it has changed since", None, taken]
    standing = await ledger.facts.topic("user", OWNER, "user.city")
    assert standing is not None
    assert standing.content == "Berlin"
    assert (await undo(ledger))[0] == "it has changed since"


async def test_archiving_and_undoing_apply_immediately_to_a_cached_fact(
    ledger: Ledger,
) -> None:
    (rome,) = await stored(ledger, "Rome", topic="user.City")
    assert await ledger.facts.topic("user", OWNER, "user.city")

    await ledger.upkeep.carry_out([archive(rome)], ACTOR)
    assert await ledger.facts.topic("user", OWNER, "user.city") is None

    await undo(ledger)
    assert await ledger.facts.topic("user", OWNER, "user.city")


async def test_the_audit_is_read_in_pages_of_visible_rows(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local2.ledger.operations.audit.READ_ROWS", 3)
    all_facts = await stored(ledger, *(f"Fact {n}" for n in range(8)))
    await ledger.upkeep.carry_out([archive(one) for one in all_facts], ACTOR)
    odd = {one.id for one in all_facts[1::2]}

    def is_visible(row: AuditRow) -> bool:
        return row.record_id in odd

    pages, before = [], None
    while True:
        page = await ledger.audit.page(is_visible, 2, run="r1", before=before)
        pages.append([row.record_id for row in page.rows])
        before = page.next
        if before is None:
            break

    newest_first = [one.id for one in all_facts[::-1] if one.id in odd]
    assert [one for page in pages for one in page] == newest_first
    assert max(map(len, pages)) == 2
    assert not (await audit(other)).rows
    assert not (await audit(ledger, run="r2")).rows


async def test_runs_are_recorded(ledger: Ledger, other: Ledger) -> None:
    assert await ledger.upkeep.last_run(DAY) is None
    await ledger.upkeep.begin("earlier", DAY - timedelta(hours=1))
    await ledger.upkeep.begin("later", DAY)
    begun = await ledger.upkeep.last_run(DAY)

    await ledger.upkeep.end("later", DAY + timedelta(minutes=1), changed=3, failed=1)

    assert begun is not None
    assert (begun.run, begun.ended_at) == ("later", None)
    last = await ledger.upkeep.last_run(DAY)
    assert last is not None
    assert (last.run, last.began_at, last.changed, last.failed) == ("later", DAY, 3, 1)
    assert last.ended_at == DAY + timedelta(minutes=1)
    assert await other.upkeep.last_run(DAY) is None


async def test_a_run_that_the_ledger_refuses_changes_nothing(ledger: Ledger) -> None:
    (one,) = await stored(ledger, "One")
    await ledger.upkeep.begin("r1", DAY)

    with pytest.raises(StorageError):
        await ledger.upkeep.begin("r1", DAY)

    assert await facts(ledger) == [one]


async def test_nothing_is_undone_of_what_was_anonymised_since(ledger: Ledger) -> None:
    archived, weighed = await stored(ledger, "Likes tea", "Likes rye")
    changes = [weigh(weighed, 0.9), archive(archived), archive(weighed)]
    await ledger.upkeep.carry_out(changes, ACTOR)
    later = utc_now() + timedelta(days=1)
    await ledger.erasures.anonymise(before=later, limit=9, agent="cli", at=later)

    assert await undo(ledger) == ["it has been anonymised since"] * 3
