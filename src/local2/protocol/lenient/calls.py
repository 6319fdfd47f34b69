"""Read the tool calls of turns and messages, in the forms of the APIs that agents use.

These are lists, objects keyed by tool names, and JSON in a string, with results inside or separate.
Unreadable calls are listed, the others are used.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from local2.errors import abridged
from local2.protocol.envelope import name_of
from local2.protocol.lenient.values import as_text, first_of, kind_of, value_of
from local2.protocol.payloads import Json, ToolCallRecord

NAMES: Final = ("name", "tool", "tool_name", "function")
ARGS: Final = ("args", "arguments", "input", "parameters")
RESULTS: Final = ("content", "result", "output", "response")
IDS: Final = ("id", "call_id", "tool_call_id", "tool_use_id")
OWN_FIELDS: Final = frozenset(ToolCallRecord.__struct_fields__)
UNNAMED: Final = "tool"


def read_calls(value: Any, at: str, unread: list[str]) -> list[ToolCallRecord]:
    """Read every call that can be read.

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
    # A result that was reported by itself goes to the call with its id.
    joined: list[ToolCallRecord] = []
    first: dict[str, int] = {}
    for call in calls:
        position = first.get(call.id) if call.id else None
        if position is not None and call.name == UNNAMED and not joined[position].content:
            answered = msgspec.structs.replace(joined[position], content=call.content, ok=call.ok)
            joined[position] = answered
            continue
        if call.id:
            first.setdefault(call.id, len(joined))
        joined.append(call)
    return joined


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
            yield from ((f"{at}[{number}]", call) for number, call in enumerate(value))
        case dict() if any(key in value for key in NAMES):
            yield at, value
        case dict():
            for name, called in value.items():
                calls = called if isinstance(called, list) else [called]
                yield from ((f"{at}.{abridged(name)}", _call_of_tool(name, call)) for call in calls)
        case _:
            unread.append(f"{at}: expected a list, got {kind_of(value)}")


def _call_of_tool(name: str, called: Any) -> Json:
    """Make a call of a value under a tool's name: a call, its arguments or its result."""
    match called:
        case dict() if any(key in called for key in (*ARGS, *RESULTS, *IDS)):
            return {**called, "name": name}
        case dict():
            return {"name": name, "args": called}
        case str() | list():
            return {"name": name, "result": called}
    return {"name": name}  # a count of calls, or null


def _call(reported: Any, at: str, unread: list[str]) -> ToolCallRecord | None:
    if isinstance(reported, str) and reported.strip() and name_of(reported):
        return ToolCallRecord(name=reported)
    if not isinstance(reported, dict):
        unread.append(f"{at}: expected a call, got {kind_of(reported)}")
        return None
    if reported.keys() <= OWN_FIELDS:
        with suppress(msgspec.ValidationError):
            return msgspec.convert(reported, ToolCallRecord)
    for key in NAMES:  # OpenAI's API has name and arguments in an inner object `function`
        if isinstance(inner := reported.get(key), dict):
            reported = inner | {name: value for name, value in reported.items() if name != key}
            break
    name = name_of(first_of(reported, NAMES))
    error = reported.get("error")
    succeeded = first_of(reported, ("ok", "success"))
    if not isinstance(succeeded, bool):
        succeeded = not (error or reported.get("is_error") is True)
    given = first_of(reported, ARGS)
    arguments = value_of(given or "{}") if isinstance(given, str) else given
    if not isinstance(arguments, dict):  # any other value becomes the argument `arguments`
        arguments = (
            {} if given is None else {"arguments": given if arguments is None else arguments}
        )
    call = ToolCallRecord(
        name=name or UNNAMED,
        args=arguments,
        ok=succeeded,
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
