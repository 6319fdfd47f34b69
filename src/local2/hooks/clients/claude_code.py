"""Claude Code and OpenAI's Codex CLI, whose hooks have the same form.

The types are those parts that are used of `HookInput` in @anthropic-ai/claude-agent-sdk 0.3.330 and
of the schemas in codex-rs/hooks/schema/generated of openai/codex. `last_assistant_message` makes it
unnecessary to read transcripts, whose format neither client documents.
"""

import os
from pathlib import Path

import msgspec

from local2.hooks.clients.client import (
    PATIENCE,
    Client,
    Compacting,
    Event,
    Interjected,
    Json,
    Prompted,
    Scope,
    SessionEnded,
    SessionStarted,
    TurnEnded,
)
from local2.protocol.json_text import read_json

HUMAN_SOURCES = frozenset({None, "user", "sdk", "loop_wakeup", "schedule_wakeup"})
"""Sources of prompts written by a person. Codex and older versions of Claude Code name none."""


class Input(msgspec.Struct, frozen=True, kw_only=True, tag_field="hook_event_name"):
    """The fields that all events share.

    An event with an `agent_id` belongs to a subagent, and one with a `cursor_version` to Cursor,
    which also runs these hooks but has its own. Neither belongs to a turn of the user in this
    client. Only Codex sets `turn_id`.
    """

    session_id: str
    cwd: str | None = None
    turn_id: str | None = None
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
        if self.source not in HUMAN_SOURCES:
            return Interjected(session=self.session_id, project=self.cwd)
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
    given = read_json(data, _decoder.decode)
    foreign = given.agent_id is not None or given.cursor_version is not None
    return None if foreign else given.event


class Addition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    hook_event_name: str
    additional_context: str


class Output(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    hook_specific_output: Addition


def answer(event: str, context: str) -> Output:
    return Output(hook_specific_output=Addition(hook_event_name=event, additional_context=context))


def group(command: str) -> Json:
    return {"hooks": [{"type": "command", "command": command, "timeout": PATIENCE}]}


def settings_of_claude_code(scope: Scope) -> Path:
    """Where the hooks are written: for a project, to the file that is not checked in.

    Hooks contain the path of a program on this machine.
    """
    if scope == "project":
        return Path(".claude", "settings.local.json")
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude") / "settings.json"


def settings_of_codex(scope: Scope) -> Path:
    if scope == "project":
        return Path(".codex", "hooks.json")
    return Path(os.environ.get("CODEX_HOME") or "~/.codex") / "hooks.json"


CLAUDE_CODE = Client(
    name="claude-code",
    settings_file=settings_of_claude_code,
    events=("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"),
    entry=group,
    read=read,
    answer=answer,
)
CODEX = CLAUDE_CODE._replace(
    name="codex",
    settings_file=settings_of_codex,
    afterwards="Start it and trust them with /hooks; until then, it runs none of them.",
)
