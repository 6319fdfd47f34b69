"""Messages as others send them: in local2's own form, or in those of chat models' APIs.

Nothing of a message is dropped: parts that are no text, and unknown fields, are stored beside the
text. Contents may be lists of blocks, as in the APIs of Anthropic and Gemini, where text stands
among calls and results.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple, Self

import msgspec

from local.errors import InvalidArgumentsError, echoed
from local.protocol.conversation import UNNAMED, ConversationMessage, read_calls
from local.protocol.envelope import Name
from local.protocol.payloads import Json, ToolCallRecord
from local.protocol.reading import (
    TIME_RULE,
    as_text,
    bounded,
    first_of,
    in_utc,
    moment_of,
    text_of,
    written_time,
)
from local.protocol.tool import parameters_of

ROLES = {
    "ai": "assistant",
    "assistant": "assistant",
    "developer": "system",
    "function": "tool",
    "human": "user",
    "model": "assistant",
    "system": "system",
    "tool": "tool",
    "user": "user",
}
"""Our roles, and other APIs' names of them, in any case; any other role stays as it is."""
MILLISECONDS = 100_000_000_000
"""A timestamp from this number on counts milliseconds, a smaller one seconds (to the year 5138)."""
CONTENT_FIELDS = ("content", "text", "parts", "tool_calls", "function_call", "refusal")
"""A message without any of these has its text in a field that nobody would search."""
TIME_FIELDS = ("event_time", "timestamp_utc", "created_at")
"""Where a message without a timestamp has its time: as `load_session` returns it, and others do."""
CALL_KEYS = ("functionCall", "function_call")
RESULT_KEYS = ("functionResponse", "function_response")
"""Gemini's blocks have one of these keys; Anthropic's name their kind in `type`."""
THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Types of blocks that were not addressed to the user, and so are not the text of a message."""
Id = Name | int
CALLS_SCHEMA: Json = {"type": "array", "items": parameters_of(ToolCallRecord)}


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
    tool_calls: Annotated[Any, msgspec.Meta(extra_json_schema=CALLS_SCHEMA)] = None
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
"""A message before it is read, so that its unknown fields are not lost."""


def messages_of(received: Json, place: str = "") -> list[ConversationMessage]:
    """Return the messages to store: results of tools among its parts, then the message itself.

    Args:
        received: The message as JSON.
        place: Its name in errors, e.g. `messages[1]`.

    Raises:
        InvalidArgumentsError: It has no role or no content, a tool call has no name, a field has a
            type that cannot be read, the timestamp is no time, or it is nested too deeply.
    """
    try:
        return _messages(received, place)
    except RecursionError as error:
        problem = f"{place}: it is nested too deeply.".removeprefix(": ")
        raise InvalidArgumentsError(problem) from error


def _messages(received: Json, place: str) -> list[ConversationMessage]:
    within = f"{place}." if place else ""
    try:
        known = msgspec.convert(received, ReceivedMessage)
    except msgspec.ValidationError as error:
        raise InvalidArgumentsError(_located(echoed(error), place)) from error
    if received.keys().isdisjoint(CONTENT_FIELDS):
        raise InvalidArgumentsError(
            f"{place}: it has neither content nor tool_calls.".removeprefix(": "),
            remedy='A message is like {"role": "user", "content": "…"}.',
        )
    blocks = Blocks.of(_content(known))
    text = _text(blocks.text)
    message = ConversationMessage(
        role=ROLES.get(known.role.lower(), known.role),
        content=text or known.refusal or text,
        id=_id(known.id),
        name=known.name or None,
        timestamp=_moment(known.timestamp, f"{within}timestamp")
        or moment_of(first_of(received, TIME_FIELDS)),
        tool_calls=_calls(known, blocks.calls, within),
        tool_call_id=_id(known.tool_call_id),
        occurrence=known.occurrence,
        parts=bounded(blocks.parts or _parts(known)) or [],
        fields=bounded({**known.fields, **_others(received)}),
    )
    results = [result for block in blocks.results for result in read_calls([block], place, [])]
    if not results:
        return [message]
    answers = [_result(message, call, number) for number, call in enumerate(results)]
    return [*answers, message] if message.has_content or message.tool_calls else answers


def _located(problem: str, place: str) -> str:
    """Return the problem behind the path to its field, such as `messages[1].role`."""
    what, _, path = problem.rpartition(" - at ")
    what, path = (what, path) if what else (path, "")
    return f"{place}{path.strip('`').removeprefix('$')}: {what}".lstrip(":. ") + "."


def _others(received: Json) -> Json:
    """Return a message's unknown fields, and known ones whose value is changed or used twice."""
    role = received["role"]
    changed = {"role": role} if ROLES.get(role.lower(), role) != role else {}
    refusal = {"refusal": received["refusal"]} if received.get("refusal") else {}
    rest = {
        key: value
        for key, value in received.items()
        if key not in _KNOWN and value not in (None, [], {})
    }
    return {**rest, **changed, **refusal}


def _moment(written: str | float | None, field: str) -> datetime | None:
    """Return the time with the offset that was written, because session ids contain it."""
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
    """Return the content of a message; Gemini's messages have it in `parts`."""
    content = known.text if known.content is None else known.content
    return (known.parts or None) if content is None else content


def _parts(known: ReceivedMessage) -> list[Any]:
    return [] if known.content is None and known.text is None else known.parts


def _text(content: Any) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, str | dict) for part in content):
        return text_of(content) or ""
    return as_text(content)


def _calls(known: ReceivedMessage, among_parts: list[Json], within: str) -> list[ToolCallRecord]:
    """Return the calls of a message.

    Raises:
        InvalidArgumentsError: One of them has no name, or is no call.
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


def _result(message: ConversationMessage, call: ToolCallRecord, number: int) -> ConversationMessage:
    """Return a result that is a part of a message, as a message of its own."""
    return ConversationMessage(
        role="tool",
        content=call.content,
        id=message.id and f"{message.id}.{number}",
        name=None if call.name == UNNAMED else call.name,
        timestamp=message.timestamp,
        tool_call_id=call.id,
    )


class Blocks(NamedTuple):
    """The blocks of a content by their kind. `text` leaves out a model's thoughts."""

    text: Any
    parts: list[Any]
    """Everything but calls and results, unless all of it is text."""
    calls: list[Json]
    results: list[Json]

    @classmethod
    def of(cls, content: Any) -> Self:
        """Take a content apart; one that is no list of blocks is all text."""
        if not isinstance(content, list) or not all(isinstance(b, str | dict) for b in content):
            return cls(content, [], [], [])
        calls, results, rest = [], [], []
        for block in content:
            if call := _inner(block, "tool_use", CALL_KEYS):
                calls.append(call)
            if result := _inner(block, "tool_result", RESULT_KEYS):
                results.append(result)
            if not (call or result):
                rest.append(block)
        return cls(
            text=[block for block in rest if not is_thought(block)],
            parts=[] if all(map(_is_text, rest)) else rest,
            calls=calls,
            results=results,
        )


def _inner(block: str | Json, kind: str, names: tuple[str, ...]) -> Json | None:
    """Return the call or the result that a block is or contains."""
    if isinstance(block, str):
        return None
    if block.get("type") == kind:
        return block
    return next((block[name] for name in names if isinstance(block.get(name), dict)), None)


def is_thought(block: str | Json) -> bool:
    return isinstance(block, dict) and (
        str(block.get("type")) in THOUGHTS or block.get("thought") is True
    )


def _is_text(block: str | Json) -> bool:
    return isinstance(block, str) or block.keys() <= {"type", "text"}
