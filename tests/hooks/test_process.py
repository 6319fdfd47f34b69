"""A hook exits with 0 and prints nothing, whatever goes wrong.

It logs the problem, and the client does not wait for its work in the background. Where neither a
hook's start nor its work in the background is tested, it is forked.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from forking import Fork
from local2.client.access import connected
from local2.client.tools import call_tool
from local2.config_files import load_settings
from local2.home import is_alive, is_running, user_name
from local2.hooks.state import Outbox
from local2.protocol.envelope import Sender
from local2.stack.app import open_stack
from recorded_hooks import CLIENT_NAMES, first, payloads, run_hook
from stacks import pid_of_stack, settings_in
from waiting import eventually, wait_until

LOG = Path(".local2", "logs", "hooks.log")
NOWHERE = "nats://127.0.0.1:1"
LONGEST = 60.0
"""Seconds for a process on a busy machine; hooks end by themselves much earlier."""


def command(folder: Path, client: str, event: str) -> list[str]:
    return [sys.executable, "-P", "-m", "local2.hooks", *arguments(folder, client, event)]


def arguments(folder: Path, client: str, event: str) -> list[str]:
    return [client, event, "--home", str(folder)]


def run(
    words: list[str],
    payload: bytes,
    *,
    cwd: Path | None = None,
    url: str = NOWHERE,
    **environment: str,
) -> subprocess.CompletedProcess[bytes]:
    """Run a hook to its end in a process of its own, as its client does.

    It starts no stack, since the address is not its own.
    """
    return subprocess.run(
        words,
        input=payload,
        cwd=cwd,
        capture_output=True,
        timeout=LONGEST,
        env={**os.environ, "LOCAL2_BUS__URL": url, **environment},
        check=False,
    )


def forked(
    folder: Path,
    client: str,
    event: str,
    payload: bytes,
    *,
    url: str = NOWHERE,
    seconds: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a hook to its end in a forked process; `seconds` replace its deadlines."""
    words = arguments(folder, client, event)
    environment = {**os.environ, "LOCAL2_BUS__URL": url}
    with TemporaryDirectory() as files:
        sent, output, errors = (Path(files, name) for name in ("stdin", "stdout", "stderr"))
        sent.write_bytes(payload)
        hook = Fork(run_hook, words, environment, seconds, (sent, output, errors))
        code = hook.wait(LONGEST)
        return subprocess.CompletedProcess(words, code, output.read_bytes(), errors.read_bytes())


def as_sent(payload: dict[str, Any]) -> bytes:
    return json.dumps(payload).encode()


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Run a server that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def url_of(server: socket.socket) -> str:
    return f"nats://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("client", CLIENT_NAMES)
def test_without_a_stack_every_hook_exits_with_0(client: str, tmp_path: Path) -> None:
    for payload in payloads(client, tmp_path):
        done = forked(tmp_path, client, payload["hook_event_name"], as_sent(payload))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    logged = (tmp_path / LOG).read_text()
    assert "No NATS server answers" in logged or "No time was left" in logged  # on a busy machine


def test_the_installed_command_imports_little(tmp_path: Path) -> None:
    """Every prompt waits for these imports; these modules took longer than all others together."""
    words = command(tmp_path, "claude-code", "Stop")
    words[1:1] = ["-X", "importtime"]

    done = run(words, b"{}")

    imported = {line.rpartition(b"|")[2].strip() for line in done.stderr.splitlines()}
    assert b"local2.hooks.context" in imported
    assert imported.isdisjoint({b"asyncio", b"inspect", b"nats", b"secrets", b"typer"})


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b"", "Input data was truncated"),
        (b'{"hook_event_name": "Other"}', "Invalid value at hook_event_name"),
        (b'{"hook_event_name": "Stop"}', "Object missing required field `session_id`"),
    ],
)
def test_an_unreadable_payload_exits_with_0_and_is_logged_with_a_remedy(
    payload: bytes, problem: str, tmp_path: Path
) -> None:
    done = forked(tmp_path, "claude-code", "Stop", payload)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (line,) = (tmp_path / LOG).read_text().splitlines()
    assert f"What claude-code sent with Stop cannot be read: {problem}" in line
    assert "Other" not in line
    assert "Update local2" in line


