"""The first example of each page runs in an empty folder with no stack running."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import START_SECONDS
from pages import python_in


@pytest.mark.parametrize(
    ("page", "naming", "printed"),
    [
        pytest.param(
            "README.md", "local2.connect", "Oslo\nAda prefers a window seat.\n", id="README"
        ),
        pytest.param(
            "docs/ways-in.md",
            "local2.connect",
            "We deploy on Tuesdays, never on Fridays.\n",
            id="the client",
        ),
        pytest.param("docs/ways-in.md", "LocalStore", "A window seat, please.\n", id="a framework"),
    ],
)
def test_an_example_in_python_prints_what_it_remembers(
    tmp_path: Path, page: str, naming: str, printed: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", python_in(page, naming)],
        cwd=tmp_path,
        env={**os.environ, "LOCAL2_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )

    assert (done.stdout, done.returncode) == (printed, 0), done.stderr
