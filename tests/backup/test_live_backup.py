"""A running stack is backed up over the bus while others write.

A backup has everything acknowledged before it began, even turns that only JetStream had.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from unittest.mock import Mock

import pytest

from backups import data_dir, generations, restore_backup, rows
from local2.backup import service
from local2.backup.service import Backups
from local2.bus import streams
from local2.bus.connection import Connection
from local2.bus.streams import publish_durably, turns_stored
from local2.client.access import ask_service
from local2.client.tools import call_tool
from local2.errors import (
    InvalidArgumentsError,
    OverloadedError,
    StorageError,
    UnavailableError,
    VectorError,
)
from local2.memory.intake.intake import Intake
from local2.protocol.envelope import utc_now
from local2.protocol.maintenance import (
    BackupList,
    BackupReport,
    BackupRequest,
    BackupStatus,
    VerificationRequest,
)
from local2.protocol.services import BACKUP, LIST_BACKUPS, VERIFY_BACKUP
from local2.stack.app import Stack, open_stack
from stacks import CALLER, all_indexed, contents, in_step, save, search, settings_in
from turns import GENERATION, turn
from waiting import eventually

pytestmark = pytest.mark.usefixtures("worker_here")

WRITERS = 4
LEDGER = "ledger.sqlite3"


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    async with open_stack(settings_in(tmp_path), with_generator=False) as running:
        yield running


async def ended(bus: Connection) -> BackupStatus:
    """Wait until nothing is under way, and return how the last of it ended."""

    async def over() -> bool:
        return not (await ask_service(bus, BACKUP, BackupRequest())).under_way

    await eventually(over, within=60)
    return await ask_service(bus, BACKUP, BackupRequest())


async def back_up_stack(bus: Connection, folder: Path) -> BackupReport:
    await ask_service(bus, BACKUP, BackupRequest(folder=str(folder)))
    status = await ended(bus)
    assert status.problem is None
    assert status.last is not None
    return status.last


async def write(
    bus: Connection, writer: int, acknowledged: list[str], enough: asyncio.Event
) -> None:
    """Save notes and publish turns until `enough` is set, and record what was acknowledged."""
    for number in count():
        if enough.is_set():
            return
        note = f"Writer {writer} noted {number} things."
        assert (await save(bus, note)).ok
        acknowledged.append(note)
        question = f"What is {number} times {writer + 2}?"
        await publish_durably(bus, GENERATION, turn(query=question, query_id=f"{writer}-{number}"))
        acknowledged.append(question)


def texts_in(ledger: Path) -> set[str]:
    return {str(value) for row in rows(ledger) for value in row if isinstance(value, str)}


async def test_a_backup_under_load_has_everything_acknowledged_before(
    stack: Stack, tmp_path: Path
) -> None:
    acknowledged: list[str] = []
    enough = asyncio.Event()
    async with asyncio.TaskGroup() as writers:
        for number in range(WRITERS):
            writers.create_task(write(stack.bus, number, acknowledged, enough))
        await eventually(lambda: len(acknowledged) > 100, within=60)
        before = list(acknowledged)
        report = await back_up_stack(stack.bus, tmp_path / "backups")
        assert len(acknowledged) > len(before)
        enough.set()
    assert await turns_stored(stack.bus, "default") == 0
    restored = await restore_backup(tmp_path / "backups", tmp_path / "elsewhere")

    assert restored.records == report.records
    assert report.turns_waiting == 0
    restored_ledger = data_dir(tmp_path / "elsewhere") / LEDGER
    found = texts_in(restored_ledger)
    assert [text for text in before if not any(text in one for one in found)] == []
    everything = {row[0]: row for row in identities(data_dir(tmp_path) / LEDGER)}
    copied = identities(restored_ledger)
    assert [row[0] for row in copied] == list(range(1, report.records + 1))
    assert [row for row in copied if everything[row[0]] != row] == []


def identities(ledger: Path) -> list[tuple[object, ...]]:
    """Return the columns that never change: row, tenant, id, kind, owner, topic and content."""
    return sorted((row[:7] for row in rows(ledger)), key=lambda row: int(str(row[0])))


async def test_a_backup_waits_for_turns_that_are_not_stored_yet(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_store = asyncio.Event()
    store_turn, state, counter = Intake.store_turn, streams.stream_state, count()
    checks = 0

    async def counted_state(*args: object) -> object:
        nonlocal checks
        checks = next(counter)
        return await state(*args)  # type: ignore[arg-type]

    async def late(self: Intake, *args: object) -> object:
        await may_store.wait()
        return await store_turn(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Intake, "store_turn", late)
    monkeypatch.setattr(streams, "stream_state", counted_state)
    await publish_durably(stack.bus, GENERATION, turn(query="What is the densest metal?"))
    begun = asyncio.create_task(back_up_stack(stack.bus, tmp_path / "backups"))
    await eventually(lambda: checks > 2)
    assert not (tmp_path / "backups").exists()
    may_store.set()

    assert (await begun).turns_waiting == 0
    await restore_backup(tmp_path / "backups", tmp_path / "elsewhere")
    assert "What is the densest metal?" in texts_in(data_dir(tmp_path / "elsewhere") / LEDGER)


async def test_a_turn_that_cannot_be_stored_is_reported(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = asyncio.Event()

    async def late(*_: object) -> None:
        await over.wait()
        raise StorageError("Not now.")

    monkeypatch.setattr(Intake, "store_turn", late)
    await publish_durably(stack.bus, GENERATION, turn(query="What is the densest metal?"))

    assert await turns_stored(stack.bus, "default", within=0.1) == 1
    over.set()


async def test_a_stack_on_a_restored_ledger_finds_only_the_records_of_the_backup(
    tmp_path: Path,
) -> None:
    settings = settings_in(tmp_path)
    async with open_stack(settings, with_generator=False) as stack:
        await save(stack.bus, "The observatory opens at nine.")
        await in_step(stack.bus)
        await back_up_stack(stack.bus, tmp_path / "backups")
        await save(stack.bus, "The telescope was sold later.")
        await in_step(stack.bus)
    restored = await restore_backup(tmp_path / "backups", tmp_path, replace=True)

    assert restored.warnings == []
    async with open_stack(settings, with_generator=False) as stack:
        await all_indexed(stack.bus, records=1)
        await in_step(stack.bus)
        found = contents(await search(stack.bus, "observatory or telescope"))
    assert found == ["The observatory opens at nine."]
    assert restored.aside is not None
    assert len(rows(Path(restored.aside) / LEDGER)) == 2
    assert (Path(restored.aside) / "ledger.tally").exists()


async def test_a_restored_ledger_is_compared_with_the_index_even_if_counts_agree(
    tmp_path: Path,
) -> None:
    settings = settings_in(tmp_path)
    async with open_stack(settings, with_generator=False) as stack:
        await save_topic(stack.bus, "Elixir")
        await in_step(stack.bus)
        before = await indexed_ids(stack)
        await back_up_stack(stack.bus, tmp_path / "backups")
        await save_topic(stack.bus, "Gleam")
        await in_step(stack.bus)
        assert await indexed_ids(stack) != before
    await restore_backup(tmp_path / "backups", tmp_path, replace=True)
    async with open_stack(settings, with_generator=False) as stack:
        await eventually(lambda: indexed_ids(stack), lambda found: found == before)


async def save_topic(bus: Connection, value: str) -> None:
    args = {"topic": "user.language", "content": value}
    assert (await call_tool(bus, "save_topic", args, caller=CALLER)).ok


async def indexed_ids(stack: Stack) -> list[str]:
    try:
        return await stack.memories.of_tenant("default").vectors.ids(0, 10)
    except VectorError:
        return []


async def test_a_concurrent_backup_and_a_relative_folder_are_refused(
    stack: Stack, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgumentsError, match="full path"):
        await ask_service(stack.bus, BACKUP, BackupRequest(folder="here"))
    await ask_service(stack.bus, BACKUP, BackupRequest(folder=str(tmp_path / "backups")))
    with pytest.raises(OverloadedError, match="at once"):
        await ask_service(stack.bus, BACKUP, BackupRequest(folder=str(tmp_path / "backups")))


async def test_a_fault_ends_a_backup_with_a_problem_that_does_not_quote_it(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "make_backup", Mock(side_effect=ValueError("plugh")))

    await ask_service(stack.bus, BACKUP, BackupRequest(folder=str(tmp_path / "backups")))

    assert (await ended(stack.bus)).problem == service.FAULT


async def test_backups_are_made_when_they_are_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "START_DELAY", 0.0)
    monkeypatch.setattr(service, "CHECK_INTERVAL", 0.01)
    backups = tmp_path / "backups"
    async with open_stack(
        settings_in(tmp_path, backup_folder=backups), with_generator=False
    ) as stack:

        async def has_one() -> bool:
            return (await ask_service(stack.bus, BACKUP, BackupRequest())).newest is not None

        await eventually(has_one)
        status = await ask_service(stack.bus, BACKUP, BackupRequest())
        assert status.scheduled == str(backups)
    (only,) = generations(backups)
    # A newest backup that is dated in the future does not count.
    for number, hours in ((2, 25), (3, 0)):
        now = only.at + timedelta(hours=hours)
        monkeypatch.setattr("local2.stack.app.utc_now", Mock(return_value=now))
        async with open_stack(settings_in(tmp_path, backup_folder=backups), with_generator=False):
            await eventually(lambda: len(generations(backups)) == number)  # noqa: B023 - awaited in the loop


async def test_stopping_the_stack_stops_a_backup_and_leaves_no_partial_files(
    tmp_path: Path,
) -> None:
    async with open_stack(settings_in(tmp_path), with_generator=False) as stack:
        await save(stack.bus, "The observatory opens at nine.")
        await ask_service(stack.bus, BACKUP, BackupRequest(folder=str(tmp_path / "backups")))
    assert not list((tmp_path / "backups").glob("*.part"))
    assert not (data_dir(tmp_path) / "backup.part").exists()


async def test_a_stop_does_not_wait_for_turns_that_are_not_stored(tmp_path: Path) -> None:
    waiting = asyncio.Event()

    async def never() -> int:
        waiting.set()
        await asyncio.Event().wait()
        return 0

    backups = Backups(settings_in(tmp_path).memory, dict, never, utc_now, lambda _: None)
    running = asyncio.create_task(backups.run())
    backups.begin(BackupRequest(folder=str(tmp_path / "backups")))
    await waiting.wait()
    running.cancel()
    await asyncio.wait((running,), timeout=10)

    assert running.cancelled()
    assert not (await backups.status()).under_way


async def verified(bus: Connection, **named: str) -> BackupStatus:
    await ask_service(bus, VERIFY_BACKUP, VerificationRequest(**named))
    return await ended(bus)


async def test_backups_are_listed_and_read_over_the_bus(stack: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    await save(stack.bus, "The observatory opens at nine.")
    for _ in range(2):
        await back_up_stack(stack.bus, folder)
    found = await ask_service(stack.bus, LIST_BACKUPS, BackupList(folder=str(folder)))
    second, first = found.backups
    sound = await verified(stack.bus, folder=str(folder), generation=first.generation)
    piece = next((folder / second.generation / "pieces").iterdir())
    piece.unlink()
    damaged = await verified(stack.bus, folder=str(folder))

    assert [listed.records for listed in found.backups] == [1, 1]
    assert second.at >= first.at
    assert sound.verified is not None
    assert (sound.verified.generation, sound.verified.damaged) == (first.generation, False)
    assert damaged.verified is not None
    assert (damaged.verified.generation, damaged.verified.damaged) == (second.generation, True)


async def test_a_folder_without_backups_is_refused_with_a_remedy(
    stack: Stack, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgumentsError, match="backup_folder"):
        await ask_service(stack.bus, LIST_BACKUPS, BackupList())
    with pytest.raises(UnavailableError, match="cannot be read"):
        await ask_service(stack.bus, LIST_BACKUPS, BackupList(folder=str(tmp_path / "nowhere")))
    assert "cannot be read" in str((await verified(stack.bus, folder=str(tmp_path / "no"))).problem)
