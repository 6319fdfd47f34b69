"""A generated client and a tester of every operation know nothing but the OpenAPI document."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType

from commands import ROOT, served
from http_servers import HttpServer, http_server
from local2.protocol.memory_tools import TOOLS
from local2.protocol.services import SERVICES
from stacks import settings_in

ADDRESS = "http://127.0.0.1:8643"
SECTION = (ROOT / "docs" / "http.md").read_text("utf-8").partition("## Generated clients")[2]
EXAMPLES = dict(re.findall(r"```(ts|python)\n(.*?)```", SECTION.partition("\n## ")[0], re.DOTALL))
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
]
LEFT_OUT = ["/v1/events", "/v1/services/memory.backup"]
"""A stream that does not end, and an operation that writes into any folder."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """One for these tests only: the tester stores anything, also for everybody."""
    home = tmp_path_factory.mktemp("anything")
    with served(settings_in(home)), http_server(home, LOCAL2_HTTP__TIMEOUT="2") as running:
        yield running


def line_of(command: str) -> str:
    """The line of the section that begins with this command."""
    return next(line for line in SECTION.splitlines() if line.startswith(command))


@pytest.fixture
def project(server: HttpServer, tmp_path: Path) -> Path:
    """A reader's folder with the document."""
    with server.client() as client:
        (tmp_path / "openapi.json").write_bytes(client.get("/v1/openapi.json").content)
    return tmp_path


def run(project: Path, server: HttpServer, *command: str) -> str:
    done = subprocess.run(
        command,
        cwd=project,
        env={**os.environ, "TOKEN": Path(server.token_is_in).read_text().strip()},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_client_generated_for_python_passes_the_tutorial(
    server: HttpServer, project: Path
) -> None:
    (project / "tutorial.py").write_text(EXAMPLES["python"].replace(ADDRESS, server.url), "utf-8")
    of_command = ConfigFile(post_hooks=[]), MetaType.NONE, project / "openapi.json", "utf-8", False

    problems = generate(config=Config.from_sources(*of_command, project / "memory_client"))
    printed = run(project, server, sys.executable, "tutorial.py")

    assert list(problems) == []
    assert printed.split() == ["Oslo", "user.city"]


@pytest.mark.timeout(300)
def test_a_client_generated_for_typescript_compiles_strictly_and_passes_the_tutorial(
    server: HttpServer, project: Path
) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed.")
    (project / "tutorial.mts").write_text(EXAMPLES["ts"].replace(ADDRESS, server.url), "utf-8")
    installed = subprocess.run(
        [*line_of("npm install").split(), "--no-audit", "--no-fund", "--fetch-retries", "0"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode:
        pytest.skip(f"npm cannot install the generator: {installed.stderr.strip()}")

    run(project, server, *line_of("npx openapi-typescript").split())
    run(project, server, *line_of("npx tsc").split())
    printed = run(project, server, *line_of("node").split())

    assert printed.split() == ["Oslo", "user.city"]


@pytest.mark.timeout(180)
def test_no_operation_fails_or_answers_otherwise_than_the_document_states(
    server: HttpServer, tmp_path: Path
) -> None:
    token = Path(server.token_is_in).read_text().strip()
    tested = subprocess.run(
        [
            Path(sys.executable).parent / "schemathesis",
            *("run", f"{server.url}/v1/openapi.json"),
            *("--header", f"Authorization: Bearer {token}"),
            *("--checks", ",".join(CHECKS)),
            *(option for path in LEFT_OUT for option in ("--exclude-path", path)),
            *("--phases", "fuzzing", "--max-examples", "3", "--generation-database", "none"),
            *("--suppress-health-check", "all", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert tested.returncode == 0, tested.stdout
    assert f"Tested: {len(TOOLS) + len(SERVICES) - 1 + 4}" in tested.stdout  # four for memories
