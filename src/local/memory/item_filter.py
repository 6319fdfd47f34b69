"""Which items a search wants by their values, and which namespaces a listing, as pure functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from local.errors import InvalidArgumentsError, quoted
from local.protocol.items import ListNamespaces, NamespaceMatch
from local.protocol.payloads import Json

OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
ANY = "*"

Path = tuple[str, ...]


def wanted_by(filter_: Json | None) -> Callable[[Any], bool] | None:
    """Whether a value has what the filter names; None where it asks nothing.

    Raises:
        InvalidArgumentsError: It asks for an operator that there is none of.
    """
    if not filter_:
        return None
    for condition in filter_.values():
        _check_operators(condition)
    return lambda value: isinstance(value, dict) and _has(value, filter_)


def _check_operators(condition: Any) -> None:
    if isinstance(condition, dict):
        for name, inner in condition.items():
            if name.startswith("$") and name not in OPERATORS:
                raise InvalidArgumentsError(
                    f"filter: {quoted(name)} is no operator.",
                    remedy=f"There are {', '.join(OPERATORS)}.",
                )
            _check_operators(inner)


def _has(value: Mapping[str, Any], filter_: Json) -> bool:
    return all(_matches(value.get(name), condition) for name, condition in filter_.items())


def _matches(value: Any, condition: Any) -> bool:
    if isinstance(condition, dict):
        if any(name.startswith("$") for name in condition):
            return all(_holds(value, name, other) for name, other in condition.items())
        return isinstance(value, dict) and _has(value, condition)
    if isinstance(condition, list):
        same = isinstance(value, list) and len(value) == len(condition)
        return same and all(map(_matches, value, condition))
    return bool(value == condition)


def _holds(value: Any, operator: str, other: Any) -> bool:
    if operator in {"$eq", "$ne"}:
        return bool(value == other) == (operator == "$eq")
    numbers = _number(value), _number(other)
    if None not in numbers:
        value, other = numbers
    elif not (isinstance(value, str) and isinstance(other, str)):
        return False
    match operator:
        case "$gt":
            return bool(value > other)
        case "$gte":
            return bool(value >= other)
        case "$lt":
            return bool(value < other)
        case _:
            return bool(value <= other)


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def beginning(matches: Sequence[NamespaceMatch]) -> Path:
    """What every namespace that matches begins with, as far as it is without a wildcard."""
    paths = [match.path for match in matches if match.type == "prefix"]
    known = [path[: path.index(ANY)] if ANY in path else path for path in paths]
    return max(known, key=len, default=())


def chosen(ask: ListNamespaces, namespaces: Sequence[Path]) -> list[Path]:
    """Those that match, cut to the depth, in their order."""
    matching = {
        path[: ask.depth] for path in namespaces if all(_fits(m, path) for m in ask.matches)
    }
    return sorted(matching)[ask.offset : ask.offset + ask.limit]


def _fits(match: NamespaceMatch, namespace: Path) -> bool:
    if len(namespace) < len(match.path):
        return False
    start = 0 if match.type == "prefix" else len(namespace) - len(match.path)
    return all(
        wanted in {ANY, part} for part, wanted in zip(namespace[start:], match.path, strict=False)
    )
