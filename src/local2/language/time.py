"""Read English times: the calendar, and the time window of a question such as "last week".

Ambiguous expressions give no window, because a wrong window does more harm than none. Times in the
future are ignored, because no memories come from there. A date without a year means its latest
occurrence. Spans are in the time zone of the moment around which they are computed, and end where
the calendar ends: nothing is before the year 1 or after 9999.
"""

import re
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, tzinfo
from enum import IntEnum
from typing import NamedTuple

import msgspec

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
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
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
    """The moment that much later, or earlier if it is negative, within the calendar."""
    try:
        return moment + by
    except OverflowError:
        return _end_of_calendar(moment.tzinfo, last=by > timedelta())


def in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    """The moment in a time zone, within the calendar of that zone."""
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError):  # ValueError: zones of the tz database
        return _end_of_calendar(zone, last=moment.year == MAXYEAR)


def _end_of_calendar(zone: tzinfo | None, *, last: bool) -> datetime:
    return datetime.max.replace(tzinfo=zone) if last else datetime.min.replace(tzinfo=zone)


def whole(unit: str, moment: datetime) -> Span:
    """The day, week, month or year that the moment is in."""
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
    """A moment in the day, week, month or year that was `count` units ago."""
    if unit in {"day", "week"}:
        return shifted(moment, -count * LENGTHS[unit])
    return _months_later(moment, -count * (12 if unit == "year" else 1))


def last_weekday(name: str, moment: datetime) -> Span:
    """The last day with that name before today."""
    days = (moment.weekday() - WEEKDAYS.index(name) - 1) % 7 + 1
    return whole("day", shifted(moment, -days * DAY))


def last_weekend(moment: datetime) -> Span:
    """The Saturday and Sunday of last week."""
    monday = whole("week", moment).since
    return Span(shifted(monday, -2 * DAY), monday)


def last_date(month: int, day: int, moment: datetime) -> datetime | None:
    """The beginning of the latest such day that is not in the future."""
    today = whole("day", moment).since
    for year in range(today.year, today.year - YEARS_TO_A_LEAP_DAY - 1, -1):
        with suppress(ValueError):
            start = today.replace(year=year, month=month, day=day)
            if start <= today:
                return start
    return None


def season(name: str, year: int, moment: datetime) -> Span:
    """The season that begins in that year."""
    start = whole("year", moment).since.replace(year=year, month=SEASONS[name])
    return Span(start, _months_later(start, MONTHS_OF_A_SEASON))


def _months_later(moment: datetime, months: int) -> datetime:
    """The first day of the month that is `months` months later, within the calendar."""
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

