"""Read values from arbitrary JSON: leniently from other agents' messages, strictly from arguments.

Other agents follow no schema, so unreadable parts of their messages become None instead of raising
an error. Times in arguments of the memory's own tools are read strictly, because a filter with a
wrong time would return wrong memories. Fields that are stored unread are limited in size.
"""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, time
from math import isfinite
from typing import Any, Final

import msgspec

from local2.errors import InvalidArgumentsError, quoted
from local2.protocol.json_text import read_json

MAX_NAME: Final = 256
"""Maximum characters of a name or id, as in `envelope.Name`."""
ID_NUMBER_LIMIT: Final = 2**64
"""Numbers from this one on, which need more than 64 bits, are not accepted as ids."""
TEXT_KEYS: Final = ("text", "refusal", "thinking", "content", "parts", "value")
"""Fields in which messages, and parts of them, contain their text."""
SECONDS_LIMIT: Final = 10**11
"""Times from this number on (about the year 5138 in seconds) are in smaller units than seconds."""
MISSING: Final = object()
TIME_RULE: Final = "Write it as 2026-05-01 or 2026-05-01T14:30."
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}([T ].+)?")
_DIGITS: Final = re.compile(r"-?\d{9,}(\.\d+)?|-?\d+\.\d+")
"""Matches a number of seconds; eight digits without a point are a date."""
MAX_STRING: Final = 10_000
"""Maximum characters of a string beside a message's text; longer ones are images and sound in
base64."""
MAX_EXTRA_BYTES: Final = 100_000
"""Maximum bytes, as JSON, of everything stored beside a message's text: a tenth of what the bus
carries."""
SHORT_STRING: Final = 200
"""Maximum characters of a string if everything together is too large: enough for names and ids."""
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
    """Return the JSON type of a value, in words."""
    return JSON_TYPES.get(type(value), "nothing")


def text_of(value: Any) -> str | None:
    """Return the text of a string, a message or its parts; None if there is none."""
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
    """Return a name or an id, which may be a number; None if it is invalid or too long."""
    match value:
        case str() if len(value) <= MAX_NAME:
            return value
        case bool():
            return None
        case int() | float() if abs(value) < ID_NUMBER_LIMIT:
            return str(int(value) if value == int(value) else value)
    return None


def moment_of(value: Any) -> datetime | None:
    """Return a time in UTC, from ISO 8601 or a number; None if it is neither.

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
    """Return a finite number, which may be given as text; else None."""
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number is not None and isfinite(number) else None


def value_of(text: str) -> Any:
    """Return the value of a JSON text; None if it is not JSON."""
    try:
        return read_json(text.encode(errors="surrogatepass"))
    except (msgspec.DecodeError, RecursionError):
        return None


def as_text(value: Any) -> str:
    """Return a string as it is, a list of text parts as lines, and anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    texts = texts_of_parts(value)
    return msgspec.json.encode(value).decode() if texts is None else "\n".join(texts)


def texts_of_parts(value: Any) -> list[str] | None:
    """Return the texts of a list of MCP's text parts; None for anything else."""
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
    """Return the first value under one of the keys that is not missing, null or empty."""
    return next((value[key] for key in keys if value.get(key) not in (None, "")), None)


def bounded(value: Any) -> Any:
    """Return the JSON with placeholders (size and hash) in place of strings that are too long.

    If it is still too large, all but short strings become placeholders; then the whole value does.
    """
    if not value:
        return value
    for limit in (MAX_STRING, SHORT_STRING):
        value = _shortened(value, limit)
        if len(encoded := msgspec.json.encode(value)) <= MAX_EXTRA_BYTES:
            return value
    return _placeholder(encoded, f"{len(encoded)} bytes")


def _shortened(value: Any, limit: int) -> Any:
    if isinstance(value, str) and len(value) > limit:
        return _placeholder(value.encode(errors="replace"), f"{len(value)} characters")
    if isinstance(value, list):
        return [_shortened(item, limit) for item in value]
    if isinstance(value, dict):
        return {key: _shortened(item, limit) for key, item in value.items()}
    return value


def _placeholder(data: bytes, size: str) -> str:
    return f"[not kept: {size}, sha256 {hashlib.sha256(data).hexdigest()}]"


def in_utc(moment: datetime, field: str) -> datetime:
    """Return the time in UTC; a time without an offset is taken as UTC.

    Raises:
        InvalidArgumentsError: In UTC it is outside the calendar; the message names the field.
    """
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidArgumentsError(
            f"{field}: {moment.isoformat()} is outside the calendar.",
            remedy=TIME_RULE,
            logged=f"{field}: it is outside the calendar.",
        ) from error


def time_of(text: str, field: str, *, ends: bool = False) -> datetime:
    """Return a date or time as people and models write it, with its offset, by default UTC.

    A date means its beginning; with `ends`, its end.

    Raises:
        InvalidArgumentsError: It is not a date or time; the message names the field.
    """
    moment = written_time(text, field)
    if ends and len(text) == len("2026-05-01"):
        moment = datetime.combine(moment, time.max)
    in_utc(moment, field)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def written_time(text: str, field: str) -> datetime:
    """Return a date or time with exactly its written offset: session ids are derived from it."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(text, datetime)
    with suppress(ValueError):
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text)
    problem = f"{field}: {quoted(text)} is not a date or time."
    raise InvalidArgumentsError(problem, remedy=TIME_RULE)
