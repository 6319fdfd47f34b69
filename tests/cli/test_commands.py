"""Users run the commands, and the stack that they talk to, in an empty folder."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from commands import (
    Running,
    RunningAsUsersDo,
    answer,
    in_a_fork,
    in_a_process,
    local2,
)
from doc_pages import printed_by, python_in
from local2._version import __version__
from local2.bus.connection import connect
from local2.bus.server import embedded_server
from local2.bus.streams import publish_durably
from local2.client.access import ask_service
from local2.llm.rules import HINT
from local2.protocol.memory_tools import TOOLS
from local2.protocol.payloads import Empty
from local2.protocol.services import STATUS
from waiting import eventually, wait_until

TURNS = 2


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAsUsersDo]:
    """Run a stack in a separate process."""
    stack = RunningAsUsersDo(tmp_path_factory.mktemp("stack"))
    yield stack
    if stack.process.poll() is None:
        stack.stop(signal.SIGTERM)


def test_a_topic_saved_by_one_process_is_recalled_by_another(running: Running) -> None:
    save = ("call", "save_topic", "topic=user.name", "content=Richard")
    saved = in_a_process(running.folder, *save)
    recalled = in_a_process(running.folder, "call", "recall_topic", "topic=user.name")

    no_time = "(There was no time to look for facts about the same thing.)\n"  # a busy machine
    assert (saved.returncode, saved.stdout.removesuffix(no_time)) == (
        0,
        "Memory saved: user.name\n",
    )
    assert (recalled.returncode, recalled.stdout) == (0, "[Memory: user.name] Richard\n")


def test_the_example_of_the_readme_works(running: Running, tmp_path: Path) -> None:
    with chdir(running.folder):
        printed = printed_by(python_in("README.md", "nats.connect"), tmp_path)

    assert printed == "[Memory: project.deadline] 1 December\n"


def test_tools_lists_every_tool_with_its_schema(running: Running) -> None:
    listed = {tool["name"]: tool["schema"] for tool in answer(running.folder, "tools")}
    assert list(listed) == sorted(tool.name for tool in TOOLS)
    assert listed["save_topic"]["function"]["parameters"]["required"] == ["topic", "content"]


def test_ask_uses_a_separate_session(running: Running) -> None:
    saved = answer(running.folder, "ask", "Remember that my preferred editor is Vim.")
    assert [call["name"] for call in saved["tool_calls"]] == ["save_topic"]
    again = local2(running.folder, "ask", "What editor do I prefer?")
    assert "Vim" in again.stdout


def test_a_blank_question_is_refused_in_words_of_the_command(running: Running) -> None:
    refused = local2(running.folder, "ask", " ")

    assert refused.returncode == 1
    assert refused.stderr == "Error: The question is blank.\n"
    assert answer(running.folder, "ask", " ")["error"]["code"] == "invalid_arguments"


def test_ask_says_beside_the_answer_that_rules_answer_and_it_is_not_remembered(
    running: Running,
) -> None:
    told = local2(running.folder, "ask", "The roof of the barn is copper.")
    recalled = answer(running.folder, "recall", "barn roof")

    assert HINT in told.stderr
    assert HINT not in told.stdout
    assert any("copper" in item["content"] for item in recalled["items"])
    assert not any(HINT in item["content"] for item in recalled["items"])


@pytest.mark.parametrize(
    ("words", "code", "mentioned"),
    [
        pytest.param(["call", "paint_wall"], "unknown_tool", "paint_wall", id="unknown-tool"),
        pytest.param(["call", "Paint.*"], "bad_request", "Paint.*", id="wildcard"),
        pytest.param(["call", "save_topic", "topic=user.x"], "invalid_arguments", "content"),
        pytest.param(["call", "recall_topic", "topic"], "invalid_arguments", "topic", id="word"),
    ],
)
def test_an_invalid_call_fails_and_names_the_error(
    running: Running, words: list[str], code: str, mentioned: str
) -> None:
    failed = local2(running.folder, *words)
    assert failed.returncode == 1
    assert mentioned in failed.stderr
    assert answer(running.folder, *words)["error"]["code"] == code


def test_a_wrong_setting_has_a_code_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "bus.yaml").write_text("porrt: 4222")

    error = answer(tmp_path, "recall", "tea")["error"]
    assert error["code"] == "invalid_configuration"
    assert "porrt" in error["message"]


@pytest.fixture
def indexing(running: Running) -> Running:
    """The stack, once its vector worker has started."""
    wait_until(lambda: findings(running)["index"]["verdict"] != "broken")
    return running


def findings(running: Running) -> dict[str, dict[str, str]]:
    """Return what the doctor finds, by name."""
    return {finding["name"]: finding for finding in answer(running.folder, "doctor")}


def test_reindex_over_the_bus_indexes_every_record(indexing: Running) -> None:
    local2(indexing.folder, "call", "save_memory", "content=The release is on Tuesday.")
    status = answer(indexing.folder, "reindex")
    assert status["problem"] is None
    assert status["waiting"] == 0
    assert status["indexed"] > 0


def test_doctor_finds_ledger_and_index_in_agreement(indexing: Running) -> None:
    found = findings(indexing)
    assert found["nats-server"]["verdict"] == "ok"
    assert found["MiniLM"]["verdict"] == "ok"
    assert found["stack"]["verdict"] == "ok"
    assert found["index"]["verdict"] != "broken"


def test_a_health_check_reports_whether_the_stack_is_ready(
    running: Running, tmp_path: Path
) -> None:
    serving = local2(running.folder, "doctor", "--ready")
    nowhere = local2(tmp_path, "doctor", "--ready")

    assert (serving.returncode, serving.stdout) == (0, "ready\n")
    ready = answer(running.folder, "doctor", "--ready")
    assert ready == {"ready": True, "reasons": [], "stacks": []}
    assert nowhere.returncode == 1
    assert "No stack is running" in nowhere.stderr


def test_a_second_stack_on_the_same_folder_is_told_which_process_runs(running: Running) -> None:
    second = in_a_fork(running.folder, "up")
    assert second.returncode == 1
    assert f"process {running.process.pid}" in second.stderr
    assert "`local2 chat`" in second.stderr
    assert "`local2 --home DIR up`" in second.stderr


async def test_a_signal_stops_the_stack_while_it_reads_and_the_next_one_has_all_memories(
    tmp_path: Path,
) -> None:
    answer_ = "I moved from Bern to Basel in May. " * 25_000
    first = Running(tmp_path)
    async with connect(first.url, name="test") as bus:
        for number in range(TURNS):
            payload = {"query": f"Where {number}?", "answer": answer_, "query_id": f"{number}"}
            await publish_durably(
                bus, "response.generation", json.dumps({"payload": payload}).encode()
            )
    assert first.stop(signal.SIGINT) == 0
    assert not first.runtime.exists()

    second = Running(tmp_path)
    try:
        async with connect(second.url, name="test") as bus:

            async def all_stored() -> bool:
                status = await ask_service(bus, STATUS, Empty())
                return status.records == TURNS * len(["Q", "A", "episode"])

            await eventually(all_stored, within=60)
    finally:
        code = second.stop(signal.SIGTERM)
    assert code == 0
    assert not second.runtime.exists()


async def test_a_stack_that_lost_its_nats_server_stops_cleanly(tmp_path: Path) -> None:
    async with embedded_server(tmp_path / "bus", host="127.0.0.1", port=-1) as server:
        stack = Running(tmp_path, LOCAL2_BUS__URL=server.url)
    assert stack.stop(signal.SIGTERM) == 0
    assert "Traceback" not in stack.errors.read_text()


def test_a_failing_story_fails_the_command(tmp_path: Path) -> None:
    story = tmp_path / "wrong.yaml"
    story.write_text(
        "name: Wrong\ndescription: It cannot hold.\nsessions:\n  - id: only\n    turns:\n"
        "      - call: recall_topic\n        args: {topic: user.name}\n"
        "        expect:\n          - result_contains: Richard\n"
    )
    failed = local2(tmp_path, "stories", str(story), "--model", "rules")
    assert failed.returncode == 1
    assert "0 of 1 stories passed." in failed.stdout


def test_the_version_is_printed_by_an_option_and_by_a_command(tmp_path: Path) -> None:
    assert local2(tmp_path, "--version").stdout == f"local2 {__version__}\n"
    assert local2(tmp_path, "version").stdout == f"{__version__}\n"
    assert answer(tmp_path, "version") == {"version": __version__}


def test_paths_stay_whole_in_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    folder = tmp_path / "a-folder-with-a-long-name"
    folder.mkdir()
    local2(folder, "tenants", "init")
    added = local2(folder, "tenants", "add", "acme").stdout

    assert str(folder / "config" / "nats" / "acme" / "agent.nk") in added
    assert str(folder / ".local2") in local2(folder, "doctor").stdout
    hooks = local2(folder, "hooks", "list").stdout
    assert str(folder / ".claude" / "settings.local.json") in hooks


def test_a_chat_needs_a_terminal(tmp_path: Path) -> None:
    refused = local2(tmp_path, "chat")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert "A chat needs a terminal." in refused.stderr
    assert "`local2 ask QUESTION`" in refused.stderr


def test_ctrl_c_while_a_command_is_imported_is_no_failure_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("local2.cli.commands.import_module", interrupted)

    done = local2(tmp_path, "version")

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("words", "problem", "help_"),
    [
        (("recall",), "Missing argument 'QUERY...'.", "local2 recall --help"),
        (("growth", "--days", "0"), "Invalid value for '--days'", "local2 growth --help"),
        (("dead-letters", "show", "x"), "Invalid value", "local2 dead-letters show --help"),
        (("hooks", "nosuch"), "No such command 'nosuch'", "local2 hooks --help"),
        (("nosuch",), "No such command 'nosuch'", "local2 --help"),
    ],
)
def test_a_wrong_command_line_is_told_as_json(
    tmp_path: Path, words: tuple[str, ...], problem: str, help_: str
) -> None:
    done = local2(tmp_path, *words, "--json")

    assert (done.returncode, done.stderr) == (2, "")
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "invalid_arguments"
    assert problem in error["message"]
    assert help_.removeprefix("local2") in error["message"]
    assert local2(tmp_path, *words).stdout == ""


@pytest.mark.parametrize("command", ["import", "export", "ingest", "add-document", "backup"])
def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, command: str) -> None:
    refused = local2(tmp_path, command, "")

    assert (refused.returncode, refused.stdout) == (2, "")
    assert "It is empty." in refused.stderr


@pytest.mark.parametrize("tenant", ["", "../acme"])
def test_a_tenant_that_can_have_no_such_name_is_refused(tmp_path: Path, tenant: str) -> None:
    refused = local2(tmp_path, "--tenant", tenant, "recall", "anything")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"'{tenant}' is not a tenant name." in refused.stderr


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.touch()

    refused = local2(tmp_path, "--home", str(file), "list")

    assert refused.returncode == 1
    assert f"{file} is no folder." in refused.stderr


def test_an_export_to_a_folder_is_refused_at_once(tmp_path: Path) -> None:
    refused = local2(tmp_path, "export", ".")

    assert (refused.returncode, refused.stdout) == (2, "")
    assert "is a directory" in refused.stderr


def test_ctrl_c_leaves_a_terminal_with_its_cursor(tmp_path: Path) -> None:
    program = (
        "from local2.cli import app, commands\n"
        "def interrupted(_): raise KeyboardInterrupt\n"
        "commands.import_module = interrupted\n"
        "app(['version'])"
    )
    ours, terminal = os.openpty()
    done = subprocess.run(
        [sys.executable, "-c", program], stderr=terminal, cwd=tmp_path, timeout=60, check=False
    )
    os.close(terminal)

    assert (done.returncode, os.read(ours, 1000)) == (130, b"\x1b[?25h")
    os.close(ours)


def test_ctrl_c_ends_an_import_with_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(work: Coroutine[Any, Any, None]) -> None:
        work.close()
        raise KeyboardInterrupt

    monkeypatch.setattr("local2.cli.import_.run_async", interrupted)
    (tmp_path / "notes.md").write_text("# Plants\n\nWater the ficus.\n")

    for words in (["notes.md"], ["notes.md", "--as", "local2"]):
        done = local2(tmp_path, "import", *words)
        assert done.returncode == 130
        assert "It was interrupted." in done.stderr
