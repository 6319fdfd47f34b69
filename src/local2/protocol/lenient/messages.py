"""Read conversation messages, in local2's own form or in the forms of chat model APIs.

Nothing of a message is dropped: parts that are not text, and unknown fields, are stored beside the
text. The content may be a list of blocks, as in the APIs of Anthropic and Gemini, which mixes text
with calls and results.
"""

import hashlib
from datetime import datetime
from typing import Annotated, Any, NamedTuple, Self

import msgspec

from local2.errors import InvalidArgumentsError, abridged
from local2.protocol.conversation import ConversationMessage
from local2.protocol.envelope import Name, name_of
from local2.protocol.lenient.calls import UNNAMED, read_calls
from local2.protocol.lenient.values import as_text, first_of, moment_of, text_of
from local2.protocol.msgspec_errors import split_path
from local2.protocol.payloads import Json, ToolCallRecord
from local2.protocol.times import TIME_RULE, in_utc, written_time
from local2.protocol.tool import parameters_of

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
"""Maps role names of all supported APIs, in lower case, to local2's roles; other roles are kept."""
CONTENT_FIELDS = (
    "content", "text", "parts", "tool_calls", "agent_calls", "function_call", "refusal",
)  # fmt: skip
"""A message needs one of these fields; text in any other field would never be searched."""
TIME_FIELDS = ("event_time", "timestamp_utc", "created_at")
"""Fields that may hold the time of a message without `timestamp`; `load_session` returns the
first."""
CALL_KEYS = ("functionCall", "function_call")
"""Keys of a call in Gemini's blocks; Anthropic's blocks state their kind in `type` instead."""
RESULT_KEYS = ("functionResponse", "function_response")
"""Keys of a result in Gemini's blocks."""
THOUGHT_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Types of blocks that are not addressed to the user, and so are not part of a message's text."""
Id = Name | int
MAX_STRING = 10_000
"""Maximum characters of a string beside a message's text; longer ones are images and sound in
base64."""
MAX_EXTRA_BYTES = 100_000
"""Maximum bytes, as JSON, of everything stored beside a message's text: a tenth of what the bus
carries."""
SHORT_STRING = 200
"""Maximum characters of a string if everything together is too large: enough for names and ids."""
CALLS_SCHEMA: Json = {"type": "array", "items": parameters_of(ToolCallRecord)}


class ReceivedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message as a sender may write it: its fields are the schema that tools announce.

    `messages_of` makes `ConversationMessage`s of it.
    """

    role: Annotated[Name, msgspec.Meta(min_length=1, description="user, assistant, tool, system …")]
    content: Annotated[Any, msgspec.Meta(extra_json_schema={"type": "string"})] = None
    text: str | None = None
    id: Id | None = None
    name: Annotated[Name | None, msgspec.Meta(description="The speaker, or the tool.")] = None
    timestamp: Annotated[
        str | float | None, msgspec.Meta(description="A date or time, e.g. 2026-05-01T14:30:00Z.")
    ] = None
    tool_calls: Annotated[Any, msgspec.Meta(extra_json_schema=CALLS_SCHEMA)] = None
    function_call: Json | None = None
    tool_call_id: Annotated[Id | None, msgspec.Meta(description="For a tool's message.")] = None
    refusal: str | None = None
    occurrence: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        msgspec.Meta(
            description="For a message without an id, in a conversation that is sent in parts: how "
            "many times the same message has occurred so far, including this one."
        ),
    ] = None
    parts: Annotated[
        list[Any],
        msgspec.Meta(
            description="The parts of a content that is more than text.",
            extra_json_schema={"items": {}},  # generators of clients ask for it
        ),
    ] = []
    fields: Annotated[Json, msgspec.Meta(description="Other fields to store with it.")] = {}


_KNOWN = frozenset(ReceivedMessage.__struct_fields__)

MessageJson = Annotated[Json, msgspec.Meta(extra_json_schema=parameters_of(ReceivedMessage))]
"""A message as JSON with a schema; decoding it into the Struct would lose unknown fields."""


def messages_of(received: Json, place: str = "") -> list[ConversationMessage]:
    """Make the messages to store: one for each tool result among its parts, then the message.

    Args:
        received: The message as JSON.
        place: The path to the message for errors, e.g. `messages[1]`.

    Raises:
        InvalidArgumentsError: It has no role or no content, a tool call has no name, a field has
            the wrong type, the timestamp is invalid, or it is nested too deeply.
    """
    try:
        return _read_messages(received, place)
    except RecursionError as error:
        problem = f"{place}: it is nested too deeply.".removeprefix(": ")
        raise InvalidArgumentsError(problem) from error


def _read_messages(received: Json, place: str) -> list[ConversationMessage]:
    prefix = f"{place}." if place else ""
    try:
        known = msgspec.convert(received, ReceivedMessage)
    except msgspec.ValidationError as error:
        what, path = split_path(abridged(error))
        raise InvalidArgumentsError(f"{place}{path}: {what}".lstrip(":. ") + ".") from error
    if received.keys().isdisjoint(CONTENT_FIELDS):
        raise InvalidArgumentsError(
            f"{place}: it has neither content nor tool_calls.".removeprefix(": "),
            remedy='A message looks like {"role": "user", "content": "…"}.',
        )
    stated = known.text if known.content is None else known.content
    blocks = Blocks.of((known.parts or None) if stated is None else stated)  # `parts`: Gemini's
    parts = blocks.parts or ([] if stated is None else known.parts)
    text = blocks.text
    if isinstance(text, list) and all(isinstance(part, str | dict) for part in text):
        text = text_of(text) or ""
    elif text is not None:
        text = as_text(text)
    unread: list[str] = []
    calls = [
        *read_calls(known.tool_calls, f"{prefix}tool_calls", unread),
        *read_calls(known.function_call or None, f"{prefix}function_call", unread),
        *read_calls(blocks.calls, f"{prefix}content", unread),
    ]
    if unread:
        raise InvalidArgumentsError(
            f"{unread[0]}.",
            remedy='A call looks like {"id": "c1", "name": "weather", "args": {}, "content": "…"}, '
            'or, in OpenAI\'s form, {"id": "c1", "function": {"name": "weather", '
            '"arguments": "{}"}}.',
        )
    agent_calls = received.get("agent_calls")
    agents = [
        {"name": name, "args": {"request": call.get("request")}}
        for call in (agent_calls if isinstance(agent_calls, list) else ())
        if isinstance(call, dict) and (name := call.get("agent_name"))
    ]
    # Unknown fields, the role if it is mapped to another, and the refusal.
    others = {
        key: value
        for key, value in received.items()
        if key not in _KNOWN and value not in (None, [], {})
    }
    if ROLES.get(known.role.lower(), known.role) != known.role:
        others["role"] = received["role"]
    if received.get("refusal"):
        others["refusal"] = received["refusal"]
    message = ConversationMessage(
        role=ROLES.get(known.role.lower(), known.role),
        content=text or known.refusal or text,
        id=_id(known.id) or name_of(received.get("message_id")) or None,
        name=known.name or None,
        timestamp=_timestamp(known.timestamp, f"{prefix}timestamp")
        or moment_of(first_of(received, TIME_FIELDS)),
        tool_calls=[*calls, *read_calls(agents, prefix, [])],
        tool_call_id=_id(known.tool_call_id),
        occurrence=known.occurrence,
        parts=bounded(parts) or [],
        fields=bounded({**known.fields, **others}),
    )
    results = [result for block in blocks.results for result in read_calls([block], place, [])]
    if not results:
        return [message]
    answers = [
        ConversationMessage(
            role="tool",
            content=call.content,
            id=message.id and f"{message.id}.{number}",
            name=None if call.name == UNNAMED else call.name,
            timestamp=message.timestamp,
            tool_call_id=call.id,
        )
        for number, call in enumerate(results)
    ]
    return [*answers, message] if message.has_content or message.tool_calls else answers


def _timestamp(written: str | float | None, field: str) -> datetime | None:
    """Read a time with its original offset, because session ids are derived from it."""
    if written is None or written == "":
        return None
    if isinstance(written, str):
        in_utc(read := written_time(written, field), field)
        return read
    if (moment := moment_of(written)) is None:
        raise InvalidArgumentsError(f"{field}: {written} is not a time.", remedy=TIME_RULE)
    return moment


def _id(id_: Id | None) -> str | None:
    return None if id_ is None or id_ == "" else str(id_)


class Blocks(NamedTuple):
    """The blocks of a content by kind. `text` excludes a model's thoughts."""

    text: Any
    parts: list[Any]
    """All blocks except calls and results; empty if all of them are text."""
    calls: list[Json]
    results: list[Json]

    @classmethod
    def of(cls, content: Any) -> Self:
        """Split a content into its blocks; a content that is not a list of blocks is all text."""
        if not isinstance(content, list) or not all(isinstance(b, str | dict) for b in content):
            return cls(content, [], [], [])
        calls, results, rest = [], [], []
        for block in content:
            if call := _call_or_result(block, "tool_use", CALL_KEYS):
                calls.append(call)
            if result := _call_or_result(block, "tool_result", RESULT_KEYS):
                results.append(result)
            if not (call or result):
                rest.append(block)
        only_text = all(isinstance(b, str) or b.keys() <= {"type", "text"} for b in rest)
        return cls(
            text=[block for block in rest if not is_thought(block)],
            parts=[] if only_text else rest,
            calls=calls,
            results=results,
        )


def _call_or_result(block: str | Json, kind: str, names: tuple[str, ...]) -> Json | None:
    """Find the call, or the result, that a block is or contains."""
    if isinstance(block, str):
        return None
    if block.get("type") == kind:
        return block
    return next((block[name] for name in names if isinstance(block.get(name), dict)), None)


def is_thought(block: str | Json) -> bool:
    return isinstance(block, dict) and (
        str(block.get("type")) in THOUGHT_TYPES or block.get("thought") is True
    )


def bounded(value: Any) -> Any:
    """Put placeholders (size and hash) in place of strings that are too long.

    If it is still too large, all but short strings become placeholders; then the whole value does.
    """
    if not value:
        return value
    for limit in (MAX_STRING, SHORT_STRING):
        value = _shortened(value, limit)
        if len(encoded := msgspec.json.encode(value)) <= MAX_EXTRA_BYTES:
            return value
    return _placeholder(encoded, f"{len(encoded)} bytes")


def _shortened(value: Any, limit: int) -> Any:
    if isinstance(value, str) and len(value) > limit:
        return _placeholder(value.encode(errors="replace"), f"{len(value)} characters")
    if isinstance(value, list):
        return [_shortened(item, limit) for item in value]
    if isinstance(value, dict):
        return {key: _shortened(item, limit) for key, item in value.items()}
    return value


def _placeholder(data: bytes, size: str) -> str:
    return f"[not kept: {size}, sha256 {hashlib.sha256(data).hexdigest()}]"
