"""Compute calendar spans around a moment, and define the patterns of English time expressions.

Spans are in the time zone of the moment, and end where the calendar ends: nothing is before the
year 1 or after 9999. `timewords` reads the groups of the patterns.
"""

import re
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, datetime, timedelta, tzinfo
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
"""Maximum length of each unit; a weekend counts from the Sunday before it."""
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The month in which each season begins, in the northern hemisphere."""
MONTHS_OF_A_SEASON = 3
YEARS_TO_A_LEAP_DAY = 8


class Span(NamedTuple):
    """The time from `since` up to, but excluding, `until`."""

    since: datetime
    until: datetime


def shifted(moment: datetime, by: timedelta) -> datetime:
    """Return the moment that much later, or earlier if it is negative, within the calendar."""
    try:
        return moment + by
    except OverflowError:
        return _end_of_calendar(moment.tzinfo, last=by > timedelta())


def in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    """Return the moment in a time zone, within the calendar of that zone."""
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError):  # ValueError: zones of the tz database
        return _end_of_calendar(zone, last=moment.year == MAXYEAR)


def _end_of_calendar(zone: tzinfo | None, *, last: bool) -> datetime:
    return datetime.max.replace(tzinfo=zone) if last else datetime.min.replace(tzinfo=zone)


def whole(unit: str, moment: datetime) -> Span:
    """Return the day, week, month or year that the moment is in."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "day":
            return Span(day, shifted(day, DAY))
        case "week":
            monday = shifted(day, -day.weekday() * DAY)
            return Span(monday, shifted(monday, 7 * DAY))
        case "month":
            return Span(day.replace(day=1), _months_later(day, 1))
        case _:
            january = day.replace(month=1, day=1)
            return Span(january, _months_later(january, 12))


def back(count: int, unit: str, moment: datetime) -> datetime:
    """Return a moment in the day, week, month or year that was `count` units ago."""
    if unit in {"day", "week"}:
        return shifted(moment, -count * LENGTHS[unit])
    return _months_later(moment, -count * (12 if unit == "year" else 1))


def last_weekday(name: str, moment: datetime) -> Span:
    """Return the last day with that name before today."""
    days = (moment.weekday() - WEEKDAYS.index(name) - 1) % 7 + 1
    return whole("day", shifted(moment, -days * DAY))


def last_weekend(moment: datetime) -> Span:
    """Return the Saturday and Sunday of last week."""
    monday = whole("week", moment).since
    return Span(shifted(monday, -2 * DAY), monday)


