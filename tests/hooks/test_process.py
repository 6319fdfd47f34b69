"""A hook as a client runs it: whatever goes wrong, it ends with 0 and writes nothing.

Its problem is in its log, and nobody waits for what it leaves to the background.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from local.app import open_stack
from local.client.access import connected
from local.client.tools import call_tool
from local.config_files import load_settings
from local.home import RUNTIME_FILE, Runtime, is_alive, is_running, user_name
from local.hooks.state import Outbox
from local.protocol.envelope import Sender
from recorded_hooks import CLIENT_NAMES, first, payloads
from stacks import settings_in
from waiting import eventually

LOG = Path(".local2", "logs", "hooks.log")
UNHURRIED = """
import sys
from local.hooks import acting
acting.PROMPT_SECONDS = acting.START_SECONDS = acting.HOOK_SECONDS = 60.0
acting.main(sys.argv[1:])
"""
"""The same without its deadlines: how fast this machine is, is not what is tested."""
NOWHERE = "nats://127.0.0.1:1"
LONGEST = 60.0
"""Seconds for a process on a busy machine; hooks end by themselves long before."""


def command(folder: Path, client: str, event: str) -> list[str]:
    return [sys.executable, "-P", "-m", "local.hooks", client, event, "--home", str(folder)]


def run(
    folder: Path,
    client: str,
    event: str,
    given: bytes,
    *,
    url: str = NOWHERE,
    words: list[str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a hook to its end; without a stack to start, since the address is another's."""
    return subprocess.run(
        words or command(folder, client, event),
        input=given,
        capture_output=True,
        timeout=LONGEST,
        env={**os.environ, "LOCAL2_BUS__URL": url},
        check=False,
    )


def as_sent(payload: dict[str, Any]) -> bytes:
    return json.dumps(payload).encode()


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts a connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def url_of(server: socket.socket) -> str:
    return f"nats://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("client", CLIENT_NAMES)
def test_without_a_stack_every_hook_ends_well(client: str, tmp_path: Path) -> None:
    for payload in payloads(client, tmp_path):
        done = run(tmp_path, client, payload["hook_event_name"], as_sent(payload))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert "No NATS server answers" in (tmp_path / LOG).read_text()


@pytest.mark.parametrize(
    "given",
    [b"", b"[]", b"{", b'{"hook_event_name": "Other"}', b"\xff", b'{"hook_event_name": "Stop"}'],
)
def test_what_cannot_be_read_ends_well(given: bytes, tmp_path: Path) -> None:
    done = run(tmp_path, "claude-code", "Stop", given)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("client", ["another", ""])
