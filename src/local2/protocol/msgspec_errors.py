"""What msgspec says is wrong with a value. Its errors have a message only, so that is read here."""

import re
from typing import NamedTuple

_PATH = re.compile(r"(?<= - at `)\$\.(?:payload\.)?(?=[^`]+`$)")
_SENT = r"(?:args(?:\.|(?=`))|payload(?=`))?"  # what contains the fields of a tool, of a service
_INVALID_CHOICE = re.compile(rf"^Invalid enum value .* at `{_SENT}([^`]+)`")
_UNKNOWN_FIELD = re.compile(
    rf"^Object contains unknown field `(?P<name>.*)` - at `{_SENT}(?P<part>[^`]+)?`"
)


class UnknownField(NamedTuple):
    """A field that is not declared, and the path to what contains it."""

    name: str
    path: str | None


def with_own_names(problem: str) -> str:
    """The problem, with the path as its sender knows it: `args.x` for `$.payload.args.x`."""
    return _PATH.sub("", problem)


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
    return what, path.strip("`").removeprefix("$")
