"""The first examples of the pages print what they say, in an empty folder without a stack."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import START_SECONDS, served
from doc_pages import printed_by, python_in
from local2.settings import HOME_VARIABLE
from stacks import settings_in


def test_the_example_of_the_readme_needs_no_stack_and_prints_what_it_remembers(
    tmp_path: Path,
) -> None:
    """It prints nothing else, and stores its data in the user's own home."""
    done = subprocess.run(
        [sys.executable, "-c", python_in("README.md", "local2.connect")],
        cwd=tmp_path,
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("Oslo\nAda prefers a window seat.\n", "")
    assert (tmp_path / "local2" / ".local2" / "ledger.sqlite3").exists()


def test_the_example_of_the_client_prints_what_it_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    with served(settings_in(tmp_path)):
        printed = printed_by(python_in("docs/ways-in.md", "local2.connect"), tmp_path)

    assert printed == "We deploy on Tuesdays, never on Fridays.\n"
