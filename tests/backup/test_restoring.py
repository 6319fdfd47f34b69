"""A restore replaces a ledger only on request, completely, and repeats later erasures."""

from pathlib import Path

import pytest

from backup.conftest import CopyNotes
from backups import (
    back_up,
    data_dir,
    every_row,
    generations,
    remember,
    restore_backup,
    rows,
)
from ledgers import erase, open_ledger
from local2.backup import restoring
from local2.errors import BackupError, DamagedError
from local2.ledger.erasing import Selection
from local2.protocol.envelope import utc_now
from stacks import settings_in

NOTES = 20
LEDGER = "ledger.sqlite3"


@pytest.fixture
def folder(copy_notes: CopyNotes, tmp_path: Path) -> Path:
    copy_notes(NOTES, tmp_path / "stack")
    return tmp_path / "stack"


@pytest.fixture
def backups(folder: Path, tmp_path: Path) -> Path:
    back_up(folder, tmp_path / "backups")
    return tmp_path / "backups"


async def forget(folder: Path, selection: Selection) -> None:
    async with open_ledger(settings_in(folder).memory, "default") as ledger:
        await erase(ledger, selection, at=utc_now())


async def count(folder: Path) -> int:
    async with open_ledger(settings_in(folder).memory, "default") as ledger:
        return (await ledger.counts()).records


async def test_an_existing_ledger_is_not_overwritten(folder: Path, backups: Path) -> None:
    await remember(folder, NOTES, NOTES + 1)
    before = every_row(data_dir(folder) / LEDGER)

    with pytest.raises(BackupError, match="holds a memory"):
        await restore_backup(backups, folder)
    assert every_row(data_dir(folder) / LEDGER) == before


async def test_a_replaced_ledger_is_moved_aside_with_its_other_files(
    folder: Path, backups: Path
) -> None:
    await remember(folder, NOTES, NOTES + 5)
    restored = await restore_backup(backups, folder, replace=True)

    assert await count(folder) == NOTES
    assert restored.aside is not None
    aside = Path(restored.aside)
    assert {file.name for file in aside.iterdir()} >= {LEDGER, "ledger.tally"}
    assert len(rows(aside / LEDGER)) == NOTES + 5


async def test_a_restore_killed_between_two_moves_can_be_completed(
    folder: Path, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remember(folder, NOTES, NOTES + 5)
    rename, remaining_moves = Path.rename, [0]

    def rename_or_kill(self: Path, target: Path) -> Path:
        if not remaining_moves[0]:
            raise KeyboardInterrupt
        remaining_moves[0] -= 1
        return rename(self, target)

    for moves in range(3):  # first the old ledger, then the new one; the count would be third
        remaining_moves[0] = moves
        monkeypatch.setattr(Path, "rename", rename_or_kill)
        with pytest.raises(KeyboardInterrupt):
            await restore_backup(backups, folder, replace=True)
        monkeypatch.setattr(Path, "rename", rename)
        if moves:
            with pytest.raises(DamagedError, match=r"stored in it|acknowledged"):
                await count(folder)
    await restore_backup(backups, folder, replace=True)
    assert await count(folder) == NOTES


@pytest.mark.parametrize(
    "selection",
    [
        Selection(owner="ada"),
        Selection(owner="ada", session_id="s1"),
        Selection(owner="ada", id="r3"),
    ],
    ids=["everything", "a session", "one record"],
)
async def test_records_erased_since_the_backup_are_erased_again(
    folder: Path, backups: Path, selection: Selection
) -> None:
    await forget(folder, selection)
    remaining = [row[6] for row in rows(data_dir(folder) / LEDGER)]
    restored = await restore_backup(backups, folder, replace=True)

    assert restored.forgotten == (NOTES if selection.id is None else 1)
    assert restored.warnings == []
    ledger = data_dir(folder) / LEDGER
    assert [row[6] for row in rows(ledger)] == remaining
    assert b"Note 3 is about a planet" not in ledger.read_bytes()
    assert len(rows(ledger, "tombstone")) == len(
        rows(Path(str(restored.aside)) / LEDGER, "tombstone")
    )
    assert await count(folder) == NOTES - restored.forgotten


async def test_records_erased_before_the_backup_are_not_erased_again(
    folder: Path, tmp_path: Path
) -> None:
    await forget(folder, Selection(owner="ada", id="r3"))
    back_up(folder, tmp_path / "backups")
    restored = await restore_backup(tmp_path / "backups", folder, replace=True)

    assert (restored.forgotten, restored.warnings) == (0, [])


async def test_a_backup_does_not_count_the_shells_of_erased_records(
    folder: Path, tmp_path: Path
) -> None:
    await forget(folder, Selection(owner="ada", id="r3"))
    taken = back_up(folder, tmp_path / "backups")
    restored = await restore_backup(tmp_path / "backups", tmp_path / "elsewhere")

    assert taken.records == restored.records == NOTES - 1


async def test_turns_that_a_backup_lacks_give_a_warning(folder: Path, tmp_path: Path) -> None:
    back_up(folder, tmp_path / "backups", turns_waiting=2)

    (lacking,) = (await restore_backup(tmp_path / "backups", folder, replace=True)).warnings

    assert lacking.startswith("2 turns waited to be stored")


async def test_restoring_without_the_former_ledger_gives_a_warning(
    folder: Path, backups: Path, tmp_path: Path
) -> None:
    (elsewhere,) = (await restore_backup(backups, tmp_path / "elsewhere")).warnings
    (data_dir(folder) / LEDGER).write_bytes(b"noise" * 10_000)
    (damaged,) = (await restore_backup(backups, folder, replace=True)).warnings

    for warning in (elsewhere, damaged):
        assert warning.startswith("What was forgotten after 20")
    assert await count(folder) == NOTES


async def test_an_earlier_backup_can_be_chosen_by_name(folder: Path, backups: Path) -> None:
    await remember(folder, NOTES, NOTES + 5)
    back_up(folder, backups)
    first, second = (generation.path.name for generation in generations(backups))

    assert (await restore_backup(backups, folder, replace=True)).generation == second
    await restore_backup(backups, folder, generation=first, replace=True)
    assert await count(folder) == NOTES
    assert not (data_dir(folder) / restoring.SCRATCH).exists()
    with pytest.raises(BackupError, match="no backup 000009"):
        await restore_backup(backups, folder, generation="000009-20260101T000000Z", replace=True)
