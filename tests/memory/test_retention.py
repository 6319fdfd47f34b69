"""Records retired long ago lose content and owner; their rows and references stay."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from calling import RICHARD, answer, caller_named
from local2.examination import run_checks
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.records import Record
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.memory.upkeep import retention
from local2.memory.upkeep.retention import Retention
from local2.protocol.envelope import Caller, utc_now
from local2.protocol.payloads import MemoryChange
from local2.settings import Anonymising
from local2.stack.app import open_stack
from stacks import settings_in, status
from stored import change, select
from waiting import eventually
from working import working

NOW = utc_now().replace(microsecond=0)
"""Retention counts from when a retirement was recorded, which is not before the tests run."""
EVE = caller_named("eve", agent="shell")
NOBODY = caller_named(None, agent="shell")
RetentionInMode = Callable[..., Retention]
Announced = list[tuple[str, MemoryChange]]


@pytest.fixture
def retention_in_mode(memory: Memory, announced: Announced) -> RetentionInMode:
    def announce(subject: str, change: MemoryChange) -> None:
        announced.append((subject, change))

    def make(mode: Anonymising, days: int = 30) -> Retention:
        settings = msgspec.structs.replace(
            memory.settings, anonymise=mode, anonymise_after_days=days
        )
        return Retention(memory.ledger, settings, announce, lambda: memory.clock())  # noqa: PLW0108

    return make


async def replace_topic(memory: Memory, *values: str, caller: Caller = RICHARD) -> MemoryService:
    """Give a topic these values, one after the other; return the memory."""
    memory.clock = lambda: NOW
    service = memory.of(caller)
    for value in values:
        await service.write_topic("user.drink", value)
    return service


def texts(versions: list[Record]) -> list[str]:
    return [one.content for one in versions]


async def test_a_retired_version_is_redacted_after_its_retention_and_not_before(
    memory: Memory, retention_in_mode: RetentionInMode, announced: Announced
) -> None:
    richard = await replace_topic(memory, "tea", "water")
    old = (await richard.facts.history("user.drink"))[1]
    announced.clear()

    memory.clock = lambda: NOW + timedelta(days=29)
    assert await retention_in_mode("on").run_once() == 0
    memory.clock = lambda: NOW + timedelta(days=31)
    assert await retention_in_mode("on").run_once() == 1
    assert await retention_in_mode("on").run_once() == 0

    newest, oldest = await richard.facts.history("user.drink")
    assert (newest.content, oldest.content) == ("water", "[REDACTED]")
    assert (oldest.id, oldest.superseded_by) == (old.id, newest.id)
    assert (oldest.owner, oldest.topic, oldest.agent, oldest.session_id) == ("", None, None, None)
    assert [(subject, one.id) for subject, one in announced] == [("memory.anonymized", old.id)]
    assert await memory.ledger.problems() == []


async def test_only_users_who_may_see_another_version_see_a_redacted_one(
    memory: Memory, retention_in_mode: RetentionInMode
) -> None:
    richard = await replace_topic(memory, "tea", "water")
    old = (await richard.facts.history("user.drink"))[1]
    memory.clock = lambda: NOW + timedelta(days=31)
    await retention_in_mode("on").run_once()

    assert texts(await richard.facts.history(old.id)) == ["water", "[REDACTED]"]
    for other in (EVE, NOBODY):
        assert await memory.of(other).facts.history(old.id) == []
        assert await memory.of(other).facts.history("user.drink") == []


async def test_a_dry_run_only_counts(
    memory: Memory, retention_in_mode: RetentionInMode, announced: Announced
) -> None:
    richard = await replace_topic(memory, "tea", "water", "milk")
    announced.clear()
    memory.clock = lambda: NOW + timedelta(days=31)

    dry, off = retention_in_mode("dry_run"), retention_in_mode("off")

    assert (await dry.run_once(), await dry.due(), await off.run_once(), await off.due()) == (
        0,
        2,
        0,
        0,
    )
    assert texts(await richard.facts.history("user.drink")) == ["milk", "water", "tea"]
    assert announced == []


async def test_words_and_vector_of_a_redacted_record_are_removed(
    memory: Memory, retention_in_mode: RetentionInMode, database: Database
) -> None:
    await replace_topic(memory, "tea from the harbour", "water")
    memory.clock = lambda: NOW + timedelta(days=31)
    await retention_in_mode("on").run_once()

    for traces in (
        "SELECT 1 FROM record_text WHERE record_text MATCH 'harbour'",
        "SELECT 1 FROM vector JOIN record ON row = record WHERE content LIKE '[%'",
        "SELECT 1 FROM feature WHERE stems LIKE '%harbour%'",
    ):
        assert await select(database, traces) == []


async def test_a_run_stopped_between_two_batches_is_continued(
    memory: Memory, retention_in_mode: RetentionInMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    richard = await replace_topic(memory, *map(str, range(6)))
    monkeypatch.setattr(retention, "RECORDS_PER_TRANSACTION", 2)
    memory.clock = lambda: NOW + timedelta(days=31)
    stopped = retention_in_mode("on")

    def fail(*_: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(stopped, "_announce", fail)
    with suppress(asyncio.CancelledError):
        await stopped.run_once()

    assert texts(await richard.facts.history("user.drink")).count("[REDACTED]") == 2
    assert await retention_in_mode("on").run_once() == 3
    assert texts(await richard.facts.history("user.drink")) == ["5", *["[REDACTED]"] * 5]


async def test_a_run_immediately_redacts_what_is_due(
    memory: Memory, retention_in_mode: RetentionInMode
) -> None:
    richard = await replace_topic(memory, "tea", "water")
    memory.clock = lambda: NOW + timedelta(days=31)

    async def is_redacted() -> bool:
        return "[REDACTED]" in texts(await richard.facts.history("user.drink"))

    async with working(retention_in_mode("on")):
        await eventually(is_redacted)


@pytest.mark.usefixtures("worker_here")
async def test_a_stack_reports_how_many_records_it_would_anonymise_and_how_to_enable_it(
    tmp_path: Path,
) -> None:
    settings = settings_in(tmp_path, anonymise_after_days=0)
    async with open_stack(settings, with_generator=False) as stack:
        for value in ("tea", "water"):
            await answer(stack.bus, "save_topic", {"topic": "user.drink", "content": value})

        reported = await status(stack.bus)
        findings = await run_checks(settings)

    assert reported.to_anonymise == 1
    (finding,) = [one for one in findings if one.name == "retention"]
    assert finding.verdict == "note"
    assert finding.detail.startswith("would anonymise 1 records")
    assert "anonymise: on" in str(finding.remedy)


async def test_retention_starts_when_a_retirement_is_recorded(
    memory: Memory, richard: MemoryService, retention_in_mode: RetentionInMode
) -> None:
    """This happens when a conversation of years ago is ingested today."""
    for value, at in (("Tea", 900), ("Mate", 800)):
        memory.clock = lambda at=at: NOW - timedelta(days=at)  # type: ignore[misc]
        await richard.write_topic("user.drink", value)
    memory.clock = lambda: NOW

    assert await retention_in_mode("on").run_once() == 0
    assert texts(await richard.facts.history("user.drink")) == ["Mate", "Tea"]


async def test_the_history_of_a_retired_record_contains_no_other_users_records(
    memory: Memory, richard: MemoryService, database: Database
) -> None:
    """Both facts are retired without a successor."""
    mine = await richard.facts.store_topic("user.drink", "Tea")
    await memory.of(EVE).facts.store_topic("user.drink", "Mate")
    await change(database, "UPDATE record SET superseded_by = ''")

    assert texts(await memory.ledger.records.chain(mine.id)) == ["Tea"]


@pytest.mark.parametrize("mode", ["dry_run", "on", "off"])
async def test_a_report_lists_what_is_due_and_changes_nothing(
    memory: Memory, retention_in_mode: RetentionInMode, mode: Anonymising
) -> None:
    richard = await replace_topic(memory, "tea", "water", "milk")
    memory.clock = lambda: NOW + timedelta(days=31)

    report = await retention_in_mode(mode).report()
    early = await retention_in_mode(mode, days=60).report()

    assert (report.anonymise, report.after_days, report.due) == (mode, 30, 2)
    assert sorted((due.content, due.topic, due.retired_why) for due in report.records) == [
        (drink, "user.drink", "superseded") for drink in ("tea", "water")
    ]
    assert (early.due, early.records) == (0, [])
    assert texts(await richard.facts.history("user.drink")) == ["milk", "water", "tea"]
