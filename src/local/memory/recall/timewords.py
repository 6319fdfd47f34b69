"""Find the time window of an English question, such as "last week" or "in May 2023".

Ambiguous expressions give no window, because a wrong window does more harm than none. Times in the
future are ignored, because no memories come from there. A date without a year means its latest
occurrence.
"""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import IntEnum

import msgspec

from local.memory.recall.timespans import (
    ASKS_FOR_A_DISTANCE,
    COUNTS,
    DATE_ALONE,
    DAY,
    EXPRESSION,
    LEAD,
    LENGTHS,
    LOOKS_AHEAD,
    LOOKS_BACK,
    NOT_YET_OVER,
    RANGE,
    WEEKDAYS,
    Span,
    back,
    in_zone,
    last_date,
    last_weekday,
    last_weekend,
    season,
    shifted,
    whole,
)

LONGEST_QUESTION = 1_000
"""Maximum characters of a question; a longer text is pasted material, and has no window."""
MAX_EXPRESSIONS = 8
"""Maximum number of time expressions in a question; a text with more is pasted material."""
LEAD_CHARACTERS = 40
"""Characters before a time expression that are searched for words such as "since"."""
MAX_SLACK = 7
"""Maximum number of days added on both sides of "three months ago", which is never exact."""
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
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
    """Return the time window that a question names, or None if it names none or several.

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
    bounds = _around(span, lead) if lead and lead["side"] else _bounds(span, word)
    if bounds[0] is not None and bounds[0] > now:
        return None
    return _utc(bounds, found.string[lead.start() if lead else found.start() : found.end()])


def _rank(found: _Match) -> _Rank:
    groups = found.groupdict()
    if any(groups.get(name) for name in ("iso", "slashes", "year", "date_year", "season_year")):
        return _Rank.DATED
    return _Rank.YEARLESS if groups["date"] else _Rank.RELATIVE


def _is_meant(found: _Match, word: str) -> bool:
    """Return whether the expression names a past time, and not a future one or something else."""
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
            return _is_month(found, word)
        case _:
            return True


def _is_month(found: _Match, word: str) -> bool:
    """Return whether a month is past, and not a verb (march) or a person (April)."""
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


def _span(found: _Match, now: datetime) -> Span | None:
    match found.lastgroup:
        case "season":
            return _season(found, now)
        case "ago":
            return _ago(found, now)
        case "rolling":
            _, count = _count(found["past_count"])
            return Span(shifted(now, -count * LENGTHS[found["past_unit"].lower()]), now)
        case "named":
            return _named(found["named"].lower().split(), now)
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
                month, day, year = _month_day_year(*map(int, found["slashes"].split("/")))
            case "year":
                return whole("year", today.replace(year=int(found["year"]), day=1))
            case _:
                return _calendar(found, today)
        return whole("day", today.replace(year=year, month=month, day=day))
    return None


def _month_day_year(first: int, second: int, year: int) -> tuple[int, int, int]:
    if first != second and max(first, second) <= len(MONTHS):
        raise ValueError("Either may be the month.")
    return min(first, second), max(first, second), year


def _calendar(found: _Match, today: datetime) -> Span | None:
    month = MONTHS.index(found["month"][:3].lower()) + 1
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


def _season(found: _Match, now: datetime) -> Span | None:
    name = found["season_name"].lower()
    if year := found["season_year"]:
        return season(name, int(year), now)
    years = range(now.year, max(now.year - 3, 0), -1)
    spans = (season(name, year, now) for year in years)
    ended = found["which"].lower() == "last"
    past = (span for span in spans if (span.until if ended else span.since) <= now)
    return next(past, None)


def _ago(found: _Match, now: datetime) -> Span:
    least, most = _count(found["count"])
    unit = found["unit"].lower()
    length = most * LENGTHS[unit]
    if length < DAY:
        return Span(shifted(now, -2 * length), now)
    slack = min(length.days // 5, MAX_SLACK) * DAY
    since = whole(unit, back(most, unit, now)).since
    until = whole(unit, back(least, unit, now)).until
    return Span(shifted(since, -slack), shifted(until, slack))


def _named(words: list[str], now: datetime) -> Span:
    today = whole("day", now)
    match words[-1]:
        case "yesterday":
            return whole("day", shifted(today.since, -(1 if len(words) == 1 else 2) * DAY))
        case "night":
            return Span(shifted(today.since, -DAY), shifted(today.since, timedelta(hours=6)))
        case "weekend":
            return last_weekend(now)
        case ("week" | "month" | "year") as unit:
            return whole(unit, back(1, unit, now) if words[0] == "last" else now)
        case name if name in WEEKDAYS:
            return last_weekday(name, now)
        case _:
            return today


def _bounds(span: Span, word: str) -> _Bounds:
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


def _around(anchor: Span, lead: _Match) -> _Bounds:
    """Return the time between a date and, for example, two weeks before it, both included."""
    _, count = _count(lead["count"])
    unit = (lead["units"] or lead["unit"]).lower()
    distance = count * LENGTHS.get(unit, LENGTHS["week"])  # a weekday: to a week before
    if lead["side"].lower() in {"after", "following"}:
        return anchor.since, shifted(anchor.until, distance)
    return shifted(anchor.since, -distance), anchor.until


def _count(text: str | None) -> tuple[int, int]:
    words = (text or "one").lower().split()
    word = words[-2] if words[-1] == "of" else words[-1]
    return (int(word), int(word)) if word.isdigit() else COUNTS[word]


def _utc(bounds: _Bounds, text: str) -> Window:
    since, until = (bound and in_zone(bound, UTC) for bound in bounds)
    return Window(since=since, until=until, text=text)
