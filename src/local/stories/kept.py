"""Values that a story keeps from a result: in later steps `$name` stands for one of them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

OF_THE_RUN = frozenset({"user", "session"})
"""Kept from the start: the names that the run has made."""

_NAME = re.compile(r"\$([a-z0-9_]+)")


def names_in(value: Any) -> Iterator[str]:
    """Which kept values a text, or any text within a value, stands for."""
    match value:
        case str() if found := _NAME.fullmatch(value):
            yield found[1]
        case dict():
            for each in value.values():
                yield from names_in(each)
        case list() | tuple():
            for each in value:
                yield from names_in(each)


def filled(value: Any, kept: Mapping[str, Any]) -> Any:
    """The value with what is kept in place of the names."""
    match value:
        case str() if found := _NAME.fullmatch(value):
            return kept[found[1]]
        case dict():
            return {key: filled(each, kept) for key, each in value.items()}
        case list():
            return [filled(each, kept) for each in value]
    return value
