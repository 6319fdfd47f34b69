"""What ranking reads of a record's text once, when it is stored: its stems and its features.

People state what is worth remembering in the first person, with informative words and with a time.
Questions, greetings and agreement seldom are. What each feature is worth was measured on
conversations; docs/recall.md has the weights.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise, product
from typing import NamedTuple

from local.text.keywords import density, stems, words
from local.text.sentences import is_question, sentences
from local.text.unspaced import UNSPACED, characters_and_pairs

HEAD = 800
"""Characters of the beginning, by which coverage and density are measured: the longer a text, the
more words of a question it contains by chance."""
STATEMENT_CHARACTERS = 4_000
"""Characters that are searched for statements. Bounds the time that a pasted page takes; whoever
states something with it does so at its beginning."""
MAX_FIRSTHAND = 4
"""The most first-person words that count. More show a longer text, not a more personal one."""
HEAD_ENDS = " | "
"""Stands between the stems of the beginning and all others, in the column `stems`."""
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip

FIRST_PERSON = frozenset({"i", "my", "me", "mine", "myself", "we", "our", "ours", "us"})
_WEEKDAYS = (
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
)  # fmt: skip
_MOMENTS = frozenset({
    "yesterday", "today", "tonight", "tomorrow", "ago", "recently", "lately", *_WEEKDAYS,
    *(month.lower() for month in MONTHS if month not in {"March", "May"}),
    *map(str, range(1950, 2100)),
})  # fmt: skip
_SPANS = (
    "night", "morning", "evening", "week", "weekend", "month", "year", "summer", "winter", "spring",
    "fall", "autumn",
)  # fmt: skip
_COUNTS = ("a", "two", "three", "four", "five", "six", "few", "couple", *map(str, range(1, 100)))
_UNITS = ("day", "days", "week", "weeks", "month", "months", "year", "years")
_IN_PAIRS = frozenset({
    *product(("last", "next", "this", "past", "coming", "previous"), _SPANS),
    *product(("in", "on", "of", "since", "until", "by"), ("march", "may")),
    *product(_COUNTS, _UNITS),
})  # fmt: skip
_WISH = re.compile(
    r"\W*(?:please\s+)?(?:always|never|whenever|make\s+sure|from\s+now\s+on|remember\s+to"
    r"|be\s+sure\s+to)\b",
    re.IGNORECASE,
)
_PAIR = re.compile(f" ([{UNSPACED}]+)=")


class Features(NamedTuple):
    """In the order of the table's columns; the table's migration explains each."""

    stems: str
    length: int
    density: float
    firsthand: int
    timed: bool
    wish: bool


def features(content: str, *, topic: str | None, label: str | None, at: datetime) -> Features:
    """Read a record. Topic and label count as its first words, its day as a part of the head."""
    named = words(" ".join(name for name in (topic, label) if name), characters_and_pairs)
    day = f"{at.day} {MONTHS[at.month - 1]} {at.year}"
    head = words(content[:HEAD], characters_and_pairs)
    beginning = sentences(content[:STATEMENT_CHARACTERS])
    statements = words("\n".join(one for one in beginning if not is_question(one)))
    return Features(
        stems=_counted([*named, *head, *words(day)], words(content[HEAD:], characters_and_pairs)),
        length=len(content),
        density=density(head),
        firsthand=min(sum(word in FIRST_PERSON for word in statements), MAX_FIRSTHAND),
        timed=_names_a_time(statements),
        wish=any(map(_WISH.match, beginning)),
    )


def features_of(content: str, *, topic: str | None, label: str | None, event_time: str) -> Features:
    """The same as `features`, from the columns of a record."""
    return features(content, topic=topic, label=label, at=datetime.fromisoformat(event_time))


def pairs_of(stems: str) -> str | None:
    """Those of a text without spaces, each once, for the full-text index, which finds no such word.

    Stems have the accents of their letters behind them, where they have any.
    """
    if stems.isascii():
        return None
    return " ".join(_PAIR.findall(unicodedata.normalize("NFC", stems))) or None


def _names_a_time(statements: Sequence[str]) -> bool:
    return not (_MOMENTS.isdisjoint(statements) and _IN_PAIRS.isdisjoint(pairwise(statements)))


def _counted(head: Sequence[str], rest: Sequence[str]) -> str:
    """Every stem with how often it occurs in both; first the stems of the head."""
    first, every = _stems(head), _stems(rest)
    ahead = [f"{stem}={count + every.pop(stem, 0)}" for stem, count in first.items()]
    behind = [f"{stem}={count}" for stem, count in every.items()]
    return f" {' '.join(ahead)}{HEAD_ENDS}{' '.join(behind)} "


def _stems(words_: Sequence[str]) -> Counter[str]:
    """How often each stem occurs, in the order of their first words; each word is stemmed once."""
    counts, found = Counter(words_), Counter[str]()
    for stem, count in zip(stems(counts), counts.values(), strict=True):
        found[stem] += count
    return found
