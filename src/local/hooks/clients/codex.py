"""OpenAI Codex CLI: its hooks.json.

The types are those of the schemas in codex-rs/hooks/schema/generated of openai/codex, as far as
they are used. `notify`, its older hook, says only that a turn has ended, and is not needed.
"""

import os
from pathlib import Path

import msgspec

from local.hooks import events
from local.hooks.clients.client import Client, Scope, addition, group


class Input(msgspec.Struct, frozen=True, kw_only=True, tag_field="hook_event_name"):
    """`agent_id`: of a subagent, whose prompts no user wrote."""

    session_id: str
    cwd: str | None = None
    turn_id: str | None = None
    agent_id: str | None = None


class SessionStart(Input, frozen=True, kw_only=True, tag=True):
    source: str | None = None


class UserPromptSubmit(Input, frozen=True, kw_only=True, tag=True):
    prompt: str


class Stop(Input, frozen=True, kw_only=True, tag=True):
    last_assistant_message: str | None = None


class PreCompact(Input, frozen=True, kw_only=True, tag=True):
    pass


class SessionEnd(Input, frozen=True, kw_only=True, tag=True):
    pass


_decoder = msgspec.json.Decoder(SessionStart | UserPromptSubmit | Stop | PreCompact | SessionEnd)


def read(data: bytes) -> events.Event | None:
    given = _decoder.decode(data)
    session, project, turn = given.session_id, given.cwd, given.turn_id
    if given.agent_id is not None:
        return None
    match given:
        case SessionStart(source=source):
            compacted = source == "compact"
            return events.SessionStarted(session=session, project=project, compacted=compacted)
        case UserPromptSubmit(prompt=prompt):
            return events.Prompted(session=session, project=project, text=prompt, turn=turn)
        case Stop(last_assistant_message=text):
            return events.TurnEnded(session=session, project=project, text=text, turn=turn)
        case PreCompact():
            return events.Compacting(session=session, project=project)
        case SessionEnd():
            return events.SessionEnded(session=session, project=project)


def settings_file(scope: Scope) -> Path:
    if scope == "project":
        return Path(".codex", "hooks.json")
    return Path(os.environ.get("CODEX_HOME") or "~/.codex") / "hooks.json"


CODEX = Client(
    name="codex",
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
