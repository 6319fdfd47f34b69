"""A stack that cannot start prints one line with the error, and one with the remedy."""

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
from local2.settings import HOME_VARIABLE

LEDGER = Path(".local2", "ledger.sqlite3")
ENVIRONMENT = {"COLUMNS": "10000", "LOCAL2_GENERATOR__CHAT": "rules"}


class Refusal(NamedTuple):
    error: str
    remedy: str


def refused_start(folder: Path) -> Refusal:
    """Return the error and the remedy of a failed `up`, which prints nothing else."""
    return refusal_of(in_a_fork(folder, "up", **ENVIRONMENT))


def refusal_of(done: subprocess.CompletedProcess[str]) -> Refusal:
    match = re.fullmatch(r"Error: (.+)\n→ (.+)\n", done.stderr)
    assert (done.returncode, bool(match)) == (1, True), done.stderr
    return Refusal(*match.groups()) if match else Refusal("", "")


def ledger_finding(folder: Path) -> dict[str, str]:
    """Return the finding of `local2 doctor` on the ledger."""
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
def test_a_read_only_folder_prevents_the_start(tmp_path: Path, within: str) -> None:
    folder = tmp_path / within
    folder.mkdir(parents=True, exist_ok=True)
    with read_only(folder):
        refusal = refused_start(tmp_path)

    assert "cannot be written to: " in refusal.error
    assert str(tmp_path) in refusal.error
    assert refusal.remedy.startswith("Change its permissions, or name another folder")


def test_the_doctor_reports_a_ledger_in_a_read_only_folder(tmp_path: Path) -> None:
    (tmp_path / ".local2").mkdir()
    (tmp_path / LEDGER).write_bytes(b"SQLite format 3")
    with read_only(tmp_path / ".local2"):
        found = answer(tmp_path, "doctor")

    folder = {finding["name"]: finding for finding in found}[f"folder {tmp_path / '.local2'}"]
    assert (folder["verdict"], ledger_finding(tmp_path)["verdict"]) == ("broken", "broken")
    assert "cannot be written to" in folder["detail"]


def test_a_file_in_place_of_the_folder_prevents_the_start(tmp_path: Path) -> None:
    (tmp_path / ".local2").write_text("in the way")

    assert "cannot be written to: File exists" in refused_start(tmp_path).error
    found = {finding["name"]: finding for finding in answer(tmp_path, "doctor")}
    assert found[f"folder {tmp_path / '.local2'}"]["detail"].endswith(".local2 is not a folder.")
    assert "ledger" not in found


def test_a_full_disk_prevents_the_start(tmp_path: Path) -> None:
    """A limit on file sizes makes writes fail as on a full disk."""

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    refusal = refusal_of(
        subprocess.run(
            [*COMMAND, "up"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
            preexec_fn=fill,
            env={**os.environ, **ENVIRONMENT, HOME_VARIABLE: str(tmp_path)},
        )
    )

    assert str(tmp_path / ".local2") in refusal.error
    assert refusal.remedy.startswith("Make room")


def test_a_locked_ledger_prevents_the_start(tmp_path: Path) -> None:
    (tmp_path / ".local2").mkdir()
    with locked(tmp_path / LEDGER):
        refusal = refused_start(tmp_path)

    assert refusal.error.endswith("refused: database is locked.")
    assert refusal.remedy.startswith("Another program has locked it: close that")


def set_another_schema(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 999")


def create_foreign_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE record (name)")


def write_garbage(file: Path) -> None:
    file.write_bytes(b"not a ledger " * 1_000)


def truncate(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE record AS SELECT hex(randomblob(50000)) AS content")
        connection.commit()
    file.write_bytes(file.read_bytes()[:8_192])


@pytest.mark.parametrize(
    ("make", "error", "remedy"),
    [
        pytest.param(set_another_schema, "has schema 999", "local2 export", id="another schema"),
        pytest.param(
            write_garbage, "is damaged: file is not a database", "local2 restore", id="garbage"
        ),
        pytest.param(truncate, "is damaged: ", "local2 restore", id="cut"),
        pytest.param(
            create_foreign_table, "already exists", "another data folder", id="another program's"
        ),
    ],
)
def test_a_ledger_of_another_format_prevents_the_start(
    tmp_path: Path, make: Callable[[Path], None], error: str, remedy: str
) -> None:
    (tmp_path / ".local2").mkdir()
    make(tmp_path / LEDGER)

    refusal = refused_start(tmp_path)

    assert error in refusal.error
    assert str(LEDGER) in refusal.error
    assert remedy in refusal.remedy
    found = ledger_finding(tmp_path)
    assert (found["verdict"], found["detail"], found["remedy"]) == ("broken", *refusal)


@pytest.mark.parametrize("program", [[ROOT / "run_local.py"], ["-m", "local2", "up"]])
def test_an_interrupt_during_the_imports_prints_no_traceback(
    tmp_path: Path, program: list[str | Path]
) -> None:
    """A module in place of click is imported first, and interrupts the process."""
    (tmp_path / "click.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    done = subprocess.run(
        [sys.executable, *program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )

    assert (done.returncode, done.stderr) == (130, "")
