"""What msgspec says is wrong with a value. Its errors have a message only, so that is read here."""

import re
from typing import NamedTuple

_PATH = re.compile(r"(?<= - at `)\$\.?(?:payload\.(?:args\.)?)?(?=[^`]+`$)")
_WHOLE = re.compile(r"^(Object .*`) - at `\$\.payload(?:\.args)?`$")
"""The place of a field that is missing or unknown among the fields of a tool or a service."""
_ARGUMENTS = re.compile(r" - at `\$\.payload\.args[`.\[]")
_FIELD = re.compile(r"^Object .* - at `\$\.payload`$| - at `\$\.payload\.")
_INVALID_CHOICE = re.compile(r"^Invalid enum value .* at `([^`]+)`")
WITHOUT_NUL = r"^[^\x00]*$"
"""The pattern of texts without NUL."""
NOT_BLANK = r"\S"
_IN_WORDS = {
    "Expected `str` of length >= 1": "The text is empty",
    f"Expected `str` matching regex {NOT_BLANK!r}": "The text is blank",
    f"Expected `str` matching regex {WITHOUT_NUL!r}": "The text contains the character NUL",
}
_UNKNOWN_FIELD = re.compile(
    r"^Object contains unknown field `(?P<name>.*?)`(?: - at `(?P<part>[^`]+)`)?\.?$"
)


class UnknownField(NamedTuple):
    """A field that is not declared, and the path to what contains it."""

    name: str
    path: str | None


def is_about_arguments(problem: str) -> bool:
    """Whether something in a call of a tool is wrong that is among its arguments."""
    return _ARGUMENTS.search(problem) is not None


def is_about_a_field(problem: str) -> bool:
    """Whether a field of the payload is wrong, and not what is around it."""
    return _FIELD.search(problem) is not None


def with_own_names(problem: str) -> str:
    """The problem in its sender's words, with the path as the sender knows it.

    Over MCP, HTTP, in Python and on the command line, nobody writes `args` or `payload`:
    `$.payload.args.x` is `x`.
    """
    return _PATH.sub("", _WHOLE.sub(r"\1", _in_words(problem)))


def path_of_invalid_choice(problem: str) -> str | None:
    """The path to a value that is none of the choices."""
    found = _INVALID_CHOICE.search(problem)
    return found[1] if found else None


def unknown_field(problem: str) -> UnknownField | None:
    found = _UNKNOWN_FIELD.search(problem)
    return UnknownField(found["name"], found["part"]) if found else None


def is_undeclared(problem: str) -> bool:
    """Whether a field, a type or a choice is not declared, as if a newer version wrote it."""
    return "unknown field" in problem or "Invalid value" in problem


def split_path(problem: str) -> tuple[str, str]:
    """The problem, and the path to the invalid value: `.role`, or an empty one."""
    what, _, path = problem.rpartition(" - at ")
    what, path = (what, path) if what else (path, "")
    return _in_words(what), path.strip("`").removeprefix("$")


def _in_words(problem: str) -> str:
    """The problem, without the rule by which it was found."""
    for rule, words in _IN_WORDS.items():
        problem = problem.replace(rule, words)
    return problem
