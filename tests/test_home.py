"""Which folder's memory is used: the project's, else the user's own; paths are relative to it."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from local2.cli import app
from local2.config_files import load_settings
from local2.home import home_of
from local2.settings import Settings


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a memory; the current folder is nested in it."""
    (tmp_path / ".local2").mkdir(mode=0o700)
    inside = tmp_path / "src" / "deep"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    return tmp_path


def test_a_projects_memory_is_found_from_any_of_its_folders(project: Path) -> None:
    assert home_of(environment={"LOCAL2_HOME": "/elsewhere"}) == project


def test_a_configured_home_takes_precedence(project: Path) -> None:
    assert home_of("mine", {}) == project / "src" / "deep" / "mine"
    assert home_of(Path("~/mine"), {}) == Path.home() / "mine"


@pytest.mark.usefixtures("project")
def test_another_users_memory_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)

    assert home_of(environment={"LOCAL2_HOME": "/mine"}) == Path("/mine")


def test_a_memory_that_came_with_a_repository_is_not_used(project: Path) -> None:
    (project / ".local2").chmod(0o755)

    assert home_of(environment={"LOCAL2_HOME": "/mine"}) == Path("/mine")


def test_a_deleted_current_folder_is_named_with_a_remedy(project: Path) -> None:
    (project / "src" / "deep").rmdir()

    done = CliRunner().invoke(app, ["recall", "gold"])

    assert (done.exit_code, done.exception.__class__) == (1, SystemExit)
    assert done.stderr.startswith("Error: The current folder has been deleted.\n→ Change into")
    assert home_of(project) == project


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LOCAL2_HOME": "/one", "XDG_DATA_HOME": "/two"}, Path("/one")),
        ({"XDG_DATA_HOME": "/two"}, Path("/two/local2")),
        ({}, Path.home() / ".local" / "share" / "local2"),
    ],
)
def test_without_a_project_the_users_own_memory_is_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    expected: Path,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert home_of(environment=environment) == expected


def test_settings_and_relative_paths_belong_to_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "memory.yaml").write_text("top_k: 9\n")
    there = tmp_path / "there"
    (there / "config").mkdir(parents=True)
    (there / "config" / "memory.yaml").write_text("chroma_path: vectors\n")

    found = load_settings(
        environment={"LOCAL2_MEMORY__BACKUP_FOLDER": "/backups", "LOCAL2_HOME": "x"}, home=there
    )

    assert found.memory.data_dir == there / ".local2"
    assert found.memory.chroma_path == there / "vectors"
    assert found.memory.backup_folder == Path("/backups")
    assert found.bus.accounts == there / "config" / "nats"
    assert found.memory.top_k == Settings().memory.top_k
