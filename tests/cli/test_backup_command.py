"""`local2 backup` and `restore` work with and without a running stack."""

import json
from pathlib import Path

import pytest

from backups import key_pair
from commands import Served, answer, in_a_fork, local2, served
from stacks import settings_in

NOTE = "The observatory opens at nine."


@pytest.fixture(scope="module")
def stack_with_note(running_alone: Served) -> Served:
    assert local2(running_alone.folder, "call", "save_memory", f"content={NOTE}").returncode == 0
    return running_alone


def test_a_backup_of_a_running_stack_is_restored_without_a_stack(
    stack_with_note: Served, tmp_path: Path
) -> None:
    backup = local2(stack_with_note.folder, "backup", str(tmp_path / "backups"))
    assert (backup.returncode, backup.stderr) == (0, "")
    assert "has 1 records" in backup.stdout

    (listed,) = answer(tmp_path, "backup", str(tmp_path / "backups"), "--list")
    assert listed["records"] == 1
    assert listed["generation"] in local2(
        tmp_path, "backup", str(tmp_path / "backups"), "--list"
    ).stdout.replace("\n", "")

    restored = answer(tmp_path, "restore", str(tmp_path / "backups"))
    assert (restored["records"], restored["aside"]) == (1, None)
    examined = in_a_fork(tmp_path, "doctor", "--deep")
    assert "1 records" in examined.stdout


def test_restoring_into_the_folder_of_a_running_stack_is_refused(
    stack_with_note: Served, tmp_path: Path
) -> None:
    local2(stack_with_note.folder, "backup", str(tmp_path / "backups"))
    refused = local2(stack_with_note.folder, "restore", str(tmp_path / "backups"), "--replace")

    assert refused.returncode == 1
    assert "in use by another stack" in " ".join(refused.stderr.split())


def test_an_encrypted_backup_is_restored_with_the_secret_key_in_a_file(
    stack_with_note: Served, tmp_path: Path
) -> None:
    recipient, identity = key_pair(tmp_path)
    backups = str(tmp_path / "backups")
    report = answer(stack_with_note.folder, "backup", backups, "--recipient", recipient)
    refused = answer(tmp_path, "restore", backups)
    restored = answer(tmp_path, "restore", backups, "--identity", str(identity))

    assert report["encrypted"]
    assert "--identity" in refused["error"]["message"]
    assert restored["records"] == 1


def test_a_backup_is_verified_beside_a_running_stack(
    stack_with_note: Served, tmp_path: Path
) -> None:
    backups = tmp_path / "backups"
    generation = answer(stack_with_note.folder, "backup", str(backups))["generation"]

    intact = local2(stack_with_note.folder, "backup", str(backups), "--verify")
    (ledger,) = answer(stack_with_note.folder, "backup", str(backups), "--verify")["ledgers"]

    assert (intact.returncode, intact.stderr) == (0, "")
    assert "complete" in intact.stdout
    assert (ledger["path"], ledger["records"]) == ("ledger.sqlite3", 1)

    next((backups / generation / "pieces").iterdir()).write_bytes(b"")
    options = ["--verify", "--generation", generation]
    damaged = local2(stack_with_note.folder, "backup", str(backups), *options)
    found = answer(stack_with_note.folder, "backup", str(backups), *options)

    assert damaged.returncode == 1
    assert "is damaged, and cannot be restored" in " ".join(damaged.stderr.split())
    assert (found["damaged"], found["generation"]) == (True, generation)
    assert "a piece is damaged" in found["ledgers"][0]["damage"]


@pytest.mark.parametrize(
    "options", [["--verify", "--keep", "2"], ["--generation", "000001-20260101T000000Z"]]
)
def test_options_of_making_and_verifying_a_backup_exclude_each_other(
    tmp_path: Path, options: list[str]
) -> None:
    done = local2(tmp_path, "backup", str(tmp_path / "backups"), *options)

    assert done.returncode == 1
    assert "--verify" in done.stderr


def test_a_backup_needs_a_folder(tmp_path: Path) -> None:
    done = local2(tmp_path, "backup")

    assert done.returncode == 1
    assert "backup_folder" in done.stderr


def test_the_doctor_reports_the_last_scheduled_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL2_MEMORY__BACKUP_FOLDER", str(tmp_path / "backups"))
    with served(settings_in(tmp_path, backup_folder=tmp_path / "backups")):
        none = backup_detail(tmp_path)
        assert local2(tmp_path, "backup").returncode == 0
        one = backup_detail(tmp_path)

    assert none.startswith("none yet")
    assert one.startswith("the newest of 20")


def backup_detail(folder: Path) -> str:
    found = json.loads(local2(folder, "doctor", "--json").stdout)
    return next(str(one["detail"]) for one in found if one["name"] == "backups")


def test_a_backup_without_a_stack_is_made_offline(tmp_path: Path) -> None:
    done = in_a_fork(tmp_path, "backup", str(tmp_path / "backups"))

    assert done.returncode == 0, done.stderr
    assert "backing up offline" in done.stdout
    assert "has 0 records" in done.stdout


def test_a_folder_without_backups_is_named_with_what_to_do(tmp_path: Path) -> None:
    for folder in (tmp_path / "missing", tmp_path):
        for words in (("backup", str(folder), "--verify"), ("restore", str(folder))):
            refused = local2(tmp_path, *words)
            assert refused.returncode == 1
            assert str(folder) in refused.stderr
            assert "Name the folder that `local2 backup` wrote to." in refused.stderr