_CLEAR_MONTH = (
    r"jan(?:uary)?|feb(?:ruary)?|apr(?:il)?|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
MONTH_NAME = rf"(?:{_CLEAR_MONTH}|(?-i:March|May))"
"""A month where nothing else shows that it is one, so that "march" and "may" are verbs."""
_SHORT_MONTHS = tuple(month[:3].lower() for month in MONTHS)
_UNIT = "minute|hour|day|week|month|year"
_WEEKDAY = "|".join(WEEKDAYS)
_COUNT = rf"(?:a\s+)?(?:\d{{1,3}}|{'|'.join(COUNTS)})(?:\s+of)?"
_YEAR = r"20\d\d(?![-/.:]?\d|\w)"
_DAY = r"0?[1-9]|[12]\d|3[01]"
_DAY_ENDS = r"(?:st|nd|rd|th)?(?![.:/]?\d|[\w%])"
_MONTH = rf"{_CLEAR_MONTH}|mar(?:ch)?|may"
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
LONGEST_QUESTION = 1_000
"""Maximum characters of a question; a longer text is pasted material, and has no window."""
MAX_EXPRESSIONS = 8
"""Maximum number of time expressions in a question; a text with more is pasted material."""
LEAD_CHARACTERS = 40
"""Characters before a time expression that are searched for words such as "since"."""
MAX_SLACK = 7
"""Maximum number of days added on both sides of "three months ago", which is never exact."""
_Match = re.Match[str]
_Bounds = tuple[datetime | None, datetime | None]


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The time from `since` up to, but excluding, `until`, in UTC; None where it is open.

    `text`: the words of the question that name it.
    """

    since: datetime | None
    until: datetime | None
    text: str


class _Rank(IntEnum):
    """The precision of a time expression; the most precise one of a question counts."""

    RELATIVE = 0
    YEARLESS = 1
    DATED = 2


def find_window(text: str, now: datetime) -> Window | None:
    """The time window that a question names, or None if it names none or several.

    Args:
        text: An English question.
        now: The current moment; days, weeks and months begin as in its time zone.
    """
    if len(text) > LONGEST_QUESTION:
        return None
    expressions = list(EXPRESSION.finditer(text))
    if not 0 < len(expressions) <= MAX_EXPRESSIONS or ASKS_FOR_A_DISTANCE.search(text):
        return None
    if found := RANGE.search(text):
        return _between(found, now)
    windows: dict[_Rank, dict[_Bounds, Window]] = {}
    for expression in expressions:
        if (window := _window(expression, now)) is not None:
            alike = windows.setdefault(_rank(expression), {})
            alike.setdefault((window.since, window.until), window)
    most_exact = windows[max(windows)] if windows else {}
    return next(iter(most_exact.values())) if len(most_exact) == 1 else None


def _between(found: _Match, now: datetime) -> Window | None:
    first, second = (DATE_ALONE.fullmatch(found[name]) for name in ("first", "second"))
    if first is None or second is None:
        return None
    if _rank(second) is _Rank.YEARLESS and LOOKS_AHEAD.search(found.string):
        return None
    end = _dated(second, now)
    # The year of the second date applies to both, unless the first would then be later.
    begin = _dated(first, end.since) if end else None
    if end is None or begin is None or begin.since >= end.since or begin.since > now:
        return None
    return _utc((begin.since, end.until), found[0])


def _window(found: _Match, now: datetime) -> Window | None:
    lead = LEAD.search(found.string, max(0, found.start() - LEAD_CHARACTERS), found.start())
    word = " ".join((found["than"] or (lead and lead["word"]) or "").lower().split())
    if not _is_meant(found, word):
        return None
    span = _span(found, shifted(whole("month", now).since, -DAY) if word == "last" else now)
    if span is None or span.since > now:
        return None
    if "this" in {word, (found["which"] or "").lower()} and span.until.year < now.year:
        return None  # the next one
    bounds = _bounds(span, word, lead)
    if bounds[0] is not None and bounds[0] > now:
        return None
    return _utc(bounds, found.string[lead.start() if lead else found.start() : found.end()])


def _rank(found: _Match) -> _Rank:
    groups = found.groupdict()
    if any(groups.get(name) for name in ("iso", "slashes", "year", "date_year", "season_year")):
        return _Rank.DATED
    return _Rank.YEARLESS if groups["date"] else _Rank.RELATIVE


def _is_meant(found: _Match, word: str) -> bool:
    """Whether the expression names a past time, and not a future one or something else."""
    match found.lastgroup:
        case "year":
            return word not in {"", "on", "last", "this"}
        case "season" if found["season_year"]:
            return found["season_name"].lower() != "winter"  # of two years
        case "season":
            return bool(found["which"]) and found["season_name"].lower() != "fall"  # the verb
        case "named" if NOT_YET_OVER.match(found["named"]):
            return LOOKS_BACK.search(found.string) is not None
        case "date" if found["date_year"] is None:
            # It may be to come, and a month may be a verb (march) or a person (April).
            if LOOKS_AHEAD.search(found.string):
                return False
            if word in {"before", "prior to", "until", "till", "up to", "by"}:
                return word != "by" and LOOKS_BACK.search(found.string) is not None
            month, may_be_verb = found["month"], found["month"].lower() in {"may", "march"}
            if found["day"] or found["day_after"]:
                goes_on = found.string[found.end() :].lstrip()[:1].isalnum()
                return word != "" or not may_be_verb or not goes_on
            if may_be_verb and not month[0].isupper():
                return word in {"in", "since", "during"}
            return word not in {"", "on"}
        case _:
            return True


def _span(found: _Match, now: datetime) -> Span | None:
    match found.lastgroup:
        case "season":
            name = found["season_name"].lower()
            if year := found["season_year"]:
                return season(name, int(year), now)
            years = range(now.year, max(now.year - 3, 0), -1)
            spans = (season(name, year, now) for year in years)
            ended = found["which"].lower() == "last"
            past = (span for span in spans if (span.until if ended else span.since) <= now)
            return next(past, None)
        case "ago":
            least, most = _count(found["count"])
            unit = found["unit"].lower()
            length = most * LENGTHS[unit]
            if unit in {"minute", "hour"}:
                return Span(shifted(now, -2 * length), now)
            slack = min(length.days // 5, MAX_SLACK) * DAY
            since = whole(unit, back(most, unit, now)).since
            until = whole(unit, back(least, unit, now)).until
            return Span(shifted(since, -slack), shifted(until, slack))
        case "rolling":
            _, count = _count(found["past_count"])
            return Span(shifted(now, -count * LENGTHS[found["past_unit"].lower()]), now)
        case "named":
            words, today = found["named"].lower().split(), whole("day", now)
            match words[-1]:
                case "yesterday":
                    return whole("day", shifted(today.since, -(1 if len(words) == 1 else 2) * DAY))
                case "night":
                    return Span(
                        shifted(today.since, -DAY), shifted(today.since, timedelta(hours=6))
                    )
                case "weekend":
                    return last_weekend(now)
                case ("week" | "month" | "year") as unit:
                    return whole(unit, back(1, unit, now) if words[0] == "last" else now)
                case name if name in WEEKDAYS:
                    return last_weekday(name, now)
                case _:
                    return today
        case _:
            return _dated(found, now)


def _dated(found: _Match, latest: datetime) -> Span | None:
    """Read a date. One without a year is the last that has begun by `latest`."""
    today = whole("day", latest).since
    with suppress(ValueError):  # no such day
        match found.lastgroup:
            case "iso":
                year, month, day = map(int, found["iso"].split("-"))
            case "slashes":
                first, second, year = map(int, found["slashes"].split("/"))
                if first != second and max(first, second) <= len(MONTHS):
                    return None  # either may be the month
                month, day = sorted((first, second))
            case "year":
                return whole("year", today.replace(year=int(found["year"]), day=1))
            case _:
                month = _SHORT_MONTHS.index(found["month"][:3].lower()) + 1
                day = int(found["first_day"] or found["day_after"] or found["day"] or 1)
                if (written := found["date_year"]) is None:
                    start = last_date(month, day, today)
                else:
                    year = int(written) if written.isdigit() else today.year - 1
                    start = today.replace(year=year, month=month, day=day)
                if start is None:
                    return None
                if not (found["day"] or found["day_after"]):
                    return whole("month", start)
                to = found["day"] if found["first_day"] else found["last_day"]
                last = start.replace(day=int(to or day))
                return Span(start, shifted(last, DAY)) if last >= start else None
        return whole("day", today.replace(year=year, month=month, day=day))
    return None


def _bounds(span: Span, word: str, lead: _Match | None) -> _Bounds:
    if lead and lead["side"]:  # the time between a date and two weeks before it, both included
        _, count = _count(lead["count"])
        unit = (lead["units"] or lead["unit"]).lower()
        distance = count * LENGTHS.get(unit, LENGTHS["week"])  # a weekday: to a week before
        if lead["side"].lower() in {"after", "following"}:
            return span.since, shifted(span.until, distance)
        return shifted(span.since, -distance), span.until
    match word:
        case "since" | "less than" | "under":
            return span.since, None
        case "after":
            return span.until, None
        case "before" | "prior to":
            return None, span.since
        case "until" | "till" | "up to" | "by" | "more than" | "over" | "at least":
            return None, span.until
        case _:
            return span


def _count(text: str | None) -> tuple[int, int]:
    words = (text or "one").lower().split()
    word = words[-2] if words[-1] == "of" else words[-1]
    return (int(word), int(word)) if word.isdigit() else COUNTS[word]


def _utc(bounds: _Bounds, text: str) -> Window:
    since, until = (bound and in_zone(bound, UTC) for bound in bounds)
    return Window(since=since, until=until, text=text)
