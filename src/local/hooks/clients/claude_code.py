"""Claude Code: `hooks` in its settings.json.

The types are those of `HookInput` in @anthropic-ai/claude-agent-sdk 0.3.330, as far as they are
used. With `last_assistant_message` the transcript, whose format is not documented, need not be
read.
"""

import os
from pathlib import Path

import msgspec

from local.hooks.clients.client import (
    Client,
    Compacting,
    Event,
    Interjected,
    Prompted,
    Scope,
    SessionEnded,
    SessionStarted,
    TurnEnded,
    addition,
    group,
)

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

    @property
    def event(self) -> Event:
        raise NotImplementedError


class SessionStart(Input, frozen=True, kw_only=True, tag=True):
    source: str | None = None

    @property
    def event(self) -> Event:
        return SessionStarted(
            session=self.session_id, project=self.cwd, compacted=self.source == "compact"
        )


class UserPromptSubmit(Input, frozen=True, kw_only=True, tag=True):
    prompt: str
    source: str | None = None

    @property
    def event(self) -> Event:
        if self.source in BY_PEOPLE:
            return Prompted(session=self.session_id, project=self.cwd, text=self.prompt)
        return Interjected(session=self.session_id, project=self.cwd)


class Stop(Input, frozen=True, kw_only=True, tag=True):
    last_assistant_message: str | None = None

    @property
    def event(self) -> Event:
        return TurnEnded(
            session=self.session_id, project=self.cwd, text=self.last_assistant_message
        )


class PreCompact(Input, frozen=True, kw_only=True, tag=True):
    @property
    def event(self) -> Event:
        return Compacting(session=self.session_id, project=self.cwd)


class SessionEnd(Input, frozen=True, kw_only=True, tag=True):
    @property
    def event(self) -> Event:
        return SessionEnded(session=self.session_id, project=self.cwd)


_decoder: msgspec.json.Decoder[Input] = msgspec.json.Decoder(
    SessionStart | UserPromptSubmit | Stop | PreCompact | SessionEnd
)


def read(data: bytes) -> Event | None:
    given = _decoder.decode(data)
    foreign = given.agent_id is not None or given.cursor_version is not None
    return None if foreign else given.event


def settings_file(scope: Scope) -> Path:
    """Return the project's file that is not checked in: hooks name a program of this machine."""
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
