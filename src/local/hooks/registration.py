"""The hooks in a client's settings: how they are found there, added, and removed again.

No byte of other content is changed: a file keeps its order, its indentation and its line ends, and
what was added can be removed exactly.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import join
from typing import Any, NamedTuple

import msgspec

from local.errors import ConfigError
from local.hooks.clients.client import Client, Json

INDENT = "  "
_SPACE = re.compile(r"[ \t\n\r]*")
_FIRST_INDENT = re.compile(r"\{[ \t\r]*\n([ \t]+)")
_decode = json.JSONDecoder().raw_decode
HOOKS = "hooks"
COMMAND = "command"


class Child(NamedTuple):
    """A value in an object or a list, and where its text is; `key` is empty in a list."""

    key: str
    start: int
    end: int


class Insertion(NamedTuple):
    at: int
    text: str


def root(text: str) -> int:
    """Return where the value begins."""
    return _skip(text, 0)


def children(text: str, start: int) -> list[Child]:
    """Return the content of the object or list that begins there; the text is valid JSON."""
    return list(_children(text, start))


def member(text: str, start: int, key: str) -> Child | None:
    """Return the member of an object that counts: of several with one key the last one."""
    found = [child for child in _children(text, start) if child.key == key]
    return found[-1] if found else None


def insertion(text: str, start: int, literals: Sequence[str], depth: int) -> Insertion:
    """Return the edit that puts the literals behind the content of the object or list.

    `depth` is that of the object or the list; the outermost has 0.
    """
    indent = indent_of(text)
    inner, outer = f"\n{indent * (depth + 1)}", f"\n{indent * depth}"
    body = f",{inner}".join(literal.replace("\n", inner) for literal in literals)
    held = children(text, start)
    if held:
        return Insertion(held[-1].end, _line_ends(text, f",{inner}{body}"))
    return Insertion(start + 1, _line_ends(text, f"{inner}{body}{outer}"))


def inserted(text: str, insertions: Sequence[Insertion]) -> str:
    """Return the text with all insertions, each at its place in the original text."""
    for at, addition in sorted(insertions, reverse=True):
        text = text[:at] + addition + text[at:]
    return text


def written(value: Any, text: str) -> str:
    """Return the JSON of the value, indented as the text is."""
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


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """A file's text with the hooks, and the additions, to be removed again."""

    text: str
    additions: list[str]


def entries_of(client: Client, options: Sequence[str]) -> dict[str, Json]:
    """Return the entries for the settings, by event; the options are those of the hooks."""
    return {
        event: client.entry(
            join([sys.executable, "-P", "-m", "local.hooks", client.name, event, *options])
        )
        for event in client.events
    }


def with_hooks(client: Client, file: Path, text: str, entries: Mapping[str, Json]) -> Registered:
    """Return the text of a client's settings with its hooks, which it does not have yet.

    Raises:
        ConfigError: The file is not as its client has it.
    """
    if not text.strip():
        whole = {**client.new_file, HOOKS: {event: [one] for event, one in entries.items()}}
        addition = written(whole, text) + "\n"
        return Registered(text=text + addition, additions=[addition])
    read_settings(file, text)
    insertions = list(_insertions(text, entries))
    return Registered(text=inserted(text, insertions), additions=[one.text for one in insertions])


def _insertions(text: str, entries: Mapping[str, Json]) -> Iterator[Insertion]:
    start = root(text)
    held = member(text, start, HOOKS)
    if held is None:
        value = written({event: [one] for event, one in entries.items()}, text)
        yield insertion(text, start, [f'"{HOOKS}": {value}'], 0)
        return
    missing = []
    for event, one in entries.items():
        listed = member(text, held.start, event)
        if listed is None:
            missing.append(f'"{event}": {written([one], text)}')
        else:
            yield insertion(text, listed.start, [written(one, text)], 2)
    if missing:
        yield insertion(text, held.start, missing, 1)


def without_hooks(client: Client, file: Path, text: str, additions: Sequence[str]) -> str:
    """Return the text without the client's hooks: as before, if the additions are unchanged.

    Otherwise only the hooks are removed, with what they leave empty.

    Raises:
        ConfigError: The file is not as its client has it.
    """
    settings = read_settings(file, text)
    rest = text
    for addition in additions:
        rest = rest.replace(addition, "") if rest.count(addition) == 1 else text
    if rest != text and _is_free(client, rest):
        return rest
    hooks = {
        event: left
        for event, listed in settings.get(HOOKS, {}).items()
        if (left := _without(client, listed)) or not listed
    }
    rest_of_settings = {**settings, HOOKS: hooks}
    if not hooks and settings.get(HOOKS):
        del rest_of_settings[HOOKS]
    return written(rest_of_settings, text) + "\n"


def _is_free(client: Client, rest: str) -> bool:
    """Return whether a text is one of settings, or of none, without the client's hooks."""
    try:
        settings = json.loads(rest.strip() or "{}")
    except ValueError:
        return False
    return not any(registered(client, settings).values())


def registered(client: Client, settings: Json) -> dict[str, list[Json]]:
    """Return the entries of the client's hooks, by event."""
    return {
        event: [one for one in listed if _is_ours(client, one)]
        for event, listed in settings.get(HOOKS, {}).items()
    }


def read_settings(file: Path, text: str) -> Json:
    """Return the settings in a text, checked as far as hooks concern them.

    Raises:
        ConfigError: They are not JSON, or not as the client has them; the error says where.
    """
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise _unusable(file, f"it is not JSON: {error}") from error
    if not isinstance(settings, dict):
        raise _unusable(file, "it holds no object")
    hooks = settings.get(HOOKS, {})
    if not isinstance(hooks, dict):
        raise _unusable(file, f"`{HOOKS}` is no object")
    for event, listed in hooks.items():
        if not isinstance(listed, list):
            raise _unusable(file, f"`{HOOKS}.{event}` is no list")
    return settings


def _unusable(file: Path, why: str) -> ConfigError:
    return ConfigError(f"{file} is left as it is: {why}.", remedy="Mend it, and try again.")


def _is_ours(client: Client, entry: Any) -> bool:
    """Return whether the entry, or one in its group, is a hook of ours."""
    if not isinstance(entry, dict):
        return False
    commands = [entry, *(inner for inner in _group(entry) if isinstance(inner, dict))]
    mark = f" -m local.hooks {client.name} "
    return any(mark in str(one.get(COMMAND, "")) for one in commands)


def _group(entry: Json) -> list[Any]:
    inner = entry.get(HOOKS)
    return inner if isinstance(inner, list) else []


def _without(client: Client, listed: Sequence[Any]) -> list[Any]:
    """Return the entries of an event without ours; of a group with others, only the others."""
    left: list[Any] = []
    for entry in listed:
        if not _is_ours(client, entry):
            left.append(entry)
        elif others := [one for one in _group(entry) if not _is_ours(client, one)]:
            left.append({**entry, HOOKS: others})
    return left
