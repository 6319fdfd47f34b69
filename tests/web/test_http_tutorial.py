"""The examples of docs/http.md run as a reader would run them."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import ROOT, served
from http_servers import http_server
from stacks import settings_in

EXAMPLES = dict(
    re.findall(
        r"```(sh|python|js)\n(.*?)```", (ROOT / "docs" / "http.md").read_text("utf-8"), re.DOTALL
    )
)
ADDRESS = "http://127.0.0.1:8643"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A reader's home folder with the memory of all projects, and the address of the server."""
    home = tmp_path_factory.mktemp("reader")
    memory = home / ".local" / "share" / "local2"
    memory.mkdir(parents=True)
    with served(settings_in(memory)), http_server(memory) as server:
        yield home, server.url


@pytest.mark.parametrize(
    ("language", "command"),
    [
        ("sh", ["sh"]),
        ("python", [sys.executable, "-"]),
        ("js", ["node", "--input-type=module"]),
    ],
)
def test_the_example_remembers_a_city(
    reader: tuple[Path, str], language: str, command: list[str]
) -> None:
    home, url = reader
    needed = "curl" if language == "sh" else command[0]
    if shutil.which(needed) is None:
        pytest.skip(f"{needed} is not installed.")
    assert ADDRESS in EXAMPLES[language]
    done = subprocess.run(
        command,
        input=EXAMPLES[language].replace(ADDRESS, url),
        env={"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "Oslo" in done.stdout
