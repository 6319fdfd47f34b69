"""Values of open JSON: read leniently as other agents write them, or strictly as arguments.

Other agents follow no schema, so unreadable parts of their messages are None rather than an error.
Times in the arguments of our own tools and messages are read strictly, because a filter on a wrong
time would return wrong memories. Fields that are stored without being read are limited in size.
"""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, time
from math import isfinite
from typing import Any, Final

import msgspec

from local.errors import InvalidArgumentsError, quoted

MOST_NAME: Final = 256
"""Characters, as in `envelope.Name`."""
MOST_NUMBER: Final = 2**64
"""A number that needs more than 64 bits is no id."""
TEXT_KEYS: Final = ("text", "refusal", "thinking", "content", "parts", "value")
"""Where messages, and parts of them, have their text."""
MOST_SECONDS: Final = 10**11
"""Seconds since 1970, about the year 5138; a larger number counts smaller units."""
MISSING: Final = object()
TIME_RULE: Final = "Write it as 2026-05-01 or 2026-05-01T14:30."
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}([T ].+)?")
_DIGITS: Final = re.compile(r"-?\d{9,}(\.\d+)?|-?\d+\.\d+")
"""A number of seconds; eight digits without a point are a date."""
LONGEST_STRING: Final = 10_000
"""Characters of one string beside a message's text; longer ones are images and sound in base64."""
LARGEST: Final = 100_000
"""Bytes, as JSON, of everything that is stored beside a message's text; a tenth of a message."""
SHORT_STRING: Final = 200
"""Characters that a string keeps where all of it together is too large: enough for names and
ids."""
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
    """Return the type of a value, in the words of JSON."""
    return JSON_TYPES.get(type(value), "nothing")


def text_of(value: Any) -> str | None:
    """Return a text, or the texts of a message or its parts; None if there are none."""
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
    """Return the text of a part of a message, or a placeholder such as `[image]`."""
    words = text_of(part)
    if words is not None:
        return words
    kind = part.get("type") if isinstance(part, dict) else None
    named = kind if isinstance(kind, str) and kind else "part"
    return f"[{named.removeprefix('input_').removesuffix('_url')}]"


def name_of(value: Any) -> str | None:
    """Return a name or an id, which may be a number; None if it is neither, or too long."""
    match value:
        case str() if len(value) <= MOST_NAME:
            return value
        case bool():
            return None
        case int() | float() if abs(value) < MOST_NUMBER:
            return str(int(value) if value == int(value) else value)
    return None


def moment_of(value: Any) -> datetime | None:
    """Return a time in UTC, from ISO 8601 or a number; None if it is neither.

    Numbers count seconds, milliseconds, microseconds or nanoseconds since 1970.
    """
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
    """Return a finite number, which may be written as a text; else None."""
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number is not None and isfinite(number) else None


def value_of(text: str) -> Any:
    """Return the value of a text of JSON; None if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def as_text(value: Any) -> str:
    """Return a text as it is, the texts in a list of parts line by line, all else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    texts = texts_of_parts(value)
    return msgspec.json.encode(value).decode() if texts is None else "\n".join(texts)


def texts_of_parts(value: Any) -> list[str] | None:
    """Return the texts in MCP's parts `{"type": "text", "text"}`; None for anything else."""
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
    """Return the first value under one of the keys that is neither missing nor empty."""
    return next((value[key] for key in keys if value.get(key) not in (None, "")), None)


def bounded(value: Any) -> Any:
    """Return the JSON, with placeholders of size and hash in place of strings that are too long.

    If that is still too large, all but short strings become placeholders, or else the whole.
    """
    if not value:
        return value
    for longest in (LONGEST_STRING, SHORT_STRING):
        value = _shortened(value, longest)
        if len(encoded := msgspec.json.encode(value)) <= LARGEST:
            return value
    return _placeholder(encoded, f"{len(encoded)} bytes")


def _shortened(value: Any, longest: int) -> Any:
    if isinstance(value, str) and len(value) > longest:
        return _placeholder(value.encode(errors="replace"), f"{len(value)} characters")
    if isinstance(value, list):
        return [_shortened(item, longest) for item in value]
    if isinstance(value, dict):
        return {key: _shortened(item, longest) for key, item in value.items()}
    return value


def _placeholder(data: bytes, size: str) -> str:
    return f"[not kept: {size}, sha256 {hashlib.sha256(data).hexdigest()}]"


def in_utc(moment: datetime, field: str) -> datetime:
    """Return the moment in UTC; a time without an offset is in UTC already.

    Raises:
        InvalidArgumentsError: In UTC it lies outside of the calendar; the message names the field.
    """
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidArgumentsError(
            f"{field}: {moment.isoformat()} is no time of our calendar.",
            remedy=TIME_RULE,
            logged=f"{field}: it is no time of our calendar.",
        ) from error


def time_of(text: str, field: str, *, ends: bool = False) -> datetime:
    """Return a date or a time, as people and models write it, with its offset or in UTC.

    A date stands for its beginning, or for its end with `ends`.

    Raises:
        InvalidArgumentsError: It is neither; the message names the field.
    """
    moment = written_time(text, field)
    if ends and len(text) == len("2026-05-01"):
        moment = datetime.combine(moment, time.max)
    in_utc(moment, field)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def written_time(text: str, field: str) -> datetime:
    """Return the same as `time_of`, with the written offset: ids of conversations contain it."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(text, datetime)
    with suppress(ValueError):
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text)
    raise InvalidArgumentsError(f"{field}: {quoted(text)} is no date or time.", remedy=TIME_RULE)
