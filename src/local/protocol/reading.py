"""Open JSON of other agents, read value by value: what can be read, and of the rest why not."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final

import msgspec

MOST_NAME: Final = 256
MOST_NUMBER: Final = 2**64
TEXTS: Final = ("text", "refusal", "thinking", "content", "value")
"""Where objects that stand for a text have it: parts of messages, messages."""
MOST_SECONDS: Final = 10**11
"""Since 1970; what is more was counted in smaller units."""
MISSING: Final = object()
_DIGITS: Final = re.compile(r"-?\d{9,}(\.\d+)?|-?\d+\.\d+")
"""Eight of them are a date."""
KINDS: Final = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def kind_of(value: Any) -> str:
    """What a value is, in the words of JSON."""
    return KINDS.get(type(value), "nothing")


def text_of(value: Any) -> str | None:
    """A text, or the texts in a message or its parts; None if there is none."""
    match value:
        case str():
            return value
        case list() if value and all(isinstance(part, str | dict) for part in value):
            return "\n".join(filter(None, map(text_of_part, value)))
        case dict():
            found = (text_of(value[key]) for key in TEXTS if key in value)
            return next((text for text in found if text is not None), None)
    return None


def text_of_part(part: Any) -> str:
    """The words of a part of a message, else a word for it such as `[image]`."""
    words = text_of(part)
    if words is not None:
        return words
    kind = part.get("type") if isinstance(part, dict) else None
    named = kind if isinstance(kind, str) and kind else "part"
    return f"[{named.removeprefix('input_').removesuffix('_url')}]"


def name_of(value: Any) -> str | None:
    """A name or an id, which some number; None if it is neither, or too long."""
    match value:
        case str() if len(value) <= MOST_NAME:
            return value
        case bool():
            return None
        case int() | float() if abs(value) < MOST_NUMBER:
            return str(int(value) if value == int(value) else value)
    return None


def moment_of(value: Any) -> datetime | None:
    """A time in UTC: ISO 8601, or seconds since 1970 or parts of them; None if it is neither."""
    try:
        if isinstance(value, str) and not _DIGITS.fullmatch(value):
            moment = datetime.fromisoformat(value.strip())
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = number_of(value)
        if seconds is None:
            return None
        for _ in ("milli", "micro", "nano"):
            seconds = seconds / 1000 if abs(seconds) >= MOST_SECONDS else seconds
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def number_of(value: Any) -> float | None:
    """A finite number, which some write as a text."""
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number is not None and isfinite(number) else None


def value_of(text: str) -> Any:
    """The value that a text of JSON is; None if it is no JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def as_text(value: Any) -> str:
    """Text as it is, texts in parts as MCP has them line by line, everything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    texts = texts_of_parts(value)
    return msgspec.json.encode(value).decode() if texts is None else "\n".join(texts)


def texts_of_parts(value: Any) -> list[str] | None:
    """Of a list of parts `{"type": "text", "text"}`; None for anything else."""
    if not isinstance(value, list) or not value:
        return None
    texts = []
    for part in value:
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case _:
                return None
    return texts


def first_of(value: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """What stands under the first of the keys that has something."""
    return next((value[key] for key in keys if value.get(key) not in (None, "")), None)
