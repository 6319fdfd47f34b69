"""What keeps a stack from starting is said in a line, with what to do about it in another."""

import os
import re
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from commands import COMMAND, ROOT, START_SECONDS, answer, in_a_fork
from harm import locked
from harm import read_only as made_read_only

LEDGER = Path(".local2", "ledger.sqlite3")
ENVIRONMENT = {"COLUMNS": "10000", "LOCAL2_GENERATOR__CHAT": "rules"}


class Said(NamedTuple):
    error: str
    remedy: str


def refused(folder: Path) -> Said:
    """What `up` says that fails: one error and its remedy, and no more."""
    return said_by(in_a_fork(folder, "up", **ENVIRONMENT))


def said_by(done: subprocess.CompletedProcess[str]) -> Said:
    said = re.fullmatch(r"Error: (.+)\n→ (.+)\n", done.stderr)
    assert (done.returncode, bool(said)) == (1, True), done.stderr
    return Said(*said.groups()) if said else Said("", "")


def ledger_finding(folder: Path) -> dict[str, str]:
    """What `local2 doctor` makes of the ledger."""
    found: list[dict[str, str]] = answer(folder, "doctor")
    return next(finding for finding in found if finding["name"] == "ledger")


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    with ExitStack() as undo:
        try:
            undo.enter_context(made_read_only(folder))
        except PermissionError:
            pytest.skip("Root may not mount here.")
        yield


@pytest.mark.parametrize("within", [".", ".local2", ".local2/nats"])
def test_a_folder_that_is_read_only(tmp_path: Path, within: str) -> None:
    folder = tmp_path / within
    folder.mkdir(parents=True, exist_ok=True)
    with read_only(folder):
        said = refused(tmp_path)

    assert "cannot be written to: " in said.error
    assert str(tmp_path) in said.error
    assert said.remedy.startswith("Change its permissions, or name another folder")


def test_a_ledger_in_a_read_only_folder_is_said_by_doctor(tmp_path: Path) -> None:
    (tmp_path / ".local2").mkdir()
    (tmp_path / LEDGER).write_bytes(b"SQLite format 3")
    with read_only(tmp_path / ".local2"):
        found = answer(tmp_path, "doctor")

    folder = {finding["name"]: finding for finding in found}["folder .local2"]
    assert (folder["verdict"], ledger_finding(tmp_path)["verdict"]) == ("broken", "broken")
    assert "cannot be written to" in folder["detail"]


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / ".local2").write_text("in the way")

    assert "cannot be written to: File exists" in refused(tmp_path).error
    found = {finding["name"]: finding for finding in answer(tmp_path, "doctor")}
    assert found["folder .local2"]["detail"].endswith(".local2 is not a folder.")
    assert "ledger" not in found


def test_a_full_disk(tmp_path: Path) -> None:
    """A limit of file sizes refuses the writes that a full disk does."""

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    said = said_by(
        subprocess.run(
            [*COMMAND, "up"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
            preexec_fn=fill,
            env={**os.environ, **ENVIRONMENT},
        )
    )

    assert str(tmp_path / ".local2") in said.error
    assert said.remedy.startswith("Make room")


def test_a_ledger_that_is_locked(tmp_path: Path) -> None:
    (tmp_path / ".local2").mkdir()
    with locked(tmp_path / LEDGER):
        said = refused(tmp_path)

    assert said.error.endswith("refused: database is locked.")
    assert said.remedy.startswith("Another program has it locked: close that")


def newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 999")


def of_another_program(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE record (name)")


def garbage(file: Path) -> None:
    file.write_bytes(b"not a ledger " * 1_000)


def cut(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE record AS SELECT hex(randomblob(50000)) AS content")
        connection.commit()
    file.write_bytes(file.read_bytes()[:8_192])


@pytest.mark.parametrize(
    ("make", "error", "remedy"),
    [
        pytest.param(newer, "has schema 999", "Update local2", id="newer"),
        pytest.param(garbage, "is damaged: file is not a database", "local2 restore", id="garbage"),
        pytest.param(cut, "is damaged: ", "local2 restore", id="cut"),
        pytest.param(of_another_program, "already exists", "another data folder", id="another's"),
    ],
)
def test_a_ledger_that_is_none_of_this_version(
    tmp_path: Path, make: Callable[[Path], None], error: str, remedy: str
) -> None:
    (tmp_path / ".local2").mkdir()
    make(tmp_path / LEDGER)

    said = refused(tmp_path)

    assert error in said.error
    assert str(LEDGER) in said.error
    assert remedy in said.remedy
    found = ledger_finding(tmp_path)
    assert (found["verdict"], found["detail"], found["remedy"]) == ("broken", *said)


def test_an_interrupt_during_the_imports_is_no_traceback(tmp_path: Path) -> None:
    """A module that stands for typer is imported first of all, and interrupts."""
    (tmp_path / "typer.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    done = subprocess.run(
        [sys.executable, ROOT / "run_local.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )

    assert (done.returncode, done.stderr) == (130, "")
