"""Consolidation: bounded, predictable, confined to one user, and completely undoable."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from calling import RICHARD, ask, call, caller_named
from ledgers import OWNER, fact, message, record
from local2.bus.connection import Connection
from local2.errors import OverloadedError, StorageError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.operations.upkeep import Access, Change, Upkeep
from local2.ledger.records import EXTRACTED_FROM, Actor, NewRecord, Record
from local2.memory.tenant import Memory
from local2.memory.upkeep import consolidation
from local2.memory.upkeep.consolidation import Consolidation
from local2.memory.upkeep.supersession import Judge, Verdict
from local2.protocol.envelope import Caller
from local2.protocol.payloads import MemoryChange
from local2.settings import MemorySettings
from stored import records
from waiting import eventually
from working import working

LONG_AGO = datetime(2019, 1, 1, tzinfo=UTC)
EVE = caller_named("eve", agent="shell")

pytestmark = pytest.mark.usefixtures("tools")


def faded(content: str, **columns: Any) -> NewRecord:
    """Return a fact that was read in a message years ago."""
    usual = {"metadata": {EXTRACTED_FROM: ["m1"]}, "source_class": "stated", "agent": "shell"}
    return fact(content, **{**usual, "event_time": LONG_AGO, **columns})


def many(count: int, **columns: Any) -> list[NewRecord]:
    return [faded(f"Item {n} was seen.", **columns) for n in range(count)]


async def store(memory: Memory, *records: NewRecord) -> None:
    for one in records:
        await memory.ledger.facts.store(one)


COLUMNS = ("row", "id", "scope", "owner", "content", "metadata", "importance", "superseded_by")


async def everything(
    database: Database, *, columns: Sequence[str] = (*COLUMNS, "retired_why", "retired_at")
) -> list[tuple[Any, ...]]:
    return [tuple(record[column] for column in columns) for record in await records(database)]


async def active(database: Database) -> list[str]:
    rows = await everything(database, columns=("content", "superseded_by"))
    return [content for content, by in rows if by is None]


async def consolidate(bus: Connection, caller: Caller = RICHARD, **args: Any) -> dict[str, Any]:
    return await call(bus, "consolidate", args, caller)


def changes_of(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["action"], one["content"]) for one in report["changes"]]


TEA = ("Ada likes tea.", "ada likes tea")
HOME = ("We live in Berlin.", "We live in Rome.")


async def store_in_disorder(memory: Memory) -> None:
    """Store forty facts with a duplicate, a contradiction, stale ones, and one that is recalled."""
    berlin, rome = (
        faded(content, event_time=LONG_AGO + timedelta(days=day), memory_type="preference")
        for day, content in enumerate(HOME)
    )
    await store(memory, *(faded(tea, memory_type="preference") for tea in TEA), berlin, rome)
    await memory.ledger.facts.relate(rome.id, "contradicts", berlin.id)
    await store(memory, *many(76))
    recent = datetime.now(UTC)
    await memory.ledger.upkeep.add_access([Access(row=4, times=2, last=recent)])


async def test_facts_are_merged_replaced_archived_and_weighed_and_all_can_be_undone(
    memory: Memory,
    database: Database,
    bus: Connection,
    announced: list[tuple[str, MemoryChange]],
) -> None:
    await store_in_disorder(memory)
    before = await everything(database)

    report = await consolidate(bus)

    assert changes_of(report) == [
        ("contradicted", HOME[0]),
        ("merged", TEA[0]),
        ("archived", "Item 0 was seen."),
        ("archived", "Item 1 was seen."),
        ("importance", HOME[1]),
    ]
    assert (report["facts"], report["left"], report["not_done"]) == (80, [], [])
    left = await active(database)
    assert TEA[1] in left
    assert HOME[1] in left
    assert len(left) == 76
    retired = [(subject, one.why) for subject, one in announced if one.why]
    whys = ["contradicted", "merged", "archived", "archived"]
    assert retired == [("memory.retired", why) for why in whys]
    trail = await call(bus, "audit", {"run": report["run"]})
    assert [one["id"] for one in trail["entries"]] == [one["id"] for one in report["changes"]][::-1]
    assert {one["by"] for one in trail["entries"]} == {"self"}
    assert all(one["reason"] for one in trail["entries"])

    undone = await call(bus, "undo", {"run": report["run"]})

    assert len(undone["undone"]) == 5
    assert (undone["not_done"], undone["others"]) == ([], 0)
    assert await everything(database) == before
    assert len([one for subject, one in announced if subject == "memory.restored"]) == 4
    trail = await call(bus, "audit", {"run": report["run"]})
    assert [one["action"] for one in trail["entries"][:5]] == ["undone"] * 5


async def test_a_dry_run_lists_the_changes_of_a_run_and_makes_none(
    memory: Memory, database: Database, bus: Connection
) -> None:
    await store_in_disorder(memory)
    before = await everything(database)

    planned = await consolidate(bus, dry_run=True)
    again = await consolidate(bus, dry_run=True)

    assert await everything(database) == before
    assert (await call(bus, "audit", {}))["entries"] == []
    assert planned == again
    assert planned["run"] is None
    real = await consolidate(bus)
    assert real["changes"] == planned["changes"]
    assert len(real["changes"]) == 5


async def test_a_run_that_changes_nothing_is_not_named(bus: Connection) -> None:
    report = await consolidate(bus)

    assert (report["changes"], report["run"]) == ([], None)


async def test_a_run_changes_at_most_a_share_of_a_scope(
    memory: Memory, database: Database, bus: Connection
) -> None:
    await store(memory, *many(100), *many(40, scope="tenant", owner=""))

    report = await consolidate(bus)

    scopes = [one["scope"] for one in report["changes"]]
    assert (scopes.count("user"), scopes.count("tenant")) == (5, 2)
    assert len(await active(database)) == 133


async def test_a_scope_is_never_emptied(
    memory: Memory, database: Database, bus: Connection
) -> None:
    await store(
        memory,
        *many(22),
        *many(3, scope="tenant", owner=""),
        faded("Alone.", scope="agent", owner="shell"),
    )

    for _ in range(8):
        await consolidate(bus)

    left = await everything(database, columns=("scope", "superseded_by"))
    counts = {scope: left.count((scope, None)) for scope in ("user", "tenant", "agent")}
    assert counts == {"user": 19, "tenant": 3, "agent": 1}


async def test_core_facts_facts_with_keys_messages_and_episodes_are_not_changed(
    memory: Memory, database: Database, bus: Connection
) -> None:
    old: dict[str, Any] = {"event_time": LONG_AGO, "importance": 0.1}
    await memory.ledger.records.store(
        [
            message("Ada likes tea.", **old),
            message("A tool's output.", kind="tool_output", role="tool", **old),
            record("Q: Tea? A: Yes.", **old),
            fact("A section.", kind="document_chunk", scope="tenant", owner="", **old),
        ]
    )
    core = [
        faded(
            f"The answer is {n // 2}.",
            durability="core",
            importance=0.1,
            event_time=LONG_AGO + timedelta(days=n),
        )
        for n in range(40)
    ]
    await memory.ledger.records.store(core)
    await memory.ledger.facts.relate(core[2].id, "contradicts", core[0].id)
    await store(memory, *(fact(f"City {n}", topic=f"user.city{n}", **old) for n in range(40)))
    rows = [row for (row,) in await everything(database, columns=("row",))]
    await memory.ledger.upkeep.add_access(
        Access(row=row, times=9, last=LONG_AGO) for row in rows[:44]
    )
    before = await everything(database)

    report = await consolidate(bus)

    assert report["changes"] == []
    assert [one["reason"] for one in report["left"]] == ["it is core"]
    assert await everything(database) == before


async def test_a_manual_run_changes_only_the_callers_own_and_shared_facts(
    memory: Memory, database: Database, bus: Connection
) -> None:
    await store(memory, *many(40), *many(40, owner="eve"), *many(40, scope="agent", owner="robot"))

    report = await consolidate(bus)

    changed = await everything(database, columns=("owner", "superseded_by"))
    assert {owner for owner, by in changed if by is not None} == {OWNER}
    assert len(report["changes"]) == 2
    hers = await call(bus, "audit", {"run": report["run"]}, EVE)
    assert hers["entries"] == []
    refused = await call(bus, "undo", {"run": report["run"]}, EVE)
    assert (refused["undone"], refused["others"]) == ([], 2)
    assert len(await active(database)) == 118


async def test_contradictions_by_another_user_or_weaker_source_are_only_reported(
    memory: Memory, bus: Connection
) -> None:
    shared = {"scope": "tenant", "owner": "", "memory_type": "preference"}
    later = {"event_time": LONG_AGO + timedelta(days=1)}
    berlin = faded(HOME[0], stated_by=OWNER, **shared)
    by_eve = faded("We live in Paris.", stated_by="eve", **shared, **later)
    written = faded("We live in Oslo.", stated_by=OWNER, source_class="document", **shared, **later)
    vague = faded("Our home is far off.", stated_by=OWNER, **shared, **later)
    await store(memory, berlin, by_eve, written, vague)
    for one in (by_eve, written, vague):
        await memory.ledger.facts.relate(one.id, "contradicts", berlin.id)

    report = await consolidate(bus)

    assert report["changes"] == []
    reasons = {one["id"]: one["reason"] for one in report["left"]}
    assert reasons == {
        by_eve.id: "they were not stated by the same user",
        written.id: "the newer one comes from a weaker source",
        vague.id: "it is not certain, and no model is configured to judge",
    }
    assert {one["contradicts"] for one in report["left"]} == {berlin.id}


class ConstantJudge(Judge):
    """A judge with the same verdict on everything."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    async def verdicts(self, fact: Record, older: Sequence[Record]) -> list[Verdict]:
        assert fact.row > max(one.row for one in older)
        return [self._verdict] * len(older)


