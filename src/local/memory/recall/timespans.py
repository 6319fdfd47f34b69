"""Calendar arithmetic: spans of time around a moment, in the time zone of that moment."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

DAY = timedelta(days=1)
LENGTHS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": DAY,
    "week": 7 * DAY,
    "weekend": 8 * DAY,
    "month": 31 * DAY,
    "year": 366 * DAY,
}
"""At most; a weekend with the week before it ends."""
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The month in which it begins, north of the equator."""
MONTHS_OF_A_SEASON = 3
YEARS_TO_A_LEAP_DAY = 8


class Span(NamedTuple):
    """From `since` up to, but without, `until`."""

    since: datetime
    until: datetime


def whole(unit: str, moment: datetime) -> Span:
    """Return the day, week, month or year that the moment is in."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "day":
            return Span(day, day + DAY)
        case "week":
            monday = day - day.weekday() * DAY
            return Span(monday, monday + 7 * DAY)
        case "month":
            return Span(day.replace(day=1), _months_later(day, 1))
        case _:
            january = day.replace(month=1, day=1)
            return Span(january, _months_later(january, 12))


def back(count: int, unit: str, moment: datetime) -> datetime:
    """Return a moment in the day, week, month or year that was so many ago."""
    if unit in {"day", "week"}:
        return moment - count * LENGTHS[unit]
    return _months_later(moment, -count * (12 if unit == "year" else 1))


def last_weekday(name: str, moment: datetime) -> Span:
    """Return the last day of that name before today."""
    days = (moment.weekday() - WEEKDAYS.index(name) - 1) % 7 + 1
    return whole("day", moment - days * DAY)


def last_weekend(moment: datetime) -> Span:
    """Return the Saturday and Sunday of last week."""
    monday = whole("week", moment).since
    return Span(monday - 2 * DAY, monday)


def last_date(month: int, day: int, moment: datetime) -> datetime | None:
    """Return the beginning of that day in the latest year in which it has come."""
    today = whole("day", moment).since
    for year in range(today.year, today.year - YEARS_TO_A_LEAP_DAY - 1, -1):
        with suppress(ValueError):
            start = today.replace(year=year, month=month, day=day)
            if start <= today:
                return start
    return None


def season(name: str, year: int, moment: datetime) -> Span:
    """Return the season that begins in that year."""
    start = whole("year", moment).since.replace(year=year, month=SEASONS[name])
    return Span(start, _months_later(start, MONTHS_OF_A_SEASON))


def _months_later(moment: datetime, months: int) -> datetime:
    """The first of the month that comes so many months later."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    return moment.replace(year=year, month=month + 1, day=1)
