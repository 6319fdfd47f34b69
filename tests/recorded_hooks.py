"""Clients' sessions, as their hooks receive them: see hooks/README.md."""

import json
from pathlib import Path
from typing import Any

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
