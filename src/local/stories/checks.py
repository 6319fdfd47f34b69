"""What a story may expect: one function a check, which tells what came instead.

Text is compared without regard to case, throughout.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from local.protocol.payloads import Generation, Json, ToolResult
from local.stories.script import Call, Check, Discover, Raw, Say, ToolCalled

Outcome = Generation | ToolResult | tuple[str, ...]
"""Of `say`; of `call` and `raw`; of `discover`, the names of the tools."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    expected: str
    came: str


def problems(step: Say | Call | Raw | Discover, outcome: Outcome) -> tuple[Problem, ...]:
    """The expectations of a step that its outcome does not meet."""
    found = ((check, _came_instead(check, outcome)) for check in step.expected)
    return tuple(
        Problem(expected=str(check), came=came) for check, came in found if came is not None
    )


def _came_instead(check: Check, outcome: Outcome) -> str | None:
    return CHECKS[check.kind](check.value, outcome)


def matches(expected: Any, actual: Any) -> bool:
    """Whether a value is as expected: a mapping holds at least what is expected of it."""
    match expected:
        case str() if expected.startswith("~"):
            return actual is not None and bool(
                re.search(expected[1:], _text(actual), re.IGNORECASE)
            )
        case str():
            return isinstance(actual, str) and expected.casefold() == actual.casefold()
        case dict():
            return isinstance(actual, dict) and all(
                key in actual and matches(value, actual[key]) for key, value in expected.items()
            )
        case bool():
            return actual is expected
    return bool(expected == actual)


def at(data: Any, path: str) -> Any:
    """What lies at a dotted path such as `hits.0.content`; None where nothing does."""
    for key in path.split("."):
        match data:
            case dict():
                data = data.get(key)
            case list() if key.isdecimal() and int(key) < len(data):
                data = data[int(key)]
            case _:
                return None
    return data


def _tool_called(expected: ToolCalled, turn: Generation) -> str | None:
    called = any(
        call.name == expected.name and matches(expected.args, call.args) for call in turn.tool_calls
    )
    return None if called else _calls(turn)


def _tool_not_called(name: str, turn: Generation) -> str | None:
    return _calls(turn) if any(call.name == name for call in turn.tool_calls) else None


def _answer_contains(text: str, turn: Generation) -> str | None:
    return None if _within(text, turn.answer) else turn.answer


def _answer_matches(pattern: str, turn: Generation) -> str | None:
    return None if _found(pattern, turn.answer) else turn.answer


def _answer_lacks(text: str, turn: Generation) -> str | None:
    return turn.answer if _within(text, turn.answer) else None


def _result_ok(expected: bool, result: ToolResult) -> str | None:
    return None if result.ok is expected else result.content


def _result_contains(text: str, result: ToolResult) -> str | None:
    return None if _within(text, result.content) else result.content


def _result_data(expected: Json, result: ToolResult) -> str | None:
    found = {path: at(result.data, path) for path in expected}
    differing = {path: found[path] for path in expected if not matches(expected[path], found[path])}
    return _text(differing) if differing else None


def _error_code(code: str, result: ToolResult) -> str | None:
    came = result.error.code if result.error else None
    return None if came == code else f"{came or 'no error'}: {result.content}"


def _tools_include(names: tuple[str, ...], tools: tuple[str, ...]) -> str | None:
    return None if set(names) <= set(tools) else f"tools: {', '.join(tools) or 'none'}"


CHECKS: dict[str, Callable[[Any, Any], str | None]] = {
    "tool_called": _tool_called,
    "tool_not_called": _tool_not_called,
    "answer_contains": _answer_contains,
    "answer_matches": _answer_matches,
    "answer_lacks": _answer_lacks,
    "result_ok": _result_ok,
    "result_contains": _result_contains,
    "result_data": _result_data,
    "error_code": _error_code,
    "tools_include": _tools_include,
}


def _within(text: str, whole: str) -> bool:
    return text.casefold() in whole.casefold()


def _found(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def _calls(turn: Generation) -> str:
    return ", ".join(f"{call.name} {_text(call.args)}" for call in turn.tool_calls) or "no call"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
