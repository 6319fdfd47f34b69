"""Times as people, models and programs write them, in UTC."""

import re
from contextlib import suppress
from datetime import UTC, datetime, time

import msgspec

from local.errors import InvalidArgumentsError, quoted

TIME_RULE = "Write it as 2026-05-01 or 2026-05-01T14:30."
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([T ].+)?")


def in_utc(moment: datetime, field: str) -> datetime:
    """The moment in UTC, which a time without an offset is already.

    Raises:
        InvalidArgumentsError: In UTC it lies before the calendar begins, or after it ends; the
            message names the field.
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
    """A date or a time as people and models write it, in UTC; of a date its beginning, or its end.

    Raises:
        InvalidArgumentsError: It is neither; the message names the field.
    """
    found = written_time(text, field)
    if ends and len(text) == len("2026-05-01"):
        found = datetime.combine(found, time.max)
    return in_utc(found, field)


def written_time(text: str, field: str) -> datetime:
    """As `time_of`, in the offset it is written with, which ids of conversations are made of."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(text, datetime)
    with suppress(ValueError):
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text)
    raise InvalidArgumentsError(f"{field}: {quoted(text)} is no date or time.", remedy=TIME_RULE)
