"""Find, add and remove hooks in the text of a client's settings.

No byte of other content changes: a file keeps its order, its indentation and its line endings, and
additions can be removed exactly.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import join
from typing import Any, NamedTuple

import msgspec

from local2.errors import ConfigError
from local2.hooks.clients.client import Client, Json

INDENT = "  "
_SPACE = re.compile(r"[ \t\n\r]*")
_FIRST_INDENT = re.compile(r"\{[ \t\r]*\n([ \t]+)")
_decode = json.JSONDecoder().raw_decode
HOOKS = "hooks"
COMMAND = "command"
MODULE, FORMER_MODULE = "local2.hooks", "local.hooks"
"""What hooks run, and what those that an earlier local2 installed run: it no longer exists."""


class Child(NamedTuple):
    """A value in an object or list, with the position of its text. In a list, `key` is empty."""

    key: str
    start: int
    end: int


class Insertion(NamedTuple):
    at: int
    text: str


def children(text: str, start: int) -> Iterator[Child]:
    """Yield the values in the object or list that begins at `start`; the text is valid JSON."""
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


def member(text: str, start: int, key: str) -> Child | None:
    """Find the member of an object under a key; of several, the last one, as JSON readers do."""
    found = [child for child in children(text, start) if child.key == key]
    return found[-1] if found else None


def insertion(text: str, start: int, literals: Sequence[str], depth: int) -> Insertion:
    """Plan to append literals to the object or list that begins at `start`.

    `depth` is the nesting depth of the object or list; the outermost has 0.
    """
    indent = indent_of(text)
    inner, outer = f"\n{indent * (depth + 1)}", f"\n{indent * depth}"
    body = f",{inner}".join(literal.replace("\n", inner) for literal in literals)
    existing = list(children(text, start))
    if existing:
        return Insertion(existing[-1].end, _line_ends(text, f",{inner}{body}"))
    return Insertion(start + 1, _line_ends(text, f"{inner}{body}{outer}"))


def apply_insertions(text: str, insertions: Sequence[Insertion]) -> str:
    """Insert all; their positions are those in the original text."""
    for at, addition in sorted(insertions, reverse=True):
        text = text[:at] + addition + text[at:]
    return text


def to_json(value: Any, text: str) -> str:
    """Write a value as JSON, indented like the text."""
    return json.dumps(value, indent=indent_of(text), ensure_ascii=False)


def indent_of(text: str) -> str:
    found = _FIRST_INDENT.search(text)
    return found[1] if found else INDENT


def _line_ends(text: str, addition: str) -> str:
    return addition.replace("\n", "\r\n") if "\r\n" in text else addition


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """A file's text with the hooks, and the additions, by which they can be removed."""

    text: str
    additions: list[str]


def entries_of(client: Client, options: Sequence[str]) -> dict[str, Json]:
    """What the settings get, by event. The options are passed to the hooks."""
    return {
        event: client.entry(
            join([sys.executable, "-P", "-m", MODULE, client.name, event, *options])
        )
        for event in client.events
    }


def with_hooks(client: Client, file: Path, text: str, entries: Mapping[str, Json]) -> Registered:
    """Add the hooks to the text of a client's settings.

    Raises:
        ConfigError: The file does not have the client's format.
    """
    if not text.strip():
        whole = {**client.new_file, HOOKS: {event: [entry] for event, entry in entries.items()}}
        addition = to_json(whole, text) + "\n"
        return Registered(text=text + addition, additions=[addition])
    read_settings(file, text)
    insertions = []
    start = _skip(text, 0)  # where the outermost value begins
    existing = member(text, start, HOOKS)
    if existing is None:
        value = to_json({event: [entry] for event, entry in entries.items()}, text)
        insertions.append(insertion(text, start, [f'"{HOOKS}": {value}'], 0))
    else:
        missing = []
        for event, entry in entries.items():
            listed = member(text, existing.start, event)
            if listed is None:
                missing.append(f'"{event}": {to_json([entry], text)}')
            else:
                insertions.append(insertion(text, listed.start, [to_json(entry, text)], 2))
        if missing:
            insertions.append(insertion(text, existing.start, missing, 1))
    return Registered(
        text=apply_insertions(text, insertions),
        additions=[inserted.text for inserted in insertions],
    )


def without_hooks(client: Client, file: Path, text: str, additions: Sequence[str]) -> str:
    """Remove the client's hooks from the text.

    If the recorded additions are unchanged, the text is exactly that from before. Otherwise only
    the hooks are removed, with the objects and lists that become empty.

    Raises:
        ConfigError: The file does not have the client's format.
    """
    settings = read_settings(file, text)
    rest = text
    for addition in additions:
        rest = rest.replace(addition, "") if rest.count(addition) == 1 else text
    if rest != text:
        with suppress(ConfigError):  # what is left is no settings
            if not any(registered(client, read_settings(file, rest.strip() or "{}")).values()):
                return rest
    hooks = {}
    for event, listed in settings.get(HOOKS, {}).items():
        left: list[Any] = []
        for entry in listed:
            if not _is_ours(client, entry):
                left.append(entry)
            elif others := [hook for hook in _grouped_hooks(entry) if not _is_ours(client, hook)]:
                left.append({**entry, HOOKS: others})
        if left or not listed:
            hooks[event] = left
    rest_of_settings = {**settings, HOOKS: hooks}
    if not hooks and settings.get(HOOKS):
        del rest_of_settings[HOOKS]
    return to_json(rest_of_settings, text) + "\n"


def registered(client: Client, settings: Json) -> dict[str, list[Json]]:
    """Find the client's hooks that are installed, by event."""
    return {
        event: [entry for entry in listed if _is_ours(client, entry)]
        for event, listed in settings.get(HOOKS, {}).items()
    }


def read_settings(file: Path, text: str) -> Json:
    """Read settings, and check the parts that concern hooks.

    Raises:
        ConfigError: They are not JSON, or do not have the client's format; the error says where.
    """
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise _settings_error(file, f"it is not JSON: {error}") from error
    if not isinstance(settings, dict):
        raise _settings_error(file, "it is not an object")
    hooks = settings.get(HOOKS, {})
    if not isinstance(hooks, dict):
        raise _settings_error(file, f"`{HOOKS}` is not an object")
    for event, listed in hooks.items():
        if not isinstance(listed, list):
            raise _settings_error(file, f"`{HOOKS}.{event}` is not a list")
    return settings


def _settings_error(file: Path, why: str) -> ConfigError:
    return ConfigError(f"{file} is left as it is: {why}.", remedy="Repair it, and try again.")


def _is_ours(client: Client, entry: Any) -> bool:
    """Whether the entry, or one in its group, is one of our hooks."""
    if not isinstance(entry, dict):
        return False
    commands = [entry, *(inner for inner in _grouped_hooks(entry) if isinstance(inner, dict))]
    marks = [f" -m {module} {client.name} " for module in (MODULE, FORMER_MODULE)]
    return any(mark in str(hook.get(COMMAND, "")) for hook in commands for mark in marks)


def is_outdated(entry: Json) -> bool:
    """Whether one of our entries runs what an earlier local2 installed."""
    return f" -m {FORMER_MODULE} " in json.dumps(entry)


def _grouped_hooks(entry: Json) -> list[Any]:
    inner = entry.get(HOOKS)
    return inner if isinstance(inner, list) else []
