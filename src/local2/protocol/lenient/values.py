"""Read single values from arbitrary JSON; what is unreadable becomes None instead of an error."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final

import msgspec

from local2.protocol.json_text import read_json

TEXT_KEYS: Final = ("text", "refusal", "thinking", "content", "parts", "value")
"""Fields in which messages, and parts of them, contain their text."""
SECONDS_LIMIT: Final = 10**11
"""Times from this number on (about the year 5138 in seconds) are in smaller units than seconds."""
MISSING: Final = object()
_DIGITS: Final = re.compile(r"-?\d{9,}(\.\d+)?|-?\d+\.\d+")
"""Matches a number of seconds; eight digits without a point are a date."""
JSON_TYPES: Final = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def kind_of(value: Any) -> str:
    """The JSON type of a value, in words."""
    return JSON_TYPES.get(type(value), "nothing")


def text_of(value: Any) -> str | None:
    """Find the text of a string, a message or its parts."""
    match value:
        case str():
            return value
        case list() if value and all(isinstance(part, str | dict) for part in value):
            return "\n".join(filter(None, map(text_of_part, value)))
        case dict():
            texts = (text_of(value[key]) for key in TEXT_KEYS if key in value)
            return next((text for text in texts if text is not None), None)
    return None


def text_of_part(part: Any) -> str:
    """The text of a part of a message, or a placeholder such as `[image]`."""
    words = text_of(part)
    if words is not None:
        return words
    kind = part.get("type") if isinstance(part, dict) else None
    named = kind if isinstance(kind, str) and kind else "part"
    return f"[{named.removeprefix('input_').removesuffix('_url')}]"


def moment_of(value: Any) -> datetime | None:
    """Read a time in UTC, from ISO 8601 or a number; None if it is neither.

    A number counts seconds, milliseconds, microseconds or nanoseconds since 1970.
    """
    try:
        if isinstance(value, str) and not _DIGITS.fullmatch(value):
            moment = datetime.fromisoformat(value.strip())
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = number_of(value)
        if seconds is None:
            return None
        for _ in ("milli", "micro", "nano"):
            seconds = seconds / 1000 if abs(seconds) >= SECONDS_LIMIT else seconds
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def number_of(value: Any) -> float | None:
    """Read a finite number, which may be given as text."""
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number is not None and isfinite(number) else None


def value_of(text: str) -> Any:
    """Decode a JSON text; None if it is not JSON."""
    try:
        return read_json(text.encode(errors="surrogatepass"))
    except (msgspec.DecodeError, RecursionError):
        return None


def as_text(value: Any) -> str:
    """Write a string as it is, a list of text parts as lines, and anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    texts = texts_of_parts(value)
    return msgspec.json.encode(value).decode() if texts is None else "\n".join(texts)


def texts_of_parts(value: Any) -> list[str] | None:
    """The texts of a list of MCP's text parts; None for anything else."""
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
    """The first value under one of the keys that is not missing, null or empty."""
    return next((value[key] for key in keys if value.get(key) not in (None, "")), None)


def content_of(message: Mapping[str, Any]) -> Any:
    """The content of a message, which Gemini's API calls `parts`; None if there is none."""
    return first_of(message, ("content", "parts"))
