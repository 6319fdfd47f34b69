"""OpenAI Codex CLI: its hooks.json.

The types are those of the schemas in codex-rs/hooks/schema/generated of openai/codex, as far as
they are used. `notify`, its older hook, only reports that a turn has ended, and is not needed.
"""

import os
from pathlib import Path

import msgspec

from local.hooks.clients.client import (
    Client,
    Compacting,
    Event,
    Prompted,
    Scope,
    SessionEnded,
    SessionStarted,
    TurnEnded,
    addition,
    group,
)


class Input(msgspec.Struct, frozen=True, kw_only=True, tag_field="hook_event_name"):
    """`agent_id`: of a subagent, whose prompts no user wrote."""

    session_id: str
    cwd: str | None = None
    turn_id: str | None = None
    agent_id: str | None = None

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

    @property
    def event(self) -> Event:
        return Prompted(
            session=self.session_id, project=self.cwd, text=self.prompt, turn=self.turn_id
        )


class Stop(Input, frozen=True, kw_only=True, tag=True):
    last_assistant_message: str | None = None

    @property
    def event(self) -> Event:
        return TurnEnded(
            session=self.session_id,
            project=self.cwd,
            text=self.last_assistant_message,
            turn=self.turn_id,
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
    return None if given.agent_id is not None else given.event


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
    afterwards="Start it and trust them with /hooks: until then it runs none.",
)
