"""Adding to JSON that others wrote, without changing a byte of theirs.

Whoever wrote a file keeps its order, its indentation and its line ends; and what was added can be
taken out again as it was put in.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

INDENT = "  "
_SPACE = re.compile(r"[ \t\n\r]*")
_FIRST_INDENT = re.compile(r"\{[ \t\r]*\n([ \t]+)")
_decode = json.JSONDecoder().raw_decode


class Child(NamedTuple):
    """A value in an object or a list, and where its text is; `key` is empty in a list."""

    key: str
    start: int
    end: int


class Insertion(NamedTuple):
    at: int
    text: str


def root(text: str) -> int:
    """Where the value begins."""
    return _skip(text, 0)


def children(text: str, start: int) -> list[Child]:
    """What the object or the list that begins there holds; the text is known to be JSON."""
    return list(_children(text, start))


def member(text: str, start: int, key: str) -> Child | None:
    """The member of an object that counts: of several with one key the last one."""
    found = [child for child in _children(text, start) if child.key == key]
    return found[-1] if found else None


def insertion(text: str, start: int, literals: Sequence[str], depth: int) -> Insertion:
    """The literals behind what the object or the list that begins there holds.

    `depth` is that of the object or the list: 0 of the outermost.
    """
    indent = indent_of(text)
    inner, outer = f"\n{indent * (depth + 1)}", f"\n{indent * depth}"
    body = f",{inner}".join(literal.replace("\n", inner) for literal in literals)
    held = children(text, start)
    if held:
        return Insertion(held[-1].end, _line_ends(text, f",{inner}{body}"))
    return Insertion(start + 1, _line_ends(text, f"{inner}{body}{outer}"))


def inserted(text: str, insertions: Sequence[Insertion]) -> str:
    """The text with all of them, each where it belongs in the text as it was."""
    for at, addition in sorted(insertions, reverse=True):
        text = text[:at] + addition + text[at:]
    return text


def written(value: Any, text: str) -> str:
    """JSON of the value, indented as the text is."""
    return json.dumps(value, indent=indent_of(text), ensure_ascii=False)


def indent_of(text: str) -> str:
    found = _FIRST_INDENT.search(text)
    return found[1] if found else INDENT


def _line_ends(text: str, addition: str) -> str:
    return addition.replace("\n", "\r\n") if "\r\n" in text else addition


def _children(text: str, start: int) -> Iterator[Child]:
    at = _skip(text, start + 1)
    while text[at] not in "]}":
        key = ""
        if text[start] == "{":
            key, at = _decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _decode(text, at)
        yield Child(key, at, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
