"""Cursor and its hooks.json.

The types are those parts of its documentation that are used. A hook at the start of a session may
add a context. `beforeSubmitPrompt` may only stop the prompt, so the results of a recall for a
prompt cannot be given to the model.
"""

from pathlib import Path

import msgspec

from local2.hooks.clients.client import (
    PATIENCE,
    Answered,
    Client,
    Event,
    Json,
    Prompted,
    Scope,
    SessionEnded,
    SessionStarted,
    TurnEnded,
)
from local2.protocol.json_text import read_json


class Input(msgspec.Struct, frozen=True, kw_only=True, tag_field="hook_event_name"):
    """The fields that all events share. `generation_id` changes with every prompt."""

    conversation_id: str
    generation_id: str | None = None
    workspace_roots: list[str] = []

    @property
    def project(self) -> str | None:
        return next(iter(self.workspace_roots), None)

    @property
    def event(self) -> Event | None:
        raise NotImplementedError


class SessionStart(Input, frozen=True, kw_only=True, tag="sessionStart"):
    @property
    def event(self) -> Event | None:
        return SessionStarted(session=self.conversation_id, project=self.project)


class BeforeSubmitPrompt(Input, frozen=True, kw_only=True, tag="beforeSubmitPrompt"):
    prompt: str

    @property
    def event(self) -> Event | None:
        return Prompted(
            session=self.conversation_id,
            project=self.project,
            text=self.prompt,
            turn=self.generation_id,
        )


class AfterAgentResponse(Input, frozen=True, kw_only=True, tag="afterAgentResponse"):
    text: str

    @property
    def event(self) -> Event | None:
        return Answered(
            session=self.conversation_id,
            project=self.project,
            text=self.text,
            turn=self.generation_id,
        )


class Stop(Input, frozen=True, kw_only=True, tag="stop"):
    """The end of a turn. `status`: completed, aborted or error; only a completed one is stored."""

    status: str = "completed"

    @property
    def event(self) -> Event | None:
        if self.status != "completed":
            return None
        return TurnEnded(
            session=self.conversation_id, project=self.project, turn=self.generation_id
        )


class SessionEnd(Input, frozen=True, kw_only=True, tag="sessionEnd"):
    @property
    def event(self) -> Event | None:
        return SessionEnded(session=self.conversation_id, project=self.project)


_decoder: msgspec.json.Decoder[Input] = msgspec.json.Decoder(
    SessionStart | BeforeSubmitPrompt | AfterAgentResponse | Stop | SessionEnd
)


def read(data: bytes) -> Event | None:
    return read_json(data, _decoder.decode).event


class Output(msgspec.Struct, frozen=True, kw_only=True):
    additional_context: str


def answer(_: str, context: str) -> Output:
    return Output(additional_context=context)


def entry(command: str) -> Json:
    return {"command": command, "timeout": PATIENCE}


def settings_file(scope: Scope) -> Path:
    return Path("." if scope == "project" else "~") / ".cursor" / "hooks.json"


CURSOR = Client(
    name="cursor",
    settings_file=settings_file,
    events=("sessionStart", "beforeSubmitPrompt", "afterAgentResponse", "stop", "sessionEnd"),
    entry=entry,
    read=read,
    answer=answer,
    prompts_take_contexts=False,
    new_file={"version": 1},
)
