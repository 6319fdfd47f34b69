"""The example of every page in docs/integrations prints what the page says.

Examples run in this process, which has imported the frameworks, on a stack that runs already.
"""

import os
import re
import sys
from pathlib import Path

import pytest

from commands import served
from doc_pages import printed_by, python_in
from stacks import settings_in

FOLDER = Path(__file__).parents[2] / "docs" / "integrations"
IN_THEIR_OWN_ENVIRONMENT = {"crewai"}  # tests/try_crewai.py
PAGES = [page for page in sorted(FOLDER.glob("*.md")) if page.stem not in IN_THEIR_OWN_ENVIRONMENT]
COMMANDS = Path(sys.executable).parent


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
    with served(settings_in(home)):
        assert printed_by(program, home) == printed
        if page.stem == "langgraph":
            shortest = python_in("docs/ways-in.md", "LocalStore")
            assert printed_by(shortest, home) == "A window seat, please.\n"
