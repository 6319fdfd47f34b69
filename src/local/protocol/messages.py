"""Messages as others send them: in local2's own form, in those of chat models' APIs, or alike.

Nothing of a message is dropped: what is no text, and what nobody here knows, is kept beside it.
"""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from local.errors import InvalidArgumentsError, echoed
from local.protocol.attachments import bounded
from local.protocol.blocks import Blocks
from local.protocol.calls import UNNAMED, read_calls
from local.protocol.conversation import Message
from local.protocol.envelope import Name
from local.protocol.payloads import Json, ToolCallRecord
from local.protocol.reading import as_text, text_of
from local.protocol.times import TIME_RULE, in_utc, written_time
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
SAYING = ("content", "text", "parts", "tool_calls", "function_call", "refusal")
"""A message without any of these keeps its text where nobody would look for it."""
Id = Name | int
CALLS: Json = {"type": "array", "items": parameters_of(ToolCallRecord)}


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
    tool_calls: Annotated[Any, msgspec.Meta(extra_json_schema=CALLS)] = None
    function_call: Json | None = None
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


_KNOWN = frozenset(ReceivedMessage.__struct_fields__)

MessageJson = Annotated[Json, msgspec.Meta(extra_json_schema=parameters_of(ReceivedMessage))]
"""A message before it is read, so that what it holds besides is not lost."""


def messages_of(received: Json, place: str = "") -> list[Message]:
    """The message as it is remembered, behind the results of tools among its parts.

    Args:
        received: As it came.
        place: What its fields are called in errors, e.g. `messages[1]`.

    Raises:
        InvalidArgumentsError: It has no role or says nothing, a tool call has no name, a field has
            a type that cannot be read, the timestamp is no time, or it is nested without end.
    """
    try:
        return _messages(received, place)
    except RecursionError as error:
        problem = f"{place}: it is nested too deeply.".removeprefix(": ")
        raise InvalidArgumentsError(problem) from error


def _messages(received: Json, place: str) -> list[Message]:
    within = f"{place}." if place else ""
    try:
        known = msgspec.convert(received, ReceivedMessage)
    except msgspec.ValidationError as error:
        raise InvalidArgumentsError(_located(echoed(error), place)) from error
    if received.keys().isdisjoint(SAYING):
        raise InvalidArgumentsError(
            f"{place}: it has neither content nor tool_calls.".removeprefix(": "),
            remedy='A message is like {"role": "user", "content": "…"}.',
        )
    blocks = Blocks.of(_content(known))
    text = _text(blocks.said)
    message = Message(
        role=ROLES.get(known.role, known.role),
        content=text or known.refusal or text,
        id=_id(known.id),
        name=known.name or None,
        timestamp=_moment(known.timestamp, f"{within}timestamp"),
        tool_calls=_calls(known, blocks.calls, within),
        tool_call_id=_id(known.tool_call_id),
        occurrence=known.occurrence,
        parts=bounded(blocks.besides or _parts(known)) or [],
        fields=bounded({**known.fields, **_others(received)}),
    )
    results = [result for block in blocks.results for result in read_calls([block], place, [])]
    if not results:
        return [message]
    apart = [_result(message, call, number) for number, call in enumerate(results)]
    return [*apart, message] if message.says_something or message.tool_calls else apart


def _located(problem: str, place: str) -> str:
    """The problem with the path to it: `messages[1].role`."""
    said, _, path = problem.rpartition(" - at ")
    said, path = (said, path) if said else (path, "")
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


def _content(known: ReceivedMessage) -> Any:
    """What a message says; Gemini's has nothing but parts."""
    said = known.text if known.content is None else known.content
    return (known.parts or None) if said is None else said


def _parts(known: ReceivedMessage) -> list[Any]:
    return [] if known.content is None and known.text is None else known.parts


def _text(content: Any) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, str | dict) for part in content):
        return text_of(content) or ""
    return as_text(content)


def _calls(known: ReceivedMessage, among_parts: list[Json], within: str) -> list[ToolCallRecord]:
    """The calls of a message.

    Raises:
        InvalidArgumentsError: One has no name, or is no call.
    """
    unread: list[str] = []
    calls = [
        *read_calls(known.tool_calls, f"{within}tool_calls", unread),
        *read_calls(known.function_call or None, f"{within}function_call", unread),
        *read_calls(among_parts, f"{within}content", unread),
    ]
    if unread:
        raise InvalidArgumentsError(
            f"{unread[0]}.",
            remedy='A call is like {"id": "c1", "name": "weather", "args": {}, "content": "…"}, or '
            'as OpenAI has it, {"id": "c1", "function": {"name": "weather", "arguments": "{}"}}.',
        )
    return calls


def _result(message: Message, call: ToolCallRecord, number: int) -> Message:
    """A result among the parts of a message as a message of its own."""
    return Message(
        role="tool",
        content=call.content,
        id=message.id and f"{message.id}.{number}",
        name=None if call.name == UNNAMED else call.name,
        timestamp=message.timestamp,
        tool_call_id=call.id,
    )
