"""Relative times of a statement, such as "tomorrow", with the date they stand for."""

import re
from datetime import datetime

from local.memory.recall.timespans import DAY, WEEKDAYS, Span, whole
from local.memory.recall.timewords import find_window

_WEEKDAY = "|".join(WEEKDAYS)
_COUNT = r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|a few|a couple of|\d{1,3})"
_PERIOD = "week|weekend|month|year|spring|summer|autumn|winter"
_DAYS = {"today": 0, "tonight": 0, "tomorrow": 1, "the day after tomorrow": 2}
_RELATIVE = re.compile(
    rf"\b(?:(?P<named>{'|'.join(reversed(_DAYS))})"
    rf"|(?P<which>next|this|coming|by|until|before)\s+(?P<weekday>{_WEEKDAY})"
    r"|(?P<past>(?:the day before )?yesterday"
    rf"|last (?:night|{_PERIOD}|{_WEEKDAY})|this (?:morning|afternoon|evening))"
    rf"|{_COUNT} (?:day|week|month|year)s? ago|in {_COUNT} (?:day|week|month|year)s?"
    rf"|(?:next|this) (?:{_PERIOD})|on (?:{_WEEKDAY})|the other day|recently)\b",
    re.IGNORECASE,
)


def dated(statement: str, at: datetime) -> str:
    """The statement with the date of its first relative time, or else of when it was said."""
    found = _RELATIVE.search(statement)
    if found is None:
        return statement
    date = _date_of(found, at)
    if date is None:
        return f"{statement.rstrip('.!')} (said on {at:%Y-%m-%d})"
    return f"{statement[: found.end()]} ({date}){statement[found.end() :]}"


def _date_of(found: re.Match[str], at: datetime) -> str | None:
    if name := found["named"]:
        return f"{at + _DAYS[name.lower()] * DAY:%Y-%m-%d}"
    if name := found["weekday"]:
        return _coming(name.lower(), found["which"].lower(), at)
    if found["past"] and (window := find_window(found[0], at)) and window.since and window.until:
        zone = at.tzinfo
        return _shown(Span(window.since.astimezone(zone), window.until.astimezone(zone)))
    return None


def _coming(weekday: str, which: str, at: datetime) -> str | None:
    """The next day of that name; None for a "next Friday" that may be either of two."""
    day = at + ((WEEKDAYS.index(weekday) - at.weekday() - 1) % len(WEEKDAYS) + 1) * DAY
    if which == "next" and whole("week", day) == whole("week", at):
        return None
    return f"{day:%Y-%m-%d}"


def _shown(span: Span) -> str | None:
    if span.until - span.since <= 2 * DAY:
        return f"{span.since:%Y-%m-%d}"
    for unit, form in (("week", "week of %Y-%m-%d"), ("month", "%Y-%m"), ("year", "%Y")):
        if span == whole(unit, span.since):
            return format(span.since, form)
    return None
