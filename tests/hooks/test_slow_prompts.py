"""A prompt that gets no context in time is logged with what was slow, and counted."""

import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from commands import answer, local2
from local2.errors import BusTimeoutError, StackNotRunningError
from local2.examination.installation import check_hooks
from local2.hook_files import COUNTED_DAYS, LOG_FILE, PROMPTS, count_prompt, counted_prompts
from local2.hooks import acting
from local2.hooks.acting import HookRun, Hooks
from local2.hooks.clients import CLIENTS
from local2.hooks.context import ContextReader
from local2.hooks.state import Situation, log_problem
from recorded_hooks import first

CLIENT = "claude-code"


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Run a server that accepts connections and sends nothing; hooks use its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("LOCAL2_BUS__URL", f"nats://127.0.0.1:{server.getsockname()[1]}")
        yield server


def prompt_in(folder: Path) -> list[Path]:
    """Run the hook of a prompt in this process; return the homes whose turns it would deliver."""
    delivered: list[Path] = []
    payload = json.dumps(first(CLIENT, folder, "UserPromptSubmit")).encode()
    event = CLIENTS[CLIENT].read(payload)
    assert event is not None
    hooks = Hooks(
        CLIENTS[CLIENT], Situation.of(folder, None), lambda one: delivered.append(one.home)
    )
    with suppress(StackNotRunningError):
        hooks.act(event)
    return delivered


@pytest.mark.usefixtures("silent")
def test_a_server_that_does_not_answer_in_time_is_called_slow_and_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "BEGAN", time.monotonic())
    monkeypatch.setattr(acting, "PROMPT_SECONDS", 0.5)

    with pytest.raises(BusTimeoutError, match=r"The NATS server did not answer within \d+ ms\. "):
        prompt_in(tmp_path)


@pytest.mark.usefixtures("silent")
def test_a_hook_whose_own_start_was_slow_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "BEGAN", time.monotonic() - 60)

    slow = r"did not answer within 150 ms\. Before that, the hook's own start took 60\d{3} ms\.$"
    with pytest.raises(BusTimeoutError, match=slow):
        prompt_in(tmp_path)


def test_reading_keys_counts_as_the_hooks_own_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.monotonic()
    monkeypatch.setattr(acting, "BEGAN", began)
    monkeypatch.setattr(acting, "PROMPT_SECONDS", 100.0)
    left: list[float] = []

    def credentials_after_a_minute(_: Situation) -> None:
        monkeypatch.setattr(acting, "BEGAN", began - 60)

    monkeypatch.setattr(Situation, "credentials", credentials_after_a_minute)
    monkeypatch.setattr(ContextReader, "read", lambda *_, within: left.append(within))
    prompt_in(tmp_path)

    assert left
    assert left[0] <= 40


def test_only_a_missing_stack_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: socket.socket
) -> None:
    monkeypatch.setattr(acting, "BEGAN", time.monotonic())
    monkeypatch.setattr(acting, "PROMPT_SECONDS", 0.5)
    with suppress(BusTimeoutError):
        assert prompt_in(tmp_path) == []

    silent.close()
    monkeypatch.setattr(acting, "BEGAN", time.monotonic())
    monkeypatch.setattr(acting, "PROMPT_SECONDS", 60.0)
    assert prompt_in(tmp_path) == [tmp_path]


def run_of_a_prompt(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HookRun:
    """Return a hook with a prompt that has been read, but not answered."""
    run = HookRun([CLIENT, "UserPromptSubmit", "--home", str(folder)])
    payload = json.dumps(first(CLIENT, folder, "UserPromptSubmit")).encode()

    class Input:
        buffer = type("Buffer", (), {"read": staticmethod(lambda: payload)})

    monkeypatch.setattr("sys.stdin", Input)
    return run


@pytest.mark.usefixtures("silent")
def test_a_prompt_without_a_context_is_logged_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "BEGAN", time.monotonic() - 60)
    monkeypatch.chdir(tmp_path)

    assert run_of_a_prompt(tmp_path, monkeypatch).output() == b""

    data_dir = tmp_path / ".local2"
    counted = counted_prompts(data_dir)[CLIENT]
    assert (counted.prompts, counted.without) == (1, 1)
    assert str(counted.last_problem) in (data_dir / LOG_FILE).read_text()
    assert str(counted).startswith("1 of 1 prompts in 7 days without context; the last at 20")


def test_a_hook_that_is_ended_after_two_seconds_is_logged_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)
    monkeypatch.setattr(acting, "LOG_SECONDS", 60.0)
    monkeypatch.chdir(tmp_path)
    run = run_of_a_prompt(tmp_path, monkeypatch)

    def hang(*_: Any) -> None:
        run.give_up(signal.SIGALRM, None)
        raise SystemExit

    monkeypatch.setattr(Hooks, "act", hang)
    with suppress(SystemExit):
        run.output()

    assert ended == [0]
    assert counted_prompts(tmp_path / ".local2")[CLIENT].without == 1
    assert "The hook was ended after 2 s." in (tmp_path / ".local2" / LOG_FILE).read_text()


def test_prompts_of_the_last_days_are_counted_by_client(tmp_path: Path) -> None:
    for problem in ("", "Too\nslow.", ""):
        count_prompt(tmp_path, CLIENT, problem)
    count_prompt(tmp_path, "codex")
    old = datetime.now(UTC) - timedelta(days=COUNTED_DAYS + 1)
    with (tmp_path / PROMPTS / "codex.log").open("a") as file:
        file.write(f"{old.isoformat()} Too slow.\nnot a line\n")

    found = counted_prompts(tmp_path)

    assert (found[CLIENT].prompts, found[CLIENT].without) == (3, 1)
    assert found[CLIENT].last_problem == "Too slow."
    assert str(found["codex"]) == "0 of 1 prompts in 7 days without context."


def test_the_files_of_the_counts_and_of_the_problems_stay_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local2.hook_files.MAX_BYTES", 100)
    monkeypatch.setattr("local2.hooks.state.MAX_LOG_BYTES", 100)
    for _ in range(50):
        count_prompt(tmp_path, CLIENT)
        log_problem(tmp_path, CLIENT, StackNotRunningError("None runs."))

    assert sum(one.stat().st_size for one in (tmp_path / PROMPTS).iterdir()) < 300
    assert sum(one.stat().st_size for one in (tmp_path / LOG_FILE).parent.glob("hooks.log*")) < 600
    assert 4 <= counted_prompts(tmp_path)[CLIENT].prompts < 12


def test_doctor_and_the_list_of_hooks_show_prompts_without_a_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL2_HOME", str(tmp_path))
    data_dir = tmp_path / ".local2"
    count_prompt(data_dir, CLIENT, "Too slow.")
    count_prompt(data_dir, "codex")

    slow, good = check_hooks(data_dir)
    listed = answer(tmp_path, "hooks", "list")
    shown = local2(tmp_path, "hooks", "list").stdout

    assert (slow.name, slow.verdict, good.verdict) == (f"hooks of {CLIENT}", "note", "ok")
    assert str(data_dir / LOG_FILE) in (slow.remedy or "")
    counts = {one["client"]: one.get("prompts") for one in listed}
    assert counts[CLIENT]["without"] == 1
    assert "claude-code: 1 of 1 prompts in 7 days without context; the last at 20" in " ".join(
        shown.split()
    )