@pytest.mark.parametrize(
    ("verdict", "most", "left"),
    [
        ("replaces", 1, []),
        ("unrelated", 1, ["a model judged that both may hold"]),
        ("replaces", 0, ["it was not judged"]),
    ],
)
async def test_a_judge_decides_a_limited_number_of_uncertain_contradictions(
    memory: Memory,
    monkeypatch: pytest.MonkeyPatch,
    verdict: Verdict,
    most: int,
    left: list[str],
) -> None:
    monkeypatch.setattr(consolidation, "MAX_JUDGED", most)
    berlin = faded(HOME[0], memory_type="preference")
    later = LONG_AGO + timedelta(days=1)
    far = faded("Our home is far off.", memory_type="preference", event_time=later)
    await store(memory, berlin, far)
    await memory.ledger.facts.relate(far.id, "contradicts", berlin.id)

    done = await consolidation_of(memory, judge=ConstantJudge(verdict)).run_once()

    assert done is not None
    assert [one.fact.id for one in done.changes] == []
    assert done.changed == 1 - len(left)
    assert [one.reason for one in done.left] == left


def consolidation_of(memory: Memory, judge: Judge | None = None, **settings: Any) -> Consolidation:
    return Consolidation(
        memory.ledger,
        memory.changes,
        memory.accesses,
        settings=MemorySettings(**settings),
        clock=lambda: memory.clock(),  # noqa: PLW0108 - a test sets another one
        judge=judge,
    )


