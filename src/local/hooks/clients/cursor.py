"""Cursor: its hooks.json.

The types are those of its documentation, as far as they are used. A hook at the start of a session
may add a context; `beforeSubmitPrompt` may only stop the prompt, so that what recall finds for one
cannot be given to the model.
"""

from pathlib import Path

import msgspec

from local.hooks import events
from local.hooks.clients.client import Client, Json, Scope


class Input(msgspec.Struct, frozen=True, kw_only=True, tag_field="hook_event_name"):
    conversation_id: str
    generation_id: str | None = None
    workspace_roots: list[str] = []


class SessionStart(Input, frozen=True, kw_only=True, tag="sessionStart"):
    pass


class BeforeSubmitPrompt(Input, frozen=True, kw_only=True, tag="beforeSubmitPrompt"):
    prompt: str


class AfterAgentResponse(Input, frozen=True, kw_only=True, tag="afterAgentResponse"):
    text: str


class Stop(Input, frozen=True, kw_only=True, tag="stop"):
    status: str = "completed"


class SessionEnd(Input, frozen=True, kw_only=True, tag="sessionEnd"):
    pass


_decoder = msgspec.json.Decoder(
    SessionStart | BeforeSubmitPrompt | AfterAgentResponse | Stop | SessionEnd
)


def read(data: bytes) -> events.Event | None:
    given = _decoder.decode(data)
    session, turn = given.conversation_id, given.generation_id
    project = next(iter(given.workspace_roots), None)
    match given:
        case SessionStart():
            return events.SessionStarted(session=session, project=project)
        case BeforeSubmitPrompt(prompt=prompt):
            return events.Prompted(session=session, project=project, text=prompt, turn=turn)
        case AfterAgentResponse(text=text):
            return events.Answered(session=session, project=project, text=text, turn=turn)
        case Stop(status="completed"):
            return events.TurnEnded(session=session, project=project, turn=turn)
        case SessionEnd():
            return events.SessionEnded(session=session, project=project)
    return None


class Output(msgspec.Struct, frozen=True, kw_only=True):
    additional_context: str


def answer(_: str, context: str) -> Output:
    return Output(additional_context=context)


def entry(command: str, seconds: int) -> Json:
    return {"command": command, "timeout": seconds}


def settings_file(scope: Scope) -> Path:
    return Path("." if scope == "project" else "~") / ".cursor" / "hooks.json"


CURSOR = Client(
    name="cursor",
    settings_file=settings_file,
    seconds={
        "sessionStart": 5,
        "beforeSubmitPrompt": 5,
        "afterAgentResponse": 5,
        "stop": 5,
        "sessionEnd": 5,
    },
    entry=entry,
    read=read,
    answer=answer,
    prompts_take_contexts=False,
    new_file={"version": 1},
)
