"""Conversations as the memory stores them: messages with stable ids, and their tool calls.

Messages may have no ids, and the same conversation may be sent again, whole or in parts. So the ids
of sessions and messages are derived from their content, and repeated messages are counted.

Agents report tool calls in the forms of the APIs that they use: lists, objects keyed by tool names,
JSON in a string, with results inside or separate. Unreadable calls are listed, the others are used.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from local2.errors import abridged
from local2.protocol.envelope import Name, content_id
from local2.protocol.payloads import Json, ToolCallRecord
from local2.protocol.reading import as_text, first_of, kind_of, name_of, value_of

FIRST_MESSAGES = 3
"""Number of messages that identify a conversation. One may be just a common greeting; with more, a
short conversation would get another id when it grows."""

NAMES: Final = ("name", "tool", "tool_name", "function")
ARGS: Final = ("args", "arguments", "input", "parameters")
RESULTS: Final = ("content", "result", "output", "response")
IDS: Final = ("id", "call_id", "tool_call_id", "tool_use_id")
OWN_FIELDS: Final = frozenset(ToolCallRecord.__struct_fields__)
UNNAMED: Final = "tool"


class ConversationMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message to store, in the roles of chat models, in the one form that the memory takes.

    What the memory returns is a `SessionMessage`.
    """

    role: str
    content: str | None = None
    id: Name | None = None
    name: Name | None = None
    timestamp: datetime | None = None
    tool_calls: list[ToolCallRecord] = []
    tool_call_id: Name | None = None
    occurrence: int | None = None
    """For a message without an id: how many equal ones occurred so far, including this one."""
    parts: list[Any] = []
    """The parts of a content that is more than text."""
    fields: Json = {}
    """All other fields of the message as it was sent."""

    @property
    def is_blank(self) -> bool:
        return is_blank(self.content or "")

    @property
    def has_content(self) -> bool:
        """Whether the message contains more than tool calls."""
        return not self.is_blank or bool(self.parts or self.fields)


class SkippedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was not stored, at least in part, and why; `index` counts from 0."""

    index: int
    reason: str


class IngestReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an ingestion: `ids` are the record ids in the order of the conversation.

    `added`: new records. `changed`: newer versions. `known`: records that existed already.
    `erased`: messages that had been erased on request, and are not stored again.
    """

    session_id: str
    ids: list[str]
    added: int
    changed: int = 0
    known: int = 0
    skipped: list[SkippedMessage] = []
    erased: int = 0

    def summary(self) -> str:
        """Return a line for people: the counts, and why messages were left out."""
        parts = [f"{self.added} stored"]
        if self.changed:
            parts.append(f"{self.changed} changed")
        parts.append(f"{self.known} already known")
        if self.erased:
            parts.append(f"{self.erased} erased before, and not stored again")
        reasons = Counter(one.reason for one in self.skipped)
        parts += [f"{count} left out ({reason})" for reason, count in reasons.items()]
        return ", ".join(parts)


def session_of(messages: Sequence[ConversationMessage]) -> str:
    """Return the id of a session without one; equal conversations get the same id."""
    first = [
        (message.name or message.role, message.content, message.timestamp)
        for message in messages[:FIRST_MESSAGES]
    ]
    return content_id("session", first)


def numbered(messages: Sequence[ConversationMessage]) -> Iterator[ConversationMessage]:
    """Return the messages completed so that sending them in parts produces the same records.

    Each gets its `occurrence`; a tool's message without a name gets the name of its tool.
    """
    return (message for message, _ in with_calls(messages))


def with_calls(
    messages: Sequence[ConversationMessage],
) -> Iterator[tuple[ConversationMessage, ToolCallRecord | None]]:
    """Yield the messages as `numbered` does, a tool's message with the call that it answers."""
    calls: dict[str, ToolCallRecord] = {}
    counts: Counter[tuple[str | None, ...]] = Counter()
    for message in messages:
        content = (message.role, message.name, message.content)
        counts[content] += 1
        answered = calls.get(message.tool_call_id or "") if message.role == "tool" else None
        name = message.name or (answered.name if answered else None)
        occurrence = message.occurrence or counts[content]
        yield msgspec.structs.replace(message, occurrence=occurrence, name=name), answered
        calls |= {call.id: call for call in message.tool_calls if call.id}


def is_blank(text: str) -> bool:
    return not text or text.isspace()


