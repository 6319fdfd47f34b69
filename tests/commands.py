"""The commands and the stack they talk to, each in this process or in a separate one.

A command's folder is its home, whether or not it has a memory already.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from anyio.from_thread import start_blocking_portal
from click.testing import CliRunner

from forking import Fork
from local2.cli import app
from local2.client import shared_stack
from local2.settings import HOME_VARIABLE, Settings
from local2.stack import supervisor
from waiting import wait_until
from workers import stack_with_worker_here, worker_in_this_process

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-c", "from local2.cli import app; app()"]
START_SECONDS = 60.0
TALK = [
    {"role": "user", "content": "Which metal is the densest?", "timestamp": "2023-05-08T13:56:00Z"},
    {"role": "assistant", "content": "Osmium.", "timestamp": "2023-05-08T13:57:00Z"},
    {"role": "user", "content": "yes", "timestamp": "2023-05-09T08:00:00Z"},
    {"role": "user", "content": "yes", "timestamp": "2023-05-09T08:01:00Z"},
]


def local2(folder: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run one command to its end in this process, which saves the imports.

    `given`: its standard input.
    """
    with chdir(folder):
        done = CliRunner().invoke(
            app, words, input=given, env={HOME_VARIABLE: str(folder)}, catch_exceptions=False
        )
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def in_a_process(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end in a new process, as users do."""
    return subprocess.run(
        [*COMMAND, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
        env={**os.environ, HOME_VARIABLE: str(folder)},
    )


def answer(folder: Path, *words: str) -> Any:
    """Run one command with --json, and return what it prints, parsed."""
    done = local2(folder, *words, "--json")
    return json.loads(done.stdout)


def in_a_fork(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end in a forked process, which saves the imports."""
    with TemporaryDirectory() as written:
        output, errors = Path(written, "stdout"), Path(written, "stderr")
        variables = {**os.environ, **environment}
        code = Fork(_run_command, folder, words, variables, output, errors).wait(START_SECONDS)
        return subprocess.CompletedProcess(words, code, output.read_text(), errors.read_text())


def _run_command(
    folder: Path, words: Sequence[str], environment: dict[str, str], output: Path, errors: Path
) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update({HOME_VARIABLE: str(folder), **environment})
    for number, file in ((1, output), (2, errors)):
        with file.open("wb") as opened:
            os.dup2(opened.fileno(), number)
    app(words)


def start_in_a_fork(settings: Settings, *, linger: float) -> Fork:
    """Start a client's stack as `shared_stack.start_stack` does, without any imports."""
    folder = settings.memory.data_dir.absolute()
    log = folder / shared_stack.LOG
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    words = shared_stack.words_of_stack(folder, linger)
    return Fork(_run_stack, folder, words, shared_stack._environment(settings), log)


def _run_stack(
    folder: Path, words: Sequence[str], environment: dict[str, str], errors: Path
) -> None:
    supervisor.supervised = worker_in_this_process
    _run_command(folder, words, environment, Path(os.devnull), errors)


class Running:
    """`local2 up` without a terminal, forked, with its vector worker in the same process."""

    process: subprocess.Popen[bytes] | Fork

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.errors = folder / "stderr.txt"
        home = {HOME_VARIABLE: str(folder)}
        self._start({**os.environ, **home, "LOCAL2_GENERATOR__CHAT": "rules", **environment})
        self.runtime = folder / ".local2" / "runtime.json"
        wait_until(
            lambda: self.runtime.exists() or self.process.poll() is not None, within=START_SECONDS
        )
        assert self.runtime.exists(), self.errors.read_text()

    def _start(self, environment: dict[str, str]) -> None:
        self.process = Fork(_run_stack, self.folder, ["up"], environment, self.errors)

    @property
    def url(self) -> str:
        return str(json.loads(self.runtime.read_text())["url"])

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=START_SECONDS)


class RunningAsUsersDo(Running):
    """`run_local.py`, started as in the README, and its vector worker, both as new processes."""

    def _start(self, environment: dict[str, str]) -> None:
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, ROOT / "run_local.py"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=environment,
            )


class Served(NamedTuple):
    """A running stack, for tests that do not depend on its process."""

    folder: Path
    url: str


@contextmanager
def served(settings: Settings) -> Iterator[Served]:
    """Run a stack in a thread of this process, which saves the imports of two processes."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(stack_with_worker_here(settings)) as stack,
    ):
        yield Served(settings.memory.data_dir.parent, stack.url)


def lines(file: Path, messages: Sequence[object]) -> str:
    """Write a file of JSON lines; return its name."""
    file.write_text("\n".join(json.dumps(message) for message in messages) + "\n")
    return str(file)


def remember(folder: Path, content: str, user: str) -> str:
    """Store a fact of a user, and return its id."""
    words = ("remember_fact", f"content={content}", "scope=user", "--user", user)
    return str(answer(folder, "call", *words)["data"]["id"])


def shown_on(terminal: int) -> Iterator[bytes]:
    """Yield what a process shows on its terminal, until it closes it.

    That is an error on Linux, and an end on macOS.
    """
    with os.fdopen(terminal, "rb", buffering=0) as opened, suppress(OSError):
        while piece := opened.read(4_096):
            yield piece


def recalled(folder: Path, query: str, *words: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = answer(folder, "recall", query, "--top-k", "20", *words)["items"]
    return items