def last_date(month: int, day: int, moment: datetime) -> datetime | None:
    """Return the beginning of the latest such day that is not in the future."""
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
    """Return the first day of the month that is `months` months later, within the calendar."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    if not MINYEAR <= year <= MAXYEAR:
        return _end_of_calendar(moment.tzinfo, last=year > MAXYEAR)
    return moment.replace(year=year, month=month + 1, day=1)


NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
COUNTS = {word: (number, number) for number, word in enumerate(NUMBERS, start=1)} | {
    "a": (1, 1),
    "an": (1, 1),
    "couple": (2, 3),
    "few": (2, 5),
    "several": (3, 8),
}
"""The minimum and maximum number that each word may mean."""

_UNIT = "minute|hour|day|week|month|year"
_WEEKDAY = "|".join(WEEKDAYS)
_COUNT = rf"(?:a\s+)?(?:\d{{1,3}}|{'|'.join(COUNTS)})(?:\s+of)?"
_YEAR = r"20\d\d(?![-/.:]?\d|\w)"
_DAY = r"0?[1-9]|[12]\d|3[01]"
_DAY_ENDS = r"(?:st|nd|rd|th)?(?![.:/]?\d|[\w%])"
_MONTH = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_GAP = r"(?:\s*[,-]\s*|\s+(?:of\s+)?)"
_TO = r"\s*(?:[-\u2013]|to|and)\s*(?:the\s+)?"
_QUANTITY = r"\s+(?:px|km|(?!(?:was|has|does|is|this|his|as|us)\b)(?-i:[a-z]+s))\b"
_DATE = (
    r"(?P<iso>20\d\d-\d\d?-\d\d?)(?!\d)(?:T[\d:.]+Z?)?"
    r"|(?P<slashes>\d\d?/\d\d?/20\d\d)(?!\d)"
    rf"|(?P<date>(?:(?:(?P<first_day>{_DAY}){_DAY_ENDS}{_TO})?(?P<day>{_DAY}){_DAY_ENDS}{_GAP})?"
    rf"(?P<month>{_MONTH})\b\.?"
    rf"(?:{_GAP}(?P<day_after>{_DAY}){_DAY_ENDS}(?:{_TO}(?P<last_day>{_DAY}){_DAY_ENDS})?)?"
    rf"(?:{_GAP}(?P<date_year>{_YEAR}|last\s+year))?)"
    rf"|(?P<year>{_YEAR})(?!{_QUANTITY})"
)
_ANY_DATE = re.sub(r"\?P<\w+>", "?:", _DATE)
_FLAGS = re.IGNORECASE | re.ASCII
DATE_ALONE = re.compile(_DATE, _FLAGS)
RANGE = re.compile(
    rf"\b(?:between|from)\s+(?P<first>{_ANY_DATE})\s+(?:and|to|until|till|through)\s+"
    rf"(?P<second>{_ANY_DATE})",
    _FLAGS,
)
EXPRESSION = re.compile(
    rf"(?<![\w\"'\u201c\u2018./$#-])(?:{_DATE}"
    rf"|(?P<season>(?:(?P<which>last|this)\s+)?(?P<season_name>{'|'.join(SEASONS)})"
    rf"(?:\s+(?:of\s+)?(?P<season_year>{_YEAR}))?)"
    r"|(?P<ago>(?:(?P<than>more\s+than|over|at\s+least|less\s+than|under)\s+)?"
    rf"(?P<count>{_COUNT})\s+(?P<unit>{_UNIT})s?\s+ago)"
    rf"|(?P<rolling>(?:(?:last|past)\s+(?P<past_count>{_COUNT})|(?:the|this)\s+past"
    r"|(?:in|over|during|within|throughout)\s+the\s+last)"
    rf"\s+(?P<past_unit>{_UNIT})s?)(?!\s+of\b)"
    r"|(?P<named>(?:the\s+day\s+before\s+)?yesterday|today|tonight"
    r"|this\s+(?:morning|afternoon|evening|week|month|year)"
    rf"|last\s+(?:night|weekend|week|month|year|{_WEEKDAY})(?!\s+of\b)"
    rf"|on\s+(?:{_WEEKDAY})))(?![\w-])",
    _FLAGS,
)
LEAD = re.compile(
    rf"\b(?:(?:(?P<count>{_COUNT})\s+(?P<units>{_UNIT})s?"
    rf"|(?P<unit>day|weekend|week|month|year|{_WEEKDAY}))\s+"
    r"(?P<side>before|prior\s+to|after|following)"
    r"|(?P<word>in|during|throughout|on|since|before|prior\s+to|after|until|till|up\s+to|by"
    r"|(?<!the\s)last|this|early|late|mid"
    r"|(?:days?|week|month|half|start|beginning|middle|end)\s+of))"
    r"(?:\s+the)?(?:\s+year|\s+early|\s+late|\s+mid)?[\s-]+$",
    _FLAGS,
)
NOT_YET_OVER = re.compile(r"today|tonight|on\s|this\s+(?!morning)", _FLAGS)
LOOKS_BACK = re.compile(
    r"\b(?:did|was|were|had)(?:n['\u2019]?t)?\b|\b(?:been|said|told|happened|earlier)\b"
    r"|\bha(?:ve|s)\s+(?:i|we|you|he|she|it|they)\b",
    _FLAGS,
)
LOOKS_AHEAD = re.compile(
    r"\b(?:will|won['\u2019]t|shall|going\s+to|upcoming|next)\b|['\u2019]ll\b", _FLAGS
)
ASKS_FOR_A_DISTANCE = re.compile(rf"\bhow\s+many\s+(?:{_UNIT})s\b", _FLAGS)