def read_calls(value: Any, at: str, unread: list[str]) -> list[ToolCallRecord]:
    """Return every call that can be read.

    Args:
        value: A list of calls, a single call, names, or an object of calls keyed by tool names.
        at: The path to the value, for `unread`.
        unread: A line is appended for everything that cannot be read.
    """
    if value in (None, "", [], {}):
        return []
    calls: list[ToolCallRecord] = []
    for where, reported in _reported_calls(value, at, unread):
        call = _call(reported, where, unread)
        if call is not None:
            calls.append(call)
    return _with_results(calls)


def _reported_calls(value: Any, at: str, unread: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield each reported call with its path."""
    match value:
        case str():
            listed = value_of(value)
            if isinstance(listed, dict | list):
                yield from _reported_calls(listed, at, unread)
            else:
                yield at, value
        case list():
            yield from ((f"{at}[{number}]", each) for number, each in enumerate(value))
        case dict() if any(key in value for key in NAMES):
            yield at, value
        case dict():
            for name, called in value.items():
                several = called if isinstance(called, list) else [called]
                yield from (
                    (f"{at}.{abridged(name)}", _call_of_tool(name, each)) for each in several
                )
        case _:
            unread.append(f"{at}: expected a list, got {kind_of(value)}")


def _call_of_tool(name: str, called: Any) -> Json:
    """Return the call for a value under a tool's name: a call, its arguments or its result."""
    match called:
        case dict() if any(key in called for key in (*ARGS, *RESULTS, *IDS)):
            return {**called, "name": name}
        case dict():
            return {"name": name, "args": called}
        case str() | list():
            return {"name": name, "result": called}
    return {"name": name}  # a count of calls, or null


def _call(reported: Any, at: str, unread: list[str]) -> ToolCallRecord | None:
    match reported:
        case str() if reported.strip() and name_of(reported):
            return ToolCallRecord(name=reported)
        case dict():
            return _from_own_form(reported) or _from_other_form(_flattened(reported), at, unread)
    unread.append(f"{at}: expected a call, got {kind_of(reported)}")
    return None


def _from_own_form(reported: Json) -> ToolCallRecord | None:
    """Return the call if it has local2's own form."""
    if not reported.keys() <= OWN_FIELDS:
        return None
    try:
        return msgspec.convert(reported, ToolCallRecord)
    except msgspec.ValidationError:
        return None


def _flattened(reported: Json) -> Json:
    """Return the call without the inner object `function` of OpenAI's API."""
    for key in NAMES:
        if isinstance(inner := reported.get(key), dict):
            return inner | {name: value for name, value in reported.items() if name != key}
    return reported


def _from_other_form(reported: Json, at: str, unread: list[str]) -> ToolCallRecord | None:
    name = name_of(first_of(reported, NAMES))
    error = reported.get("error")
    call = ToolCallRecord(
        name=name or UNNAMED,
        args=_args(first_of(reported, ARGS)),
        ok=_succeeded(reported),
        content=as_text(first_of(reported, RESULTS)) or (as_text(error) if error else ""),
        id=name_of(first_of(reported, IDS)) or None,
        tool_output_key=name_of(reported.get("tool_output_key")) or None,
        recorded=reported.get("recorded") is not False,
    )
    if name:
        return call
    if call.id is None or not call.content:  # otherwise it may be the result of another call
        unread.append(f"{at}: the call has no name")
    return call if call.content else None


def _args(value: Any) -> Json:
    """Return the arguments as an object; any other value becomes the argument `arguments`."""
    arguments = value_of(value or "{}") if isinstance(value, str) else value
    if isinstance(arguments, dict):
        return arguments
    return {} if value is None else {"arguments": value if arguments is None else arguments}


def _succeeded(reported: Json) -> bool:
    outcome = first_of(reported, ("ok", "success"))
    if isinstance(outcome, bool):
        return outcome
    return not (reported.get("error") or reported.get("is_error") is True)


def _with_results(calls: list[ToolCallRecord]) -> list[ToolCallRecord]:
    """Return the calls, merged with results that were reported separately under the same ids."""
    joined: list[ToolCallRecord] = []
    first: dict[str, int] = {}
    for call in calls:
        at = first.get(call.id) if call.id else None
        if at is not None and call.name == UNNAMED and not joined[at].content:
            joined[at] = msgspec.structs.replace(joined[at], content=call.content, ok=call.ok)
            continue
        if call.id:
            first.setdefault(call.id, len(joined))
        joined.append(call)
    return joined