@pytest.mark.parametrize("client", ["another", ""])
def test_an_unknown_client_exits_with_0(client: str, tmp_path: Path) -> None:
    done = forked(tmp_path, client, "Stop", b"{}")

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_invalid_settings_exit_with_0_and_are_logged_without_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "memory.yaml").write_text("top_k: many")
    (tmp_path / ".local2").mkdir()
    prompt = first("codex", tmp_path, "UserPromptSubmit")

    done = forked(tmp_path, "codex", "UserPromptSubmit", as_sent(prompt))

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert "top_k" in (tmp_path / LOG).read_text()
    assert prompt["prompt"] not in (tmp_path / LOG).read_text()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_exits_with_0(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    prompt = first("codex", tmp_path, "UserPromptSubmit")

    done = forked(tmp_path, "codex", "UserPromptSubmit", as_sent(prompt))

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "Stop"])
def test_a_silent_server_is_not_waited_for(
    event: str, silent: socket.socket, tmp_path: Path
) -> None:
    payload = first("claude-code", tmp_path, event)

    done = forked(tmp_path, "claude-code", event, as_sent(payload), url=url_of(silent))

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_client_that_never_closes_its_side_is_not_waited_for(tmp_path: Path) -> None:
    waiting = subprocess.Popen(
        command(tmp_path, "codex", "Stop"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with waiting:
        assert waiting.wait(LONGEST) == 0
        assert waiting.stdout is not None
        assert waiting.stdout.read() == b""


def test_a_turn_is_kept_though_its_hook_was_ended_because_the_disk_hung(tmp_path: Path) -> None:
    for event in ("UserPromptSubmit", "Stop"):
        if event == "Stop":
            (session,) = (tmp_path / ".local2" / "hooks" / "sessions").iterdir()
            prompt = session.read_bytes()
            session.unlink()
            os.mkfifo(session)  # whoever reads it hangs
        payload = first("claude-code", tmp_path, event)
        done = run(command(tmp_path, "claude-code", event), as_sent(payload))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    with session.open("wb") as disk:
        disk.write(prompt)

    turns = tmp_path / ".local2" / "hooks" / "turns"
    wait_until(lambda: any(file.suffix in {".json", ".taken"} for file in turns.glob("*")))
    assert "The hook was ended after 2 s." in (tmp_path / LOG).read_text()


def test_the_client_does_not_wait_for_the_delivery_of_a_turn(
    silent: socket.socket, tmp_path: Path
) -> None:
    for payload in payloads("cursor", tmp_path)[1:5]:  # until the turn has ended
        event = payload["hook_event_name"]
        run(command(tmp_path, "cursor", event), as_sent(payload), url=url_of(silent))

    silent.settimeout(LONGEST)
    delivery, _ = silent.accept()  # from a process that outlives the hook
    delivery.close()


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit"])
@pytest.mark.usefixtures("worker_here")
async def test_memories_are_printed_in_the_format_of_the_client(event: str, tmp_path: Path) -> None:
    payload = first("claude-code", tmp_path, event)
    fact = {"content": "The invoice worker consumes from RabbitMQ.", "scope": "tenant"}
    async with open_stack(settings_in(tmp_path), with_generator=False) as stack:
        known = {**fact, "importance": 0.9}
        await call_tool(stack.bus, "remember_fact", known, caller=Sender(agent="test"))
        done = await asyncio.to_thread(
            forked, tmp_path, "claude-code", event, as_sent(payload), url=stack.url, seconds=60.0
        )
    assert (done.returncode, done.stderr) == (0, b"")
    added = json.loads(done.stdout)["hookSpecificOutput"]
    assert added["hookEventName"] == event
    assert fact["content"] in added["additionalContext"]


def test_a_failing_hook_writes_nothing_to_the_working_directory(tmp_path: Path) -> None:
    project, own = tmp_path / "project", tmp_path / "own"
    project.mkdir()

    done = run(command(own, "codex", "Stop")[:-2], b"{", cwd=project, LOCAL2_HOME=str(own))

    assert done.returncode == 0
    assert (own / LOG).exists()
    assert list(project.iterdir()) == []


@pytest.mark.parametrize(("mode", "used"), [(0o700, True), (0o755, False)])
def test_only_a_private_memory_in_the_project_is_used(
    mode: int, used: bool, tmp_path: Path
) -> None:
    """A stack makes its folder private; any other could have come with the repository."""
    project, own = tmp_path / "project", tmp_path / "own"
    (project / ".local2").mkdir(parents=True)
    (project / ".local2").chmod(mode)
    prompt = first("cursor", project, "UserPromptSubmit")

    words = command(own, "cursor", "beforeSubmitPrompt")[:-2]
    assert run(words, as_sent(prompt), LOCAL2_HOME=str(own)).returncode == 0

    assert (project / ".local2" / "hooks").exists() == used
    assert (own / ".local2" / "hooks").exists() != used


def delivers(home: Path) -> bool:
    """Whether a process in the background delivers turns of a memory."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            if f"local2.hooks.delivery\0{home}\0".encode() in file.read_bytes():
                return True
    return False


async def test_the_first_session_starts_a_stack_that_stores_its_turn(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "LOCAL2_MEMORY__EMBEDDER": "minilm",
        "LOCAL2_GENERATOR__CHAT": "rules",
    }
    for payload in payloads("cursor", tmp_path)[:5]:  # until the turn has ended
        hook = command(tmp_path, "cursor", payload["hook_event_name"])
        data = as_sent(payload)
        await asyncio.to_thread(
            subprocess.run, hook, input=data, timeout=LONGEST, env=environment, check=True
        )

    settings = load_settings(home=tmp_path)
    try:
        await eventually(lambda: is_running(settings), within=LONGEST)
        outbox = Outbox(tmp_path / ".local2" / "hooks" / "turns")
        await eventually(lambda: outbox.is_empty, within=LONGEST)

        caller = Sender(user=user_name(None), agent="test")
        async with connected(settings, name="test") as bus:

            async def turn_is_stored() -> bool:
                search_args = {"query": "feature flags of the shop"}
                found = await call_tool(bus, "search_memory", search_args, caller=caller)
                return "Consul" in found.content

            await eventually(turn_is_stored, within=LONGEST)
    finally:
        await eventually(lambda: not delivers(tmp_path), within=LONGEST)  # it would start another
        stack = pid_of_stack(tmp_path)
        os.kill(stack, signal.SIGTERM)
        await eventually(lambda: not is_alive(stack), within=LONGEST)
