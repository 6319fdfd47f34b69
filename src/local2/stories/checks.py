"""The checks of a story, one function each, and the values that later steps may use.

A check that fails returns the actual value, so that a failed story explains itself. Text is
compared without regard to case, because models vary it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from local2.protocol.payloads import Generation, Json, ToolResult

Text = Annotated[str, msgspec.Meta(min_length=1)]

Outcome = Generation | ToolResult | tuple[str, ...]
"""The outcome of `say`, of `call` and `raw`, and of `discover` (the names of the tools)."""

ANSWER_CHECKS = frozenset(
    {"tool_called", "tool_not_called", "answer_contains", "answer_matches", "answer_lacks"}
)
RESULT_CHECKS = frozenset({"result_ok", "result_contains", "result_data", "error_code"})
DISCOVERY_CHECKS = frozenset({"tools_include"})


RUN_NAMES = frozenset({"user", "session"})
"""Names of the values that every run has from the start: its user and its session."""
_REFERENCE = re.compile(r"\$([a-z0-9_]+)")


class ExpectedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that the model called, with at least these arguments, and its result."""

    name: Text
    args: Json = msgspec.field(default_factory=dict)
    content: Text | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One expectation, with exactly one of the keys. The functions below define them."""

    tool_called: ExpectedCall | None = None
    tool_not_called: Text | None = None
    answer_contains: Text | None = None
    answer_matches: Text | None = None
    answer_lacks: Text | None = None
    result_ok: bool | None = None
    result_contains: Text | None = None
    result_data: Json | None = None
    error_code: Text | None = None
    tools_include: tuple[Text, ...] | None = None

    def __post_init__(self) -> None:
        given = [name for name in self.__struct_fields__ if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"A check has exactly one key, not {len(given)}")
        _compile_patterns(self.result_data)
        _compile_patterns(self.tool_called and [self.tool_called.args, self.tool_called.content])
        _compile_patterns(self.answer_matches and f"~{self.answer_matches}")

    @property
    def kind(self) -> str:
        return next(name for name in self.__struct_fields__ if getattr(self, name) is not None)

    @property
    def value(self) -> Any:
        return getattr(self, self.kind)

    def __str__(self) -> str:
        return f"{self.kind}: {text_of(self.value)}"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    expected: str
    came: str


def problems(expected: Sequence[Check], outcome: Outcome) -> tuple[Problem, ...]:
    """Find the expectations that an outcome does not meet."""
    answers = ((check, CHECKS[check.kind](check.value, outcome)) for check in expected)
    return tuple(
        Problem(expected=str(check), came=came) for check, came in answers if came is not None
    )


def matches(expected: Any, actual: Any) -> bool:
    """Whether a value is as expected; a mapping may have further keys."""
    match expected:
        case str() if expected.startswith("~"):
            return actual is not None and _matches_pattern(expected[1:], text_of(actual))
        case str():
            return isinstance(actual, str) and expected.casefold() == actual.casefold()
        case dict():
            return isinstance(actual, dict) and all(
                key in actual and matches(value, actual[key]) for key, value in expected.items()
            )
        case list():
            return (
                isinstance(actual, list)
                and len(actual) == len(expected)
                and all(map(matches, expected, actual))
            )
        case bool():
            return actual is expected
    return bool(expected == actual)


def value_at(data: Any, path: str) -> Any:
    """Find the value at a dotted path such as `hits.0.content`."""
    for key in path.split("."):
        match data:
            case dict():
                data = data.get(key)
            case list() if key.isdecimal() and int(key) < len(data):
                data = data[int(key)]
            case _:
                return None
    return data


def _tool_called(expected: ExpectedCall, turn: Generation) -> str | None:
    called = any(
        call.name == expected.name
        and matches(expected.args, call.args)
        and (expected.content is None or matches(expected.content, call.content))
        for call in turn.tool_calls
    )
    return None if called else _describe_calls(turn)


def _result_data(expected: Json, result: ToolResult) -> str | None:
    values = {path: value_at(result.data, path) for path in expected}
    differing = {
        path: values[path] for path in expected if not matches(expected[path], values[path])
    }
    return text_of(differing) if differing else None


def _error_code(code: str, result: ToolResult) -> str | None:
    came = result.error.code if result.error else None
    return None if came == code else f"{came or 'no error'}: {result.content}"


CHECKS: dict[str, Callable[[Any, Any], str | None]] = {
    "tool_called": _tool_called,
    "tool_not_called": lambda name, turn: (
        _describe_calls(turn) if any(call.name == name for call in turn.tool_calls) else None
    ),
    "answer_contains": lambda text, turn: None if _contains(text, turn.answer) else turn.answer,
    "answer_matches": lambda pattern, turn: (
        None if _matches_pattern(pattern, turn.answer) else turn.answer
    ),
    "answer_lacks": lambda text, turn: turn.answer if _contains(text, turn.answer) else None,
    "result_ok": lambda expected, result: None if result.ok is expected else result.content,
    "result_contains": lambda text, result: (
        None if _contains(text, result.content) else result.content
    ),
    "result_data": _result_data,
    "error_code": _error_code,
    "tools_include": lambda names, tools: (
        None if set(names) <= set(tools) else f"tools: {', '.join(tools) or 'none'}"
    ),
}
"""What holds of a turn, a result or the tools on the bus, by the names in stories. Each check takes
what is expected and what came, and tells what came instead; None if it holds."""


def _contains(text: str, whole: str) -> bool:
    return text.casefold() in whole.casefold()


def _matches_pattern(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def _describe_calls(turn: Generation) -> str:
    calls = (f"{call.name} {text_of(call.args)} -> {call.content}" for call in turn.tool_calls)
    return ", ".join(calls) or "no call"


def _compile_patterns(value: Any) -> None:
    """Refuse an invalid regular expression when the story is loaded, not when it is played."""
    match value:
        case str() if value.startswith("~"):
            try:
                re.compile(value[1:])
            except re.error as error:
                raise ValueError(f"{value[1:]!r} is not a regular expression: {error}") from error
        case dict():
            for inner in value.values():
                _compile_patterns(inner)
        case list():
            for inner in value:
                _compile_patterns(inner)


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def names_in(value: Any) -> Iterator[str]:
    """Yield the names of stored values that occur in a value as `$name`."""
    match value:
        case str() if match := _REFERENCE.fullmatch(value):
            yield match[1]
        case dict():
            for inner in value.values():
                yield from names_in(inner)
        case list() | tuple():
            for inner in value:
                yield from names_in(inner)


def filled(value: Any, stored: Mapping[str, Any]) -> Any:
    """Replace each `$name` by the stored value."""
    match value:
        case str() if match := _REFERENCE.fullmatch(value):
            return stored[match[1]]
        case dict():
            return {key: filled(inner, stored) for key, inner in value.items()}
        case list():
            return [filled(inner, stored) for inner in value]
    return value
