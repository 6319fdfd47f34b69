"""The examples of docs/http.md run as a reader would run them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commands import ROOT, Served
from http_servers import HttpServer

SECTION = (ROOT / "docs" / "http.md").read_text("utf-8").partition("## Generated clients")[0]
EXAMPLES = dict(re.findall(r"```(sh|python|js)\n(.*?)```", SECTION, re.DOTALL))
ADDRESS = "http://127.0.0.1:8643"


@pytest.fixture
def home(stack: Served, tmp_path: Path) -> Path:
    """A reader's home folder, whose memory of all projects is that of the stack."""
    memory = tmp_path / ".local" / "share" / "local2"
    memory.parent.mkdir(parents=True)
    memory.symlink_to(stack.folder)
    return tmp_path


@pytest.mark.parametrize(
    ("language", "command"),
    [
        ("sh", ["sh"]),
        ("python", [sys.executable, "-"]),
        ("js", ["node", "--input-type=module"]),
    ],
)
def test_the_example_remembers_a_city(
    home: Path, server: HttpServer, language: str, command: list[str]
) -> None:
    needed = "curl" if language == "sh" else command[0]
    if shutil.which(needed) is None:
        pytest.skip(f"{needed} is not installed.")
    assert ADDRESS in EXAMPLES[language]
    done = subprocess.run(
        command,
        input=EXAMPLES[language].replace(ADDRESS, server.url),
        env={"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "Oslo" in done.stdout