def failing(matches_content: Callable[[str], bool], error: Exception) -> Any:
    carry_out = Upkeep.carry_out

    async def carry_out_or_fail(
        self: Upkeep, changes: Sequence[Change], actor: Actor
    ) -> list[bool]:
        if any(matches_content(change.fact.content) for change in changes):
            raise error
        return await carry_out(self, changes, actor)

    return carry_out_or_fail


@pytest.mark.parametrize("error", [ValueError("odd"), StorageError("Refused.")])
async def test_a_change_that_fails_is_set_aside_and_the_others_are_made(
    memory: Memory,
    database: Database,
    bus: Connection,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    await store(memory, *many(200))
    monkeypatch.setattr(Upkeep, "carry_out", failing(lambda text: "Item 3 " in text, error))

    report = await consolidate(bus)

    assert len(report["changes"]) == 9
    (failed,) = report["not_done"]
    assert failed["reason"] == "it failed; the log says why"
    assert len(await active(database)) == 191


async def test_a_ledger_that_refuses_everything_ends_the_run(
    memory: Memory, bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(memory, *many(200))
    monkeypatch.setattr(consolidation, "CHANGES_PER_TRANSACTION", 2)
    monkeypatch.setattr(Upkeep, "carry_out", failing(lambda _: True, StorageError("Refused.")))

    result = await ask(bus, "consolidate", {})

    assert result.error is not None
    assert result.error.message == "Refused."


async def test_a_scope_that_cannot_be_read_is_set_aside(
    memory: Memory, bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(memory, *many(40), *many(40, scope="tenant", owner=""))
    count = Upkeep.count

    async def refuse(self: Upkeep, place: Any) -> int:
        if place.scope == "user":
            raise ValueError("odd")
        return await count(self, place)

    monkeypatch.setattr(Upkeep, "count", refuse)

    report = await consolidate(bus)

    assert len(report["changes"]) == 2
    assert [one["reason"] for one in report["not_done"]] == [
        "The facts of scope user could not be looked at."
    ]


async def test_everything_is_consolidated_daily_even_across_restarts(
    memory: Memory, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consolidation, "START_DELAY", 0.0)
    monkeypatch.setattr(consolidation, "CHECK_SECONDS", 0.01)
    await store(memory, *many(40), *many(40, owner="eve"))
    now = datetime.now(UTC)
    memory.clock = lambda: now

    async def run_until(condition: Callable[[], Any]) -> None:
        async with working(consolidation_of(memory)):
            await eventually(condition)

    async def last() -> datetime | None:
        run = await memory.ledger.upkeep.last_run(now)
        return run.began_at if run and run.ended_at else None

    await run_until(last)
    first = await last()
    assert first == msgspec.convert(now.isoformat(timespec="milliseconds"), datetime)
    assert len(await active(database)) == 76

    checks: list[bool] = []
    last_run = Upkeep.last_run

    async def record_check(self: Upkeep, at: datetime) -> Any:
        checks.append(True)
        return await last_run(self, at)

    monkeypatch.setattr(Upkeep, "last_run", record_check)
    await run_until(lambda: len(checks) > 5)
    assert len(await active(database)) == 76

    now += timedelta(hours=24)
    await run_until(lambda: _later(last, first))
    assert len(await active(database)) == 74


async def test_a_run_with_a_clock_a_year_ahead_does_not_delay_the_next_one(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consolidation, "START_DELAY", 0.0)
    now = datetime.now(UTC)
    memory.clock = lambda: now + timedelta(days=365)
    await consolidation_of(memory).run_once()
    memory.clock = lambda: now

    async with working(consolidation_of(memory)):
        await eventually(lambda: memory.ledger.upkeep.last_run(now), lambda run: run is not None)


async def _later(last: Callable[[], Any], first: datetime | None) -> bool:
    now = await last()
    return now is not None and now != first


async def test_a_failed_run_is_reported_and_not_repeated_before_its_time(
    memory: Memory, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consolidation, "START_DELAY", 0.0)
    monkeypatch.setattr(consolidation, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(consolidation, "CHANGES_PER_TRANSACTION", 1)
    await store(memory, *many(100))
    now = datetime.now(UTC)
    memory.clock = lambda: now
    nightly = consolidation_of(memory)

    async def problem() -> str | None:
        status = await nightly.status()
        return status.problem if status else None

    async with working(nightly):
        with monkeypatch.context() as broken:
            broken.setattr(Upkeep, "carry_out", failing(lambda _: True, StorageError("Refused.")))
            await eventually(problem)
        assert await problem() == "Refused."
        status = await nightly.status()
        assert status is not None
        assert status.ended_at is None
        assert len(await active(database)) == 100

        now += timedelta(hours=24)

        await eventually(problem, lambda found: found is None)
    assert len(await active(database)) == 95


async def test_with_zero_hours_it_runs_only_on_request(memory: Memory) -> None:
    await asyncio.wait_for(consolidation_of(memory, consolidation_hours=0).run(), 5)


async def test_the_status_shows_the_last_run_and_its_changes(memory: Memory) -> None:
    await store(memory, *many(40))
    memory.accesses.add([40])  # counted, though it is not stored yet
    assert await memory.consolidation.status() is None

    done = await memory.consolidation.run_once()

    assert done is not None
    status = await memory.consolidation.status()
    assert status is not None
    assert (status.run, status.changed, status.failed) == (done.run, 3, 0)
    assert status.ended_at is not None
    assert not status.under_way


async def test_a_request_during_a_run_is_refused_immediately(
    memory: Memory,
) -> None:
    async with memory.consolidation._one_at_a_time:
        with pytest.raises(OverloadedError, match="already being consolidated"):
            await memory.of(RICHARD).consolidate(dry_run=True)