def test_an_unknown_client_ends_well(client: str, tmp_path: Path) -> None:
    done = run(tmp_path, client, "Stop", b"{}")

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_broken_settings_end_well_and_are_logged_without_what_was_said(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "memory.yaml").write_text("top_k: many")
    (tmp_path / ".local2").mkdir()
    prompt = first("codex", tmp_path, "UserPromptSubmit")

    done = run(tmp_path, "codex", "UserPromptSubmit", as_sent(prompt))

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert "top_k" in (tmp_path / LOG).read_text()
    assert prompt["prompt"] not in (tmp_path / LOG).read_text()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_ends_well(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    prompt = first("codex", tmp_path, "UserPromptSubmit")

    done = run(tmp_path, "codex", "UserPromptSubmit", as_sent(prompt))

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "Stop"])
def test_a_server_that_says_nothing_is_not_waited_for(
    event: str, silent: socket.socket, tmp_path: Path
) -> None:
    payload = first("claude-code", tmp_path, event)

    done = run(tmp_path, "claude-code", event, as_sent(payload), url=url_of(silent))

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_client_that_never_closes_its_side_is_not_waited_for(tmp_path: Path) -> None:
    waiting = subprocess.Popen(
        command(tmp_path, "codex", "Stop"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with waiting:
        assert waiting.wait(LONGEST) == 0
        assert waiting.stdout is not None
        assert waiting.stdout.read() == b""


def test_the_client_does_not_wait_for_the_delivery_of_a_turn(
    silent: socket.socket, tmp_path: Path
) -> None:
    for payload in payloads("cursor", tmp_path)[1:5]:  # until the turn has ended
        event = payload["hook_event_name"]
        run(tmp_path, "cursor", event, as_sent(payload), url=url_of(silent))

    silent.settimeout(LONGEST)
    delivery, _ = silent.accept()  # by a process that goes on, though the hook has ended
    delivery.close()


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit"])
@pytest.mark.usefixtures("worker_here")
async def test_what_is_known_is_written_as_the_client_reads_it(event: str, tmp_path: Path) -> None:
    payload = first("claude-code", tmp_path, event)
    fact = {"content": "The invoice worker consumes from RabbitMQ.", "scope": "tenant"}
    async with open_stack(settings_in(tmp_path), with_generator=False) as stack:
        known = {**fact, "importance": 0.9}
        await call_tool(stack.bus, "remember_fact", known, caller=Sender(agent="test"))
        hook = [sys.executable, "-c", UNHURRIED, *command(tmp_path, "claude-code", event)[4:]]
        done = await asyncio.to_thread(
            run, tmp_path, "claude-code", event, as_sent(payload), url=stack.url, words=hook
        )
    assert (done.returncode, done.stderr) == (0, b"")
    added = json.loads(done.stdout)["hookSpecificOutput"]
    assert added["hookEventName"] == event
    assert fact["content"] in added["additionalContext"]


def test_a_problem_makes_no_memory_of_the_folder_that_is_worked_in(tmp_path: Path) -> None:
    project, own = tmp_path / "project", tmp_path / "own"
    project.mkdir()

    done = subprocess.run(
        command(own, "codex", "Stop")[:-2],
        input=b"{",
        cwd=project,
        capture_output=True,
        timeout=LONGEST,
        env={**os.environ, "LOCAL2_HOME": str(own)},
        check=False,
    )

    assert done.returncode == 0
    assert (own / LOG).exists()
    assert list(project.iterdir()) == []


@pytest.mark.parametrize(("mode", "used"), [(0o700, True), (0o755, False)])
def test_a_memory_that_came_with_a_project_is_not_asked(
    mode: int, used: bool, tmp_path: Path
) -> None:
    """Only one that is private, as a stack makes it: a repository could bring any other."""
    project, own = tmp_path / "project", tmp_path / "own"
    (project / ".local2").mkdir(parents=True)
    (project / ".local2").chmod(mode)
    prompt = first("cursor", project, "UserPromptSubmit")

    subprocess.run(
        command(own, "cursor", "beforeSubmitPrompt")[:-2],
        input=as_sent(prompt),
        timeout=LONGEST,
        env={**os.environ, "LOCAL2_HOME": str(own)},
        check=True,
    )

    assert (project / ".local2" / "hooks").exists() == used
    assert (own / ".local2" / "hooks").exists() != used


async def test_the_first_session_starts_a_stack_which_takes_its_turn(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "LOCAL2_MEMORY__EMBEDDER": "minilm",
        "LOCAL2_GENERATOR__CHAT": "rules",
    }
    for payload in payloads("cursor", tmp_path)[:5]:  # until the turn has ended
        hook = command(tmp_path, "cursor", payload["hook_event_name"])
        given = as_sent(payload)
        await asyncio.to_thread(
            subprocess.run, hook, input=given, timeout=LONGEST, env=environment, check=True
        )

    settings = load_settings(home=tmp_path)
    try:
        await eventually(lambda: is_running(settings), within=LONGEST)
        outbox = Outbox(tmp_path / ".local2" / "hooks" / "turns")
        await eventually(lambda: outbox.is_empty, within=LONGEST)

        caller = Sender(user=user_name(None), agent="test")
        async with connected(settings, name="test") as bus:

            async def known() -> bool:
                sought = {"query": "feature flags of the shop"}
                found = await call_tool(bus, "search_memory", sought, caller=caller)
                return "Consul" in found.content

            await eventually(known, within=LONGEST)
    finally:
        runtime = msgspec.json.decode(
            (tmp_path / ".local2" / RUNTIME_FILE).read_bytes(), type=Runtime
        )
        os.kill(runtime.pid, signal.SIGTERM)
        await eventually(lambda: not is_alive(runtime.pid), within=LONGEST)
