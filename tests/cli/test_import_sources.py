"""`local2 import` of exports of other programs, and of folders of documents."""

import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from commands import COMMAND, START_SECONDS, Served, answer, local2, recalled, served, shown_on
from local2.settings import HOME_VARIABLE
from sources_made_up import archive_of, chatgpt_chat, chatgpt_message, many_chats
from stacks import settings_in

CHATS, MESSAGES = 600, 2


def exported(running: Served, file: Path, user: str) -> dict[str, list[dict[str, Any]]]:
    """The sessions of a user, without what depends on the user's name or the time."""
    done = local2(running.folder, "export", str(file), "--scope", "user", "--user", user)
    assert done.returncode == 0
    own = {"id", "owner", "stated_by", "stored_at"}
    sessions: dict[str, list[dict[str, Any]]] = {}
    for line in map(json.loads, file.read_text().splitlines()):
        if line["type"] == "record":
            kept = {name: value for name, value in line.items() if name not in own}
            sessions.setdefault(line["session_id"], []).append(kept)
    return sessions


def count(sessions: dict[str, list[dict[str, Any]]]) -> int:
    return sum(map(len, sessions.values()))


def shown_until_killed(folder: Path, file: Path, user: str, enough: int) -> str:
    """Import a file, and kill the command once it says that so many messages are stored."""
    terminal_side, process_side = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "import", str(file), "--user", user],
        cwd=folder,
        env={**os.environ, HOME_VARIABLE: str(folder), "TERM": "xterm", "COLUMNS": "120"},
        stdout=subprocess.DEVNULL,
        stderr=process_side,
    )
    os.close(process_side)
    shown = ""
    for piece in shown_on(terminal_side):
        shown += piece.decode(errors="replace")
        if any(int(n.replace(",", "")) >= enough for n in re.findall(r"([\d,]+) stored", shown)):
            process.kill()
    assert process.wait(START_SECONDS) == -signal.SIGKILL, "it was faster than its progress"
    return shown


@pytest.mark.timeout(300)
def test_a_killed_import_is_completed_without_doubles(tmp_path: Path) -> None:
    file = archive_of(tmp_path / "chatgpt.zip", {"conversations.json": many_chats(CHATS, MESSAGES)})

    # Nothing embeds here: it would take longer than the imports.
    with served(settings_in(tmp_path, embedder="ollama")) as running:
        (whole,) = answer(running.folder, "import", str(file), "--user", "undisturbed")
        shown = shown_until_killed(running.folder, file, "killed", enough=600)
        before = exported(running, tmp_path / "before.jsonl", "killed")
        (completed,) = answer(running.folder, "import", str(file), "--user", "killed")
        undisturbed = exported(running, tmp_path / "undisturbed.jsonl", "undisturbed")
        again = exported(running, tmp_path / "completed.jsonl", "killed")

    assert re.search(r"Importing .* +\d+%.* [\d,]+ stored, [\d,]+/s .*\d:\d\d:\d\d", shown)
    assert whole["data"]["stored"] == CHATS * MESSAGES
    assert 0 < count(before) < CHATS * MESSAGES
    # What the killed import had sent may be stored after the export.
    assert count(before) <= completed["data"]["known"] < CHATS * MESSAGES
    assert completed["data"]["stored"] == CHATS * MESSAGES - completed["data"]["known"]
    assert again == undisturbed
    assert count(undisturbed) == CHATS * MESSAGES


def test_what_is_read_before_a_file_breaks_is_stored(
    running: Served, tmp_path: Path, user: str
) -> None:
    whole = json.dumps(many_chats(3, MESSAGES))
    (tmp_path / "cut.json").write_text(whole[: whole.rindex('"conversation_id"')])
    (tmp_path / "at-once.json").write_text('[{"mapping": {')

    cut = local2(running.folder, "import", str(tmp_path / "cut.json"), "--user", user)
    at_once = local2(running.folder, "import", str(tmp_path / "at-once.json"), "--user", user)

    assert (cut.returncode, at_once.returncode) == (1, 1)
    assert "2 conversations, 4 messages: 4 records stored, 0 already known. Then: " in cut.stderr
    assert "Get the export once more. Import it again to continue: " in cut.stderr
    assert at_once.stderr.startswith("Error: at-once.json is broken: after object 0, ")
    assert at_once.stderr.endswith("→ Get the export once more.\n")


