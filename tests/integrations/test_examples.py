"""The example of every page in docs/integrations prints what the page says.

One test checks that an example starts a stack and leaves none running.
"""

import asyncio
import os
import re
import subprocess
import sys
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_an_example_prints_what_its_page_says(page: Path, tmp_path: Path) -> None:
    with served(settings_in(tmp_path)):
        check_output(page, tmp_path)


async def test_an_example_starts_a_stack_that_stops_afterwards(tmp_path: Path) -> None:
    await asyncio.to_thread(check_output, FOLDER / "langgraph.md", tmp_path)

    await eventually(lambda: not (tmp_path / ".local2" / RUNTIME_FILE).exists(), within=STOPPED)


def check_output(page: Path, home: Path) -> None:
    text = page.read_text(encoding="utf-8")
    code, printed = re.findall(r"```(?:python)?\n(.*?)```", text, re.DOTALL)[-2:]
    environment = {
        **os.environ,
        "PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}",
        "LOCAL2_HOME": str(home),
        "LOCAL2_MEMORY__EMBEDDER": "minilm",
        "LOCAL2_GENERATOR__CHAT": "rules",
    }

    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (ran.stdout, ran.returncode) == (printed, 0), ran.stderr
