"""Clients' sessions, as their hooks receive them: see hooks/README.md."""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from local2.hooks import acting

FOLDER = Path(__file__).parent / "hooks" / "sessions"
CLIENT_NAMES = ("claude-code", "codex", "cursor")
EVENT = "hook_event_name"
IN_CURSOR = {
    "SessionStart": "sessionStart",
    "UserPromptSubmit": "beforeSubmitPrompt",
    "Stop": "stop",
}


def payloads(client: str, project: Path) -> list[dict[str, Any]]:
    """Return what the hooks of a client receive in one session, in a project."""
    text = (FOLDER / f"{client}.jsonl").read_text(encoding="utf-8")
    lines = text.replace("PROJECT", str(project)).splitlines()
    return [json.loads(line) for line in lines]


def first(client: str, project: Path, event: str) -> dict[str, Any]:
    """Return the first payload of an event, given by its name in Claude Code."""
    names = {event, IN_CURSOR.get(event)}
    return next(one for one in payloads(client, project) if one[EVENT] in names)


def run_hook(
    arguments: Sequence[str],
    environment: dict[str, str],
    seconds: float | None,
    streams: tuple[Path, Path, Path],
) -> None:
    """Be a hook in a forked process, without its work in the background."""
    os.environ.clear()
    os.environ.update(environment)
    sent, *written = streams
    sys.stdin = sent.open()
    for number, file in enumerate(written, start=1):
        with file.open("wb") as opened:
            os.dup2(opened.fileno(), number)
    vars(acting).update(BEGAN=time.monotonic(), start_delivery=lambda _: None)
    if seconds is not None:  # the test does not measure speed
        acting.PROMPT_SECONDS = acting.START_SECONDS = acting.HOOK_SECONDS = seconds
    acting.main(arguments)
