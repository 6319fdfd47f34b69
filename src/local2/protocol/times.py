"""Read times in arguments strictly: a filter with a wrong time would return wrong memories."""

import re
from contextlib import suppress
from datetime import UTC, datetime, time
from typing import Final

import msgspec

from local2.errors import InvalidArgumentsError, quoted

TIME_RULE: Final = "Write it as 2026-05-01 or 2026-05-01T14:30."
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}([T ].+)?")


def in_utc(moment: datetime, field: str) -> datetime:
    """Convert a time to UTC; one without an offset is taken as UTC.

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
    """Read a date or time as people and models write it, with its offset, by default UTC.

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
    """Read a date or time with exactly its written offset: session ids are derived from it."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(text, datetime)
    with suppress(ValueError):
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text)
    problem = f"{field}: {quoted(text)} is not a date or time."
    raise InvalidArgumentsError(problem, remedy=TIME_RULE)
