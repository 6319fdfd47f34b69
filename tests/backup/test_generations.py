"""Backups in a folder are complete or absent, share unchanged data, and need their key."""

import asyncio
import errno
import os
import re
import resource
import shutil
import sqlite3
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from backup.conftest import CopyNotes
from backups import (
    back_up,
    back_up_again_and_again,
    data_dir,
    every_row,
    generations,
    key_pair,
    remember,
    restore_backup,
    rows,
)
from forking import Fork
from harm import flip
from local2.backup import taking
from local2.backup.sealing import Decrypter, Seal
from local2.backup.taking import Progress, Stopped
from local2.errors import (
    BackupError,
    ConfigError,
    DamagedError,
    InvalidArgumentsError,
    StorageError,
    UnwritableError,
)
from local2.ledger.engines.sqlite import copies

NOTES = 300


@pytest.fixture
def folder(copy_notes: CopyNotes, tmp_path: Path) -> Path:
    copy_notes(NOTES, tmp_path / "stack")
    return tmp_path / "stack"


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_restored_ledger_equals_the_original_row_by_row(
    folder: Path, backups: Path, tmp_path: Path
) -> None:
    taken = back_up(folder, backups)
    restored = await restore_backup(backups, tmp_path)

    assert taken.records == restored.records == NOTES
    ledger = "ledger.sqlite3"
    assert every_row(data_dir(tmp_path) / ledger) == every_row(data_dir(folder) / ledger)


async def test_a_second_backup_stores_only_changes_and_each_is_complete(
    folder: Path, backups: Path, tmp_path: Path
) -> None:
    first = back_up(folder, backups)
    await remember(folder, NOTES, NOTES + 1)
    second = back_up(folder, backups)

    assert second.written < first.written * 0.7
    for taken, records in ((first, NOTES), (second, NOTES + 1)):
        restored = await restore_backup(
            backups, tmp_path, generation=taken.generation, replace=True
        )
        assert restored.records == records


async def test_a_copy_of_a_single_backup_can_be_restored(
    folder: Path, backups: Path, tmp_path: Path
) -> None:
    back_up(folder, backups)
    taken = back_up(folder, backups)
    shutil.copytree(backups / taken.generation, tmp_path / "copy" / taken.generation)

    assert (await restore_backup(tmp_path / "copy", tmp_path)).records == NOTES


async def test_only_the_newest_backups_are_kept_with_the_data_they_share(
    folder: Path, backups: Path, tmp_path: Path
) -> None:
    made = [back_up(folder, backups, keep=2) for _ in range(4)]

    assert [taken.removed for taken in made] == [0, 0, 1, 1]
    assert [one.path.name for one in generations(backups)] == [
        taken.generation for taken in made[2:]
    ]
    assert (await restore_backup(backups, tmp_path)).records == NOTES


async def test_only_the_owner_may_read_backups_and_restored_ledgers(
    folder: Path, backups: Path, tmp_path: Path
) -> None:
    back_up(folder, backups)
    await restore_backup(backups, tmp_path)

    for file in [*files_in(backups), data_dir(tmp_path) / "ledger.sqlite3"]:
        assert file.stat().st_mode & 0o777 == 0o600, file
    for entry in backups.rglob("*/"):
        assert entry.stat().st_mode & 0o777 == 0o700, entry
    assert not (data_dir(folder) / taking.SCRATCH).exists()


async def test_an_encrypted_backup_can_be_restored_only_with_its_key(
    folder: Path, backups: Path, tmp_path: Path
) -> None:
    recipient, identity = key_pair(tmp_path)
    _, other = key_pair(tmp_path)
    back_up(folder, backups)  # plain data is not shared with encrypted backups
    back_up(folder, backups, recipient=recipient)
    again = back_up(folder, backups, recipient=recipient, keep=2)

    text = b"is about a planet"
    assert not [file for file in files_in(backups) if text in file.read_bytes()]
    assert again.written < again.size / 2
    for wrong in (None, other):
        with pytest.raises(BackupError, match=r"encrypted|decrypted"):
            await restore_backup(backups, tmp_path, identity=wrong)
    assert not (data_dir(tmp_path) / "ledger.sqlite3").exists()
    assert (await restore_backup(backups, tmp_path, identity=identity)).records == NOTES


async def test_data_encrypted_to_another_key_is_stored_again(
    folder: Path, backups: Path, tmp_path: Path
) -> None:
    (former, _), (recipient, identity) = key_pair(tmp_path), key_pair(tmp_path)
    keys = tmp_path / "keys.txt"
    keys.write_text(f"# the operator's\n{recipient}\n")
    back_up(folder, backups, recipient=former)
    back_up(folder, backups, recipient=str(keys))

    assert (await restore_backup(backups, tmp_path, identity=identity)).records == NOTES


@pytest.mark.parametrize("wrong", ["age1nothing", "nowhere.txt"])
def test_an_invalid_recipient_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="recipient"):
        Seal.for_recipient(wrong)


def test_an_invalid_identity_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "identity.txt"
    file.write_text("nothing")
    with pytest.raises(InvalidArgumentsError, match="no secret key"):
        Decrypter(file)