def test_what_was_left_out_is_told_by_reason_and_name(
    running: Served, tmp_path: Path, user: str
) -> None:
    huge = chatgpt_message("m2", "x" * 900_000)
    chats = [chatgpt_chat("c1", [chatgpt_message("m1", "Osmium is dense."), huge]), {"mapping": 7}]
    file = archive_of(tmp_path / "chatgpt.zip", {"conversations.json": chats, "user.json": {}})

    dry = local2(running.folder, "import", str(file), "--user", user, "--dry-run")
    done = local2(running.folder, "import", str(file), "--user", user)
    (again,) = answer(running.folder, "import", str(file), "--user", user)

    assert "2 messages: nothing was sent, 2 left out (1 could not be stored).\n" in dry.stdout
    assert (dry.returncode, done.returncode) == (1, 1)
    assert f"{file}: ChatGPT export.\n" in done.stdout
    assert "(messages of more than 900,000 bytes): chatgpt-c1: message m2." in done.stdout
    assert "(of another form than expected): conversations.json: object 2:" in done.stdout
    counts = "1 record stored, 0 already known, 3 left out (2 could not be stored)."
    assert done.stdout.endswith(f"{counts}\n")
    left_out = again["data"]["left_out"]
    assert {one["reason"]: (one["count"], one["refused"]) for one in left_out} == {
        "files of the export without conversations or facts": (1, False),
        "messages of more than 900,000 bytes": (1, True),
        "of another form than expected": (1, True),
    }
    assert (again["data"]["stored"], again["data"]["known"]) == (0, 1)
    (found,) = recalled(running.folder, "osmium", "--user", user, "--source-kinds", "chat_message")
    assert (found["session_id"], found["event_time"]) == ("chatgpt-c1", "2023-11-14T22:13:20Z")


def test_facts_keep_their_user_and_time_unless_they_are_to_be_mine(
    running: Served, tmp_path: Path, user: str
) -> None:
    file = tmp_path / "mem0.json"
    memory = {"id": "m1", "memory": "Grows moss.", "user_id": f"{user} there",
              "created_at": "2023-11-14T22:13:20Z"}  # fmt: skip
    file.write_text(
        json.dumps({"results": [memory, {**memory, "id": "m2", "memory": "x" * 70_000}]})
    )

    (theirs,) = answer(running.folder, "import", str(file), "--user", user)
    (mine,) = answer(running.folder, "import", str(file), "--user", user, "--mine")
    (again,) = answer(running.folder, "import", str(file), "--user", user, "--mine")

    assert (theirs["data"]["facts"], theirs["data"]["stored"], mine["data"]["stored"]) == (2, 1, 1)
    assert (again["data"]["stored"], again["data"]["known"]) == (0, 1)
    for owner in (f"{user} there", user):
        (found,) = recalled(running.folder, "moss", "--user", owner, "--source-kinds", "fact")
        assert (found["content"], found["event_time"]) == ("Grows moss.", "2023-11-14T22:13:20Z")


def test_messages_by_lines_get_the_ids_that_ingest_gives_them_and_stay_forgotten(
    running: Served, tmp_path: Path, user: str
) -> None:
    file = tmp_path / "talk.jsonl"
    lines = [{"role": "user", "content": "yes"}] * 3 + [{"role": "user", "content": "no"}]
    file.write_text("\n".join(map(json.dumps, lines)))

    answer(running.folder, "ingest", str(file), "--user", user)
    (imported,) = answer(running.folder, "import", str(file), "--user", user)
    local2(running.folder, "forget", "--user", user, "--yes")
    (erased,) = answer(running.folder, "import", str(file), "--user", user)

    assert (imported["data"]["stored"], imported["data"]["known"]) == (0, 4)
    assert (erased["data"]["stored"], erased["data"]["erased"]) == (0, 4)


def test_a_stack_that_does_not_run_is_named(tmp_path: Path) -> None:
    file = archive_of(tmp_path / "chatgpt.zip", {"conversations.json": many_chats(1)})

    failed = local2(tmp_path, "import", str(file))

    assert failed.returncode == 1
    assert failed.stderr.startswith("Error: No stack is running on ")
    assert "→ Start one with `local2 up`" in failed.stderr
