"""Claude Code: `hooks` in its settings.json.

The types are those of `HookInput` in @anthropic-ai/claude-agent-sdk 0.3.330, as far as they are
used. `last_assistant_message` makes it needless to read the transcript, whose format is not
documented.
"""

import os
from pathlib import Path

import msgspec

from local.hooks import events
from local.hooks.clients.client import Client, Scope, addition, group

BY_PEOPLE = frozenset({None, "user", "sdk", "loop_wakeup", "schedule_wakeup"})
"""Sources of prompts that somebody wrote; older versions name none."""


class Input(msgspec.Struct, frozen=True, kw_only=True, tag_field="hook_event_name"):
    """`agent_id`: of a subagent. `cursor_version`: Cursor ran the hook, which has hooks of its own.

    Neither is a turn of the user's in this client.
    """

    session_id: str
    cwd: str | None = None
    agent_id: str | None = None
    cursor_version: str | None = None


class SessionStart(Input, frozen=True, kw_only=True, tag=True):
    source: str | None = None


class UserPromptSubmit(Input, frozen=True, kw_only=True, tag=True):
    prompt: str
    source: str | None = None


class Stop(Input, frozen=True, kw_only=True, tag=True):
    last_assistant_message: str | None = None


class PreCompact(Input, frozen=True, kw_only=True, tag=True):
    pass


class SessionEnd(Input, frozen=True, kw_only=True, tag=True):
    pass


_decoder = msgspec.json.Decoder(SessionStart | UserPromptSubmit | Stop | PreCompact | SessionEnd)


def read(data: bytes) -> events.Event | None:
    given = _decoder.decode(data)
    session, project = given.session_id, given.cwd
    if given.agent_id is not None or given.cursor_version is not None:
        return None
    match given:
        case SessionStart(source=source):
            compacted = source == "compact"
            return events.SessionStarted(session=session, project=project, compacted=compacted)
        case UserPromptSubmit(source=source) if source not in BY_PEOPLE:
            return events.Interjected(session=session, project=project)
        case UserPromptSubmit(prompt=prompt):
            return events.Prompted(session=session, project=project, text=prompt)
        case Stop(last_assistant_message=text):
            return events.TurnEnded(session=session, project=project, text=text)
        case PreCompact():
            return events.Compacting(session=session, project=project)
        case SessionEnd():
            return events.SessionEnded(session=session, project=project)


def settings_file(scope: Scope) -> Path:
    """A project's is the one that is not checked in: the hooks name a program of this machine."""
    if scope == "project":
        return Path(".claude", "settings.local.json")
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude") / "settings.json"


CLAUDE_CODE = Client(
    name="claude-code",
    settings_file=settings_file,
    seconds={
        "SessionStart": 5,
        "UserPromptSubmit": 5,
        "Stop": 5,
        "PreCompact": 5,
        "SessionEnd": 5,
    },
    entry=group,
    read=read,
    answer=addition,
)