def test_without_the_extra_encrypted_backups_are_refused_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipient, identity = key_pair(tmp_path)
    monkeypatch.setitem(sys.modules, "pyrage", None)

    assert Seal.for_recipient(None).encrypt(b"data") == b"data"
    Decrypter()
    for encrypted in (partial(Seal.for_recipient, recipient), partial(Decrypter, identity)):
        with pytest.raises(ConfigError, match="pyrage, which is not installed") as refused:
            encrypted()
        assert "local2-memory[backup-encryption]" in str(refused.value.remedy)


async def test_a_folder_with_other_files_is_refused(folder: Path, backups: Path) -> None:
    backups.mkdir()
    (backups / "letters.txt").write_text("Dear Ada")

    with pytest.raises(BackupError, match="not a folder of backups, and not empty"):
        back_up(folder, backups)
    with pytest.raises(BackupError, match="not a folder of backups"):
        await restore_backup(backups, folder, replace=True)
    assert [file.name for file in files_in(backups)] == ["letters.txt"]


async def test_backups_of_another_ledger_are_not_removed(
    folder: Path, backups: Path, tmp_path: Path
) -> None:
    back_up(folder, backups)
    await remember(tmp_path, 0, 1)

    with pytest.raises(BackupError, match="another ledger"):
        back_up(tmp_path, backups, keep=1)
    assert len(generations(backups)) == 1


async def test_a_damaged_piece_is_detected_and_stored_again_by_the_next_backup(
    folder: Path, backups: Path, tmp_path: Path
) -> None:
    taken = back_up(folder, backups)
    piece = max((backups / taken.generation / "pieces").iterdir(), key=lambda file: file.name)
    flip(piece, 100)

    with pytest.raises(BackupError, match="piece is damaged"):
        await restore_backup(backups, folder, replace=True)
    assert len(rows(data_dir(folder) / "ledger.sqlite3")) == NOTES
    back_up(folder, backups)
    assert (await restore_backup(backups, tmp_path)).records == NOTES


async def test_a_damaged_ledger_is_not_backed_up(folder: Path, backups: Path) -> None:
    back_up(folder, backups)
    ledger = data_dir(folder) / "ledger.sqlite3"
    with closing(sqlite3.connect(ledger)) as connection:
        index = "SELECT rootpage FROM sqlite_master WHERE name = 'record_topic'"
        (page,) = connection.execute(index).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with ledger.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(os.urandom(size))

    with pytest.raises(DamagedError, match="damaged"):
        back_up(folder, backups, keep=1)
    assert len(generations(backups)) == 1
    assert not list(backups.glob("*.part"))


async def test_a_backup_without_enough_disk_space_writes_nothing(
    folder: Path, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(folder, backups)
    monkeypatch.setattr(copies, "RESERVE", 1 << 60)

    with pytest.raises(StorageError, match="MB are needed"):
        back_up(folder, backups)
    assert len(generations(backups)) == 1
    assert not (data_dir(folder) / taking.SCRATCH).exists()


async def test_a_full_disk_under_the_backups_is_not_taken_for_the_data_folders(
    folder: Path, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(taking, "write", refuse)
    with pytest.raises(UnwritableError, match=re.escape(f"{backups} cannot be written to")):
        back_up(folder, backups)


async def test_a_stopped_backup_leaves_nothing(folder: Path, backups: Path) -> None:
    progress = Progress()
    progress.stop()
    with pytest.raises(Stopped):
        back_up(folder, backups, progress=progress)

    assert generations(backups) == []


def back_up_on_a_full_disk(folder: Path, backups: Path, report: Path) -> None:
    """Back up in a process whose files have a limit; report the error."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    try:
        back_up(folder, backups)
    except StorageError as error:
        report.write_text(type(error).__name__)


async def test_a_kill_during_a_backup_leaves_only_complete_backups(
    folder: Path, backups: Path, tmp_path: Path
) -> None:
    for number in range(3):
        process = Fork(back_up_again_and_again, folder, backups)
        deadline = time.monotonic() + 60
        while len(list(backups.glob("*Z"))) < 2 + number or not list(backups.glob("*.part")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            await asyncio.sleep(0.001)
        process.kill()
        process.wait()

        for generation in generations(backups):
            restored = await restore_backup(
                backups, tmp_path, generation=generation.path.name, replace=True
            )
            assert restored.records == NOTES
    back_up(folder, backups)
    assert not list(backups.glob("*.part"))


@pytest.mark.skipif(sys.platform != "linux", reason="The limit is raised as on Linux.")
async def test_a_disk_that_becomes_full_leaves_no_partial_backup(
    folder: Path, backups: Path
) -> None:
    """A limit on file sizes simulates the full disk: the kernel refuses the same writes."""
    report = folder / "report"
    assert Fork(back_up_on_a_full_disk, folder, backups, report).wait(60) == 0

    assert report.read_text() in {"StorageError", "UnwritableError"}
    assert generations(backups) == []
    assert not list(backups.glob("*.part"))
    assert not (data_dir(folder) / taking.SCRATCH).exists()
