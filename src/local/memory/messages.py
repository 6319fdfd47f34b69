"""Messages as others send them: in local2's own form, in that of OpenAI's chat API, or alike.

Nothing of a message is dropped: what is no text, and what nobody here knows, is kept beside it.
"""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from local.errors import InvalidArgumentsError
from local.memory.attachments import bounded
from local.memory.ingestion import Message
from local.memory.records import TIME_RULE, in_utc, written_time
from local.protocol.envelope import Name
from local.protocol.payloads import Json, ToolCallRecord
from local.protocol.reading import as_text, text_of, value_of
from local.protocol.tool import parameters_of

ROLES = {
    "ai": "assistant",
    "developer": "system",
    "function": "tool",
    "human": "user",
    "model": "assistant",
}
"""Roles that other APIs have for ours; any other role stays as it is."""
MILLISECONDS = 100_000_000_000
"""A number as a time counts seconds, or milliseconds from here on."""
SAYING = ("content", "text", "tool_calls", "function_call", "refusal")
"""A message without any of these keeps its text where nobody would look for it."""
Id = Name | int


class ReceivedFunction(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None = None
    arguments: Any = None


class ReceivedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call: `name`, `args` and what it answered; or `function`, as OpenAI has it."""

    id: Id | None = None
    name: str | None = None
    args: Json | None = None
    content: Any = None
    function: ReceivedFunction | None = None
    ok: bool | None = None
    tool_output_key: str | None = None

    def record(self) -> ToolCallRecord:
        """As it is remembered."""
        function = self.function or ReceivedFunction()
        return ToolCallRecord(
            id=_id(self.id),
            name=self.name or function.name or "",
            args=_arguments(function.arguments) if self.args is None else self.args,
            ok=self.ok is not False,
            content=_written(self.content),
            tool_output_key=self.tool_output_key,
        )


class ReceivedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation, in the roles of chat models."""

    role: Annotated[Name, msgspec.Meta(min_length=1, description="user, assistant, tool, system …")]
    content: Annotated[Any, msgspec.Meta(extra_json_schema={"type": "string"})] = None
    text: str | None = None
    id: Id | None = None
    name: Annotated[Name | None, msgspec.Meta(description="Who speaks, or which tool answers.")] = (
        None
    )
    timestamp: Annotated[
        str | float | None, msgspec.Meta(description="A date or time, e.g. 2026-05-01T14:30:00Z.")
    ] = None
    tool_calls: list[ReceivedCall] | None = None
    function_call: ReceivedFunction | None = None
    tool_call_id: Annotated[Id | None, msgspec.Meta(description="Of a tool's message.")] = None
    refusal: str | None = None
    occurrence: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        msgspec.Meta(
            description="Of a message without an id in a conversation that is sent in parts: how "
            "often the same was said up to here."
        ),
    ] = None
    parts: Annotated[
        list[Any], msgspec.Meta(description="A content of more than text, beside its text.")
    ] = []
    fields: Annotated[Json, msgspec.Meta(description="What else is kept with it.")] = {}

    def calls(self) -> list[ToolCallRecord]:
        calls = list(self.tool_calls or ())
        if self.function_call is not None:
            calls.append(ReceivedCall(function=self.function_call))
        return [call.record() for call in calls]


_KNOWN = frozenset(ReceivedMessage.__struct_fields__)

MessageJson = Annotated[Json, msgspec.Meta(extra_json_schema=parameters_of(ReceivedMessage))]
"""A message before it is read, so that what it holds besides is not lost."""


def message_of(received: Json, place: str = "") -> Message:
    """The message as it is remembered.

    Args:
        received: As it came.
        place: What its fields are called in errors, e.g. `messages[1]`.

    Raises:
        InvalidArgumentsError: It has no role or says nothing, a tool call has no name, a field has
            a type that cannot be read, or the timestamp is no time.
    """
    within = f"{place}." if place else ""
    try:
        known = msgspec.convert(received, ReceivedMessage)
    except msgspec.ValidationError as error:
        raise InvalidArgumentsError(_located(str(error), place)) from error
    calls = known.calls()
    if not all(call.name for call in calls):
        raise InvalidArgumentsError(
            f"{within}tool_calls: a call has no name.",
            remedy='A call is like {"id": "c1", "name": "weather", "args": {}, "content": "…"}, or '
            'as OpenAI has it, {"id": "c1", "function": {"name": "weather", "arguments": "{}"}}.',
        )
    if received.keys().isdisjoint(SAYING):
        raise InvalidArgumentsError(
            f"{place}: it has neither content nor tool_calls.".removeprefix(": "),
            remedy='A message is like {"role": "user", "content": "…"}.',
        )
    text, parts = _read(known.text if known.content is None else known.content)
    return Message(
        role=ROLES.get(known.role, known.role),
        content=text or known.refusal or text,
        id=_id(known.id),
        name=known.name or None,
        timestamp=_moment(known.timestamp, f"{within}timestamp"),
        tool_calls=calls,
        tool_call_id=_id(known.tool_call_id),
        occurrence=known.occurrence,
        parts=bounded(parts or known.parts) or [],
        fields=bounded({**known.fields, **_others(received)}),
    )


def _located(problem: str, place: str) -> str:
    """The problem with the path to it: `messages[1].role`."""
    said, _, path = problem.partition(" - at ")
    return f"{place}{path.strip('`').removeprefix('$')}: {said}".lstrip(":. ") + "."


def _others(received: Json) -> Json:
    """What a message says in fields of its own, and what became something else here."""
    changed = {"role": received["role"]} if received["role"] in ROLES else {}
    refusal = {"refusal": received["refusal"]} if received.get("refusal") else {}
    rest = {
        key: value
        for key, value in received.items()
        if key not in _KNOWN and value not in (None, [], {})
    }
    return {**rest, **changed, **refusal}


def _moment(written: str | float | None, field: str) -> datetime | None:
    """As it was written: session ids are made of it."""
    if written is None or written == "":
        return None
    if isinstance(written, str):
        in_utc(moment := written_time(written, field), field)
        return moment
    try:
        return datetime.fromtimestamp(written / 1000 if written >= MILLISECONDS else written, UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise InvalidArgumentsError(f"{field}: {written} is no time.", remedy=TIME_RULE) from error


def _id(id_: Id | None) -> str | None:
    return None if id_ is None or id_ == "" else str(id_)


def _read(content: Any) -> tuple[str | None, list[Any]]:
    """The text of a content, and its parts if some of them are more than text."""
    if content is None or isinstance(content, str):
        return content, []
    if isinstance(content, list) and all(isinstance(part, str | dict) for part in content):
        return text_of(content) or "", [] if all(map(_is_text, content)) else content
    return as_text(content), []


def _is_text(part: str | Json) -> bool:
    return isinstance(part, str) or part.keys() <= {"type", "text"}


def _written(content: Any) -> str:
    return _read(content)[0] or ""


def _arguments(arguments: Any) -> Json:
    """Arguments as an object; a text that is none is kept under `arguments`."""
    found = value_of(arguments or "{}") if isinstance(arguments, str) else arguments
    if found is None:
        return {"arguments": arguments} if arguments else {}
    return found if isinstance(found, dict) else {"arguments": found}
