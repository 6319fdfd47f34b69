"""Find the words that identifiers, numbers and dates have in another writing.

"loadUserProfile" has the words of "user profile", "12,480.50" is "12480.50", and "29.11.2026" is
"29 November 2026". Stored texts and questions both have the words of these other writings, so that
one finds the other; what is written alike has more words in common, and ranks first.
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from string import digits
from typing import Any

from local2.language.time import MONTHS
from local2.language.words import pieces

LONGEST = 40
"""Maximum characters of an identifier or number that is read: longer ones are keys and digests."""
MIN_DIGITS = 7
"""Minimum digits of a number in groups that is read as one: shorter ones are scores and times. So
many last digits has a telephone number with and without the code of its country."""

# What these begin with is rare, so most of a text is skipped quickly.
_HUMP = re.compile(r"[A-Z](?:(?<=[a-z][A-Z])(?<!\bMc[A-Z])|(?<=[A-Z]{2})(?=[a-z]{2}))")
"""A capital within a word, but in "McDonald": all such names would have a word in common."""
_UNIT = re.compile(r"\d(?<![^\W_]\d)\d*(?!st\b|nd\b|rd\b|th\b)([A-Za-z]{1,4})(?![^\W_])")
_LETTER_BEFORE_DIGIT = re.compile(r"\d(?<=[A-Za-z]\d)")
_NUMBER = re.compile(
    r"\d(?<![^\W_]\d)(?<!\d[.,]\d)(?:"
    r"\d{3}-\d\d-\d\d(?!\d)|\d?\.\d\d?\.\d{4}(?!\d)|\d?/\d\d?/\d{4}(?!\d)"
    r"|\d?(?:st|nd|rd|th)?\.? (?:of )?[A-Za-z]{3,9}\.?,? \d{4}(?!\d)"
    r"|\d*(?:(?:[-/.,' \u2019\u00a0\u202f]|\) ?| \(|/ )\d+)+(?![^\W_])"
    r"|(?:(?<=0)|(?<=\+\d))\d{7,}(?![^\W_]))"
)
"""A date, or a number in groups; a telephone number without groups begins with 0 or +."""
_MONTH_FIRST = re.compile(r"[JFMASOND][a-z]{2,8}\.? \d\d?(?:st|nd|rd|th)?,? \d{4}(?!\d)")

_FIRST = r"(?<![^\W_])"
"""A word is read from its beginning only, so that a long one takes linear time."""
_HUMPED = re.compile(rf"{_FIRST}[^\W_]*{_HUMP.pattern}[^\W_]*")
_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LETTERS_AND_DIGITS = re.compile(rf"{_FIRST}([A-Za-z]{{1,3}})(\d+)([A-Za-z]{{0,3}})(?![^\W_])")
_SNAKE = re.compile(rf"{_FIRST}[^\W_]+(?:_[^\W_]+)+")
_CODE = re.compile(rf"{_FIRST}[^\W_]+(?:-[^\W_]+)+")
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,' \u2019\u00a0\u202f]\d{3})+(?!\d)")
_NO_GROUPS = re.compile(r"[,'\u2019]")
_DIGITS, _LETTERS = re.compile(r"\d+"), re.compile(r"[A-Za-z]{3}")
_MONTH_NUMBERS = {name[:3].lower(): number for number, name in enumerate(MONTHS, start=1)}


def parts_of(text: str) -> dict[str, list[str]]:
    """The words that are several in one, each with its parts, in lower case."""
    found: dict[str, list[str]] = {}
    if _HUMP.search(text):
        for name in _in_tokens(_HUMPED, text, _HUMP.search):
            if len(name) <= LONGEST:
                found[name.lower()] = [part.lower() for part in _HUMPS.findall(name) if part[1:]]
    if _has_digit(text):
        for unit in _UNIT.finditer(text):
            found[unit[0].lower()] = [unit[0][: -len(unit[1])], unit[1].lower()]
        if _LETTER_BEFORE_DIGIT.search(text):
            for parts in _in_tokens(_LETTERS_AND_DIGITS, text, _LETTER_BEFORE_DIGIT.search):
                found["".join(parts).lower()] = [part.lower() for part in parts if part]
    return found


def wholes_of(text: str) -> list[str]:
    """The words that several neighbouring words are if they are written as one."""
    found: list[str] = []
    if "_" in text:
        names = _in_tokens(_SNAKE, text, lambda token: "_" in token)
        found += (_as_one(name) for name in names if len(name) <= LONGEST)
    if _has_digit(text):
        for number in dict.fromkeys(_NUMBER.findall(text)):
            if len(number) <= LONGEST:
                found += _of_date(number) or _of_number(number)
        for date in _MONTH_FIRST.findall(text):
            found += _of_date(date)
        if "-" in text:
            codes = _in_tokens(_CODE, text, lambda token: "-" in token)
            found += (_as_one(code) for code in codes if _has_digit(code) and len(code) <= LONGEST)
    return found


def other_writings(text: str) -> list[str]:
    """All of these words, each once."""
    found = (chain(*parts_of(piece).values(), wholes_of(piece)) for piece in pieces(text))
    return list(dict.fromkeys(chain.from_iterable(found)))


def _in_tokens(
    pattern: re.Pattern[str], text: str, may_have: Callable[[str], object]
) -> Iterator[Any]:
    """What an expression finds in a text: a slow one is tried where it may find something."""
    for token in dict.fromkeys(text.split()):
        if may_have(token):
            yield from pattern.findall(token)


def _has_digit(text: str) -> bool:
    return any(digit in text for digit in digits)  # many times as fast as an expression


def _as_one(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def _of_number(number: str) -> Iterator[str]:
    if thousands := _THOUSANDS.match(number):
        yield _as_one(thousands[0])
    whole = _as_one(number)
    if len(whole) >= MIN_DIGITS and not _NO_GROUPS.search(number):
        yield from (whole, whole[-MIN_DIGITS:])


def _of_date(date: str) -> tuple[str, ...]:
    """The date as one word, its month and its day; nothing if it is none, or not clear."""
    numbers = [int(number) for number in _DIGITS.findall(date)]
    if letters := _LETTERS.search(date):
        month, (day, year) = _MONTH_NUMBERS.get(letters[0].lower(), 0), numbers
    elif len(numbers) != len(("year", "month", "day")) or " " in date:
        return ()
    elif "-" in date:
        year, month, day = numbers
    else:
        day, month, year = numbers
        if "/" in date and month > len(MONTHS):
            day, month = month, day
        elif "/" in date and day <= len(MONTHS):
            return ()
    if not 1 <= month <= len(MONTHS) or len(str(year)) != len("2026"):
        return ()
    return f"{year}{month:02}{day:02}", MONTHS[month - 1].lower(), str(day)
