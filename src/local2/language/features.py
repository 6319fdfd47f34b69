"""Extract features of a text's form for ranking, and distinguish questions from statements.

Memorable texts are mostly statements in the first person, with informative words and a time;
questions, greetings and agreement are seldom worth remembering. The weights of the features were
measured on conversations; docs/recall.md lists them. Features are extracted when a record is
stored.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise, product
from typing import NamedTuple

from local2.language.questions import FIRST_PERSON, is_question
from local2.language.sentences import sentences
from local2.language.time import MONTHS, WEEKDAYS
from local2.language.words import (
    PIECE,
    UNSPACED,
    characters_and_pairs,
    density,
    pieces,
    stems,
    words,
)
from local2.language.writings import other_writings

HEAD = 800
"""Number of characters at the beginning of a text by which coverage and density are measured, but
for a better passage: a long text contains many words of a question by chance."""
STATEMENT_CHARACTERS = 4_000
"""Number of characters that are searched for statements. This limits the time for a pasted page;
people's own statements are at the beginning."""
MAX_FIRSTHAND = 4
"""Maximum number of first-person words that count. More mean a longer text, not a more personal
one."""
HEAD_SEPARATOR = " | "
"""Separates the stems of the head from all others in the column `stems`."""
PASSAGE, MAX_PASSAGES = 400, 32
"""Maximum characters of a passage, two of which are as long as the head, and the maximum number of
passages: those of a text with more are longer."""
_MOMENTS = frozenset({
    "yesterday", "today", "tonight", "tomorrow", "ago", "recently", "lately", *WEEKDAYS,
    *(month.lower() for month in MONTHS if month not in {"March", "May"}),
    *map(str, range(1950, 2100)),
})  # fmt: skip
_SPANS = (
    "night", "morning", "evening", "week", "weekend", "month", "year", "summer", "winter", "spring",
    "fall", "autumn",
)  # fmt: skip
_COUNTS = ("a", "two", "three", "four", "five", "six", "few", "couple", *map(str, range(1, 100)))
_UNITS = ("day", "days", "week", "weeks", "month", "months", "year", "years")
_TIME_PAIRS = frozenset({
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
    """The features in the order of the table's columns. The table's schema explains each."""

    stems: str
    length: int
    density: float
    firsthand: int
    timed: bool
    wish: bool


def features(content: str, *, topic: str | None, label: str | None, at: datetime) -> Features:
    """A record's features. The stems of its head include topic, label and date."""
    called = " ".join(name for name in (topic, label) if name)
    names = [*words(called, characters_and_pairs), *other_writings(called)]
    day = [str(at.day), MONTHS[at.month - 1].lower(), str(at.year)]
    head = words(content[:HEAD], characters_and_pairs)
    beginning = sentences(content[:STATEMENT_CHARACTERS])
    told = [sentence for sentence in beginning if not is_question(sentence)]
    if len(content) <= HEAD and len(told) == len(beginning):  # as most texts: nothing is left out
        statements = head
    else:
        statements = words("\n".join(told))
    return Features(
        stems=_counted(
            [*names, *head, *other_writings(content[:HEAD]), *day], content, about=[*names, *day]
        ),
        length=len(content),
        density=density(head),
        firsthand=min(sum(map(FIRST_PERSON.__contains__, statements)), MAX_FIRSTHAND),
        timed=not (
            _MOMENTS.isdisjoint(statements) and _TIME_PAIRS.isdisjoint(pairwise(statements))
        ),
        wish=any(map(_WISH.match, beginning)),
    )


def pairs_of(stems: str) -> str | None:
    """The pairs of a text without spaces, each once, for the full-text index.

    The index itself finds no words in such a text. The stems are in decomposed form.
    """
    if stems.isascii():
        return None
    return " ".join(_PAIR.findall(unicodedata.normalize("NFC", stems))) or None


def stems_in(stems: str) -> list[str]:
    """The stems of a text, each once, from the column of that name."""
    return [token.rpartition("=")[0] for token in stems.split() if "=" in token]


def _counted(head: Sequence[str], content: str, *, about: Sequence[str]) -> str:
    """All stems with their counts, first those of the head, then the others.

    Those of a text that is longer than its head are followed by the passages that have them, as the
    bits of a number: "metal=3@5" stands three times, in the first and in the third passage. The
    words `about` the text count as in each of them.
    """
    in_head, in_each = _count_stems(head), _count_stems(about)
    in_text, passages = Counter[str](), dict[str, int]()
    if len(content) > HEAD:
        size = max(PASSAGE, len(content) // (MAX_PASSAGES - 1))
        for number, passage in enumerate(pieces(content, size)):
            in_passage = _count_stems(
                [*words(passage, characters_and_pairs), *other_writings(passage)]
            )
            in_text.update(in_passage)
            bit = 1 << min(number, MAX_PASSAGES - 1)  # pieces end between words: there may be more
            for stem in {*in_passage, *in_each}:
                passages[stem] = passages.get(stem, 0) | bit

    def counted(stem: str, count: int) -> str:
        return f"{stem}={count}@{passages[stem]:x}" if stem in passages else f"{stem}={count}"

    # A word in which the head ends is whole in its passage, and then only counts there.
    first = [
        counted(stem, max(count, in_text.pop(stem, 0) + in_each[stem]))
        for stem, count in in_head.items()
    ]
    others = [counted(stem, count) for stem, count in in_text.items()]
    return f" {' '.join(first)}{HEAD_SEPARATOR}{' '.join(others)} "


def _count_stems(words_: Sequence[str]) -> Counter[str]:
    """Count each stem, in the order of first occurrence."""
    counts = Counter[str]()
    for begin in range(0, len(words_), PIECE):
        counts.update(stems(words_[begin : begin + PIECE]))
    return counts
