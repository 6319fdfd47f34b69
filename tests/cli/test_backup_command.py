"""`local2 backup` and `restore`: of a running stack, and where none runs."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from backups import key_pair
from commands import Served, answer, in_a_process, local2, served
from stacks import settings_in

NOTE = "The observatory opens at nine."


@pytest.fixture(scope="module")
def remembered(running: Served) -> Served:
    assert local2(running.folder, "call", "save_memory", f"content={NOTE}").returncode == 0
    return running


def test_a_backup_of_a_running_stack_is_restored_where_no_stack_runs(
    remembered: Served, tmp_path: Path
) -> None:
    made = local2(remembered.folder, "backup", str(tmp_path / "backups"))
    assert (made.returncode, made.stderr.strip()) == (0, "")
    assert "has 1 records" in made.stdout

    back = answer(tmp_path, "restore", str(tmp_path / "backups"))
    assert (back["records"], back["aside"]) == (1, None)
    exported = in_a_process(tmp_path, "doctor", "--deep")
    assert "1 records" in exported.stdout


def test_the_stack_keeps_its_folder_while_it_runs(remembered: Served, tmp_path: Path) -> None:
    local2(remembered.folder, "backup", str(tmp_path / "backups"))
    refused = local2(remembered.folder, "restore", str(tmp_path / "backups"), "--replace")

    assert refused.returncode == 1
    assert "in use by another stack" in " ".join(refused.stderr.split())


def test_an_encrypted_backup_comes_back_with_the_secret_key_of_a_file(
    remembered: Served, tmp_path: Path
) -> None:
    recipient, identity = key_pair(tmp_path)
    backups = str(tmp_path / "backups")
    report = answer(remembered.folder, "backup", backups, "--recipient", recipient)
    closed = answer(tmp_path, "restore", backups)
    opened = answer(tmp_path, "restore", backups, "--identity", str(identity))

    assert report["encrypted"]
    assert "--identity" in closed["error"]["message"]
    assert opened["records"] == 1


def test_a_backup_needs_a_folder(tmp_path: Path) -> None:
    done = local2(tmp_path, "backup")

    assert done.returncode == 1
    assert "backup_folder" in done.stderr


def test_the_doctor_says_when_the_last_backup_was_made_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL2_MEMORY__BACKUP_FOLDER", str(tmp_path / "backups"))
    settings = settings_in(tmp_path)
    scheduled = replace(settings.memory, backup_folder=tmp_path / "backups")
    with served(replace(settings, memory=scheduled)):
        none = findings(tmp_path)
        assert local2(tmp_path, "backup").returncode == 0
        one = findings(tmp_path)

    assert none.startswith("none yet")
    assert one.startswith("the newest of 20")


def findings(folder: Path) -> str:
    found = json.loads(local2(folder, "doctor", "--json").stdout)
    return next(str(one["detail"]) for one in found if one["name"] == "backups")


def test_without_a_stack_one_is_started_for_the_backup(tmp_path: Path) -> None:
    done = in_a_process(tmp_path, "backup", str(tmp_path / "backups"))

    assert done.returncode == 0, done.stderr
    assert "backing up offline" in done.stdout
    assert "has 0 records" in done.stdout
