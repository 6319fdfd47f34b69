"""Messages as others send them: in local2's own form, or in that of OpenAI's chat API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from local.errors import InvalidArgumentsError
from local.memory.ingestion import Message
from local.memory.records import in_utc, written_time
from local.protocol.envelope import Name
from local.protocol.payloads import Json, ToolCallRecord
from local.protocol.reading import object_of


class Told(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what is told: a field that nobody knows may hold what was to be remembered."""


class ToldFunction(Told, frozen=True):
    name: str
    arguments: str = ""


class ToldCall(Told, frozen=True):
    """A tool call: `name`, `args` and what it answered; or `function`, as OpenAI has it."""

    id: str | None = None
    name: str | None = None
    args: Json = {}
    content: str = ""
    function: ToldFunction | None = None
    type: str = "function"
    ok: bool = True
    tool_output_key: str | None = None

    def record(self) -> ToolCallRecord:
        """As it is remembered; arguments that are no JSON object are left out."""
        name, args = self.name, self.args
        if self.function is not None:
            name = name or self.function.name
            args = args or object_of(self.function.arguments)
        return ToolCallRecord(
            id=self.id or None,
            name=name or "",
            args=args,
            ok=self.ok,
            content=self.content,
            tool_output_key=self.tool_output_key,
        )


class ToldPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message's content; only texts are remembered."""

    type: str = "text"
    text: str = ""


class ToldMessage(Told, frozen=True):
    """One message of a conversation, in the roles of chat models."""

    role: Literal["user", "assistant", "system", "developer", "tool"]
    content: str | list[ToldPart] | None = None
    id: Name | None = None
    name: Name | None = None
    timestamp: Annotated[
        str | None, msgspec.Meta(description="A date or time, e.g. 2026-05-01T14:30:00Z.")
    ] = None
    tool_calls: list[ToldCall] | None = None
    tool_call_id: Annotated[Name | None, msgspec.Meta(description="Of a tool's message.")] = None
    refusal: str | None = None
    """Kept nowhere, as the two after it; OpenAI's API sends them."""
    annotations: list[Json] | None = None
    audio: Json | None = None
    occurrence: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        msgspec.Meta(
            description="Of a message without an id in a conversation that is sent in parts: how "
            "often the same was said up to here."
        ),
    ] = None


def message_of(told: ToldMessage, within: str = "") -> Message:
    """The message as it is remembered.

    Args:
        told: As it came.
        within: What the names of its fields begin with in errors, e.g. `messages[1].`.

    Raises:
        InvalidArgumentsError: A tool call has no name, or the timestamp is no time.
    """
    calls = [call.record() for call in told.tool_calls or ()]
    if any(not call.name for call in calls):
        raise InvalidArgumentsError(
            f"{within}tool_calls: a call has no name.",
            remedy='A call is like {"id": "c1", "name": "weather", "args": {}, "content": "…"}, or '
            'as OpenAI has it, {"id": "c1", "function": {"name": "weather", "arguments": "{}"}}.',
        )
    return Message(
        role="system" if told.role == "developer" else told.role,
        content=_text(told.content),
        id=told.id or None,
        name=told.name or None,
        timestamp=_moment(told.timestamp, f"{within}timestamp"),
        tool_calls=calls,
        tool_call_id=told.tool_call_id or None,
        occurrence=told.occurrence,
    )


def _moment(text: str | None, field: str) -> datetime | None:
    """As it was written: session ids are made of it."""
    if not text:
        return None
    in_utc(moment := written_time(text, field), field)
    return moment


def _text(content: str | Sequence[ToldPart] | None) -> str | None:
    if content is None or isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if part.text)
