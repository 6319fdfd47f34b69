"""The example of every page in docs/integrations prints what the page says.

Examples run in this process, which has imported the frameworks. One runs as its reader would run
it: it starts a stack, and leaves none running.
"""

import asyncio
import os
import re
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from commands import served
from local2.home import RUNTIME_FILE
from stacks import settings_in
from waiting import eventually

FOLDER = Path(__file__).parents[2] / "docs" / "integrations"
IN_THEIR_OWN_ENVIRONMENT = {"crewai"}  # tests/try_crewai.py
PAGES = [page for page in sorted(FOLDER.glob("*.md")) if page.stem not in IN_THEIR_OWN_ENVIRONMENT]
COMMANDS = Path(sys.executable).parent
STOPPED = 60.0
"""Seconds for the stack that an example started to notice that nobody uses it, and to stop."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's home, where examples run."""
    monkeypatch.chdir(tmp_path)
    for variable, value in {
        "PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}",
        "LOCAL2_HOME": str(tmp_path),
        "LOCAL2_MEMORY__EMBEDDER": "minilm",
        "LOCAL2_GENERATOR__CHAT": "rules",
    }.items():
        monkeypatch.setenv(variable, value)
    return tmp_path


def program_and_output(page: Path) -> tuple[str, str]:
    text = page.read_text(encoding="utf-8")
    program, printed = re.findall(r"```(?:python)?\n(.*?)```", text, re.DOTALL)[-2:]
    return program, printed


@pytest.mark.filterwarnings("default")  # as in a program
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_an_example_prints_what_its_page_says(page: Path, home: Path) -> None:
    program, printed = program_and_output(page)
    file = home / "example.py"
    file.write_text(program, encoding="utf-8")
    output = StringIO()
    with served(settings_in(home)), redirect_stdout(output):
        runpy.run_path(str(file), run_name="__main__")

    assert output.getvalue() == printed


async def test_an_example_starts_a_stack_that_stops_afterwards(home: Path) -> None:
    program, printed = program_and_output(FOLDER / "langgraph.md")

    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (ran.stdout, ran.returncode) == (printed, 0), ran.stderr
    await eventually(lambda: not (home / ".local2" / RUNTIME_FILE).exists(), within=STOPPED)
