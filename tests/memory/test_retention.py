"""What was retired long ago loses its content and its owner; the row and its references stay."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from calling import RICHARD, answer
from local.app import open_stack
from local.examination import run_checks
from local.ledger.records import Record
from local.ledger.sqlite.database import Database, SqlConnection
from local.memory.service import MemoryService
from local.memory.tenant import Memory
from local.memory.upkeep import retention
from local.memory.upkeep.retention import Retention
from local.protocol.envelope import Caller, utc_now
from local.protocol.payloads import MemoryChange
from local.settings import Anonymising
from stacks import settings_in, status
from waiting import eventually

NOW = utc_now().replace(microsecond=0)
"""Retention counts from when something was noted, which is no earlier than the tests run."""
EVE = Caller(tenant="default", user="eve", agent="shell")
NOBODY = Caller(tenant="default", agent="shell")
OfMode = Callable[..., Retention]
Announced = list[tuple[str, MemoryChange]]


@pytest.fixture
def of_mode(memory: Memory, announced: Announced) -> OfMode:
    def announce(subject: str, change: MemoryChange) -> None:
        announced.append((subject, change))

    def make(mode: Anonymising, days: int = 30) -> Retention:
        settings = msgspec.structs.replace(
            memory.settings, anonymise=mode, anonymise_after_days=days
        )
        return Retention(memory.ledger, settings, announce, lambda: memory.clock())  # noqa: PLW0108

    return make


async def replaced(memory: Memory, *values: str, caller: Caller = RICHARD) -> MemoryService:
    """A topic with these values, one after the other."""
    memory.clock = lambda: NOW
    service = memory.of(caller)
    for value in values:
        await service.write_topic("user.drink", value)
    return service


def texts(versions: list[Record]) -> list[str]:
    return [one.content for one in versions]


async def test_a_retired_version_is_redacted_after_its_time_and_not_before(
    memory: Memory, of_mode: OfMode, announced: Announced
) -> None:
    richard = await replaced(memory, "tea", "water")
    old = (await richard.facts.history("user.drink"))[1]
    announced.clear()

    memory.clock = lambda: NOW + timedelta(days=29)
    assert await of_mode("on").run_once() == 0
    memory.clock = lambda: NOW + timedelta(days=31)
    assert await of_mode("on").run_once() == 1
    assert await of_mode("on").run_once() == 0

    newest, oldest = await richard.facts.history("user.drink")
    assert (newest.content, oldest.content) == ("water", "[REDACTED]")
    assert (oldest.id, oldest.superseded_by) == (old.id, newest.id)
    assert (oldest.owner, oldest.topic, oldest.agent, oldest.session_id) == ("", None, None, None)
    assert [(subject, one.id) for subject, one in announced] == [("memory.anonymized", old.id)]
    assert await memory.ledger.problems() == []


async def test_only_who_may_see_another_version_sees_that_there_was_one(
    memory: Memory, of_mode: OfMode
) -> None:
    richard = await replaced(memory, "tea", "water")
    old = (await richard.facts.history("user.drink"))[1]
    memory.clock = lambda: NOW + timedelta(days=31)
    await of_mode("on").run_once()

    assert texts(await richard.facts.history(old.id)) == ["water", "[REDACTED]"]
    for other in (EVE, NOBODY):
        assert await memory.of(other).facts.history(old.id) == []
        assert await memory.of(other).facts.history("user.drink") == []


async def test_a_dry_run_only_counts(memory: Memory, of_mode: OfMode, announced: Announced) -> None:
    richard = await replaced(memory, "tea", "water", "milk")
    announced.clear()
    memory.clock = lambda: NOW + timedelta(days=31)

    dry, off = of_mode("dry_run"), of_mode("off")

    assert (await dry.run_once(), await dry.due(), await off.run_once(), await off.due()) == (
        0,
        2,
        0,
        0,
    )
    assert texts(await richard.facts.history("user.drink")) == ["milk", "water", "tea"]
    assert announced == []


async def test_other_words_of_it_are_in_no_search_and_its_vector_is_gone(
    memory: Memory, of_mode: OfMode, database: Database
) -> None:
    await replaced(memory, "tea from the harbour", "water")
    memory.clock = lambda: NOW + timedelta(days=31)
    await of_mode("on").run_once()

    def left(connection: SqlConnection) -> int:
        matched = "SELECT count(*) FROM record_text WHERE record_text MATCH 'harbour'"
        vectors = "SELECT count(*) FROM vector JOIN record USING (row) WHERE content LIKE '[%'"
        kept = "SELECT count(*) FROM feature WHERE stems LIKE '%harbour%'"
        statements = (matched, vectors.replace("USING (row)", "ON row = record"), kept)
        return sum(connection.execute(each).fetchone()[0] for each in statements)

    assert await database.read(left) == 0


async def test_it_goes_on_after_it_was_stopped_between_two_batches(
    memory: Memory, of_mode: OfMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    richard = await replaced(memory, *map(str, range(6)))
    monkeypatch.setattr(retention, "RECORDS_PER_TRANSACTION", 2)
    memory.clock = lambda: NOW + timedelta(days=31)
    stopped = of_mode("on")

    def die(*_: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(stopped, "_announce", die)
    with suppress(asyncio.CancelledError):
        await stopped.run_once()

    assert texts(await richard.facts.history("user.drink")).count("[REDACTED]") == 2
    assert await of_mode("on").run_once() == 3
    assert texts(await richard.facts.history("user.drink")) == ["5", *["[REDACTED]"] * 5]


async def test_a_run_does_at_once_what_is_due(memory: Memory, of_mode: OfMode) -> None:
    richard = await replaced(memory, "tea", "water")
    memory.clock = lambda: NOW + timedelta(days=31)
    running = asyncio.create_task(of_mode("on").run())

    async def redacted() -> bool:
        return "[REDACTED]" in texts(await richard.facts.history("user.drink"))

    try:
        await eventually(redacted)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.mark.usefixtures("worker_here")
async def test_a_stack_says_how_many_it_would_anonymise_and_how_to_have_it_done(
    tmp_path: Path,
) -> None:
    settings = settings_in(tmp_path)
    memory = msgspec.structs.replace(settings.memory, anonymise_after_days=0)
    settings = msgspec.structs.replace(settings, memory=memory)
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


async def test_what_was_outdated_long_ago_and_noted_now_has_its_time(
    memory: Memory, richard: MemoryService, of_mode: OfMode
) -> None:
    """As by a conversation of years ago that is ingested today."""
    for value, at in (("Tea", 900), ("Mate", 800)):
        memory.clock = lambda at=at: NOW - timedelta(days=at)  # type: ignore[misc]
        await richard.write_topic("user.drink", value)
    memory.clock = lambda: NOW

    assert await of_mode("on").run_once() == 0
    assert texts(await richard.facts.history("user.drink")) == ["Mate", "Tea"]


async def test_the_history_of_a_retired_record_holds_nobody_elses(
    memory: Memory, richard: MemoryService, database: Database
) -> None:
    """Both are retired with nothing in their place."""
    mine = await richard.facts.store_topic("user.drink", "Tea")
    await memory.of(EVE).facts.store_topic("user.drink", "Mate")
    await database.write(lambda c: c.execute("UPDATE record SET superseded_by = ''").rowcount)

    assert texts(await memory.ledger.records.chain(mine.id)) == ["Tea"]
