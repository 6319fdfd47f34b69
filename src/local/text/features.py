"""Extract features of a text's form for ranking, and distinguish questions from statements.

Memorable texts are mostly statements in the first person, with informative words and a time;
questions, greetings and agreement are seldom worth remembering. The weights of the features were
measured on conversations; docs/recall.md lists them. Features are extracted when a record is
stored.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise, product
from typing import NamedTuple

from local.text.words import (
    PIECE,
    UNSPACED,
    characters_and_pairs,
    composed,
    density,
    stems,
    words,
)

_ENDS = ".!?\u2026\u3002\uff01\uff1f\u061f"
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")

_SENTENCE = re.compile(rf"[^{_ENDS}\n]+[{_ENDS}]*")
_SOMETHING = re.compile(r"\w\w")
_DECORATION = " \t\"'*#>-\u2013\u2014\u201c\u201d"
_CLOSING = " \"'*_)\u201d\u2019\u00bb"
_ASKING = (
    "what|when|where|who|whom|whose|which|why|how|do|does|did|is|are|was|were|am|can|could|would"
    "|will|should|shall|may|has|have|had"
)
_ASKS = re.compile(rf"\W*(?:{_ASKING}|tell me|remind me)\b", re.IGNORECASE)
_SAVING = re.compile(r"\b(?:remember|note|save|mind|forget)\b[:,]? that\b", re.IGNORECASE)
"""A polite request that states something: "Could you remember that …?"."""
_WANTS = re.compile(
    rf"(?:please\s+)?(?:{_ASKING}|might|any|isn|aren|don|didn|doesn|tell|show|give|list|find|remind"
    r"|summari[sz]e|search|recall|remember|look\s+up|describe|explain|mention|name)\b",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"\b(?:i|we|let['\u2019]s)\b", re.IGNORECASE)
HEAD = 800
"""Number of characters at the beginning of a text by which coverage and density are measured: a
long text contains many words of a question by chance."""
STATEMENT_CHARACTERS = 4_000
"""Number of characters that are searched for statements. This limits the time for a pasted page;
people's own statements are at the beginning."""
MAX_FIRSTHAND = 4
"""Maximum number of first-person words that count. More mean a longer text, not a more personal
one."""
HEAD_SEPARATOR = " | "
"""Separates the stems of the head from all others in the column `stems`."""
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
_CHANGED = (
    "moved|changed|switched|rescheduled|postponed|delayed|extended|shortened|slipped|pushed|raised"
    "|lowered|increased|reduced|cut|dropped|renamed"
)
_TIME = r"(?:last |next |this )?\w+(?: \d{1,4})?"
_DAY_OR_MONTH = rf"(?:{'|'.join((*_WEEKDAYS, *(month[:3] for month in MONTHS)))})"
_PLACED = r"(?:at|on|in|up|down|back|now|not)\b"
_BEEN = "(?:have been|has been|was|is|has)"
_PHRASES = tuple(
    (tuple(signs.split("|")), re.compile(phrase, re.IGNORECASE), plain)
    for signs, phrase, plain in (
        ("n't|n\u2019t", r"n['\u2019]t\b", " not"),
        ("'m|'re|\u2019m|\u2019re", r"['\u2019](?:m|re)\b", " am"),
        ("'s|\u2019s", rf"(?<=\w)['\u2019]s (?={_PLACED}|\d|{_DAY_OR_MONTH})", " is "),
        ("'ve|\u2019ve", r"['\u2019]ve\b", " have"),
        ("cannot", r"\bcannot\b", "can not"),
        ("no longer", r"\bno longer\b", "not"),
        ("the user", r"\bthe user['\u2019]s\b", "my"),
        ("the user", r"\bthe user\b", "I"),
        ("now|today", r"\b(?:as of|from|since|starting|for|right) (?:now|today)(?: on)?\b", ""),
        ("any", r"\bany ?more\b", ""),
        (
            "since|as of|starting",
            rf"(?:^|(?<=[.!?] ))(?:since|as of|starting) {_TIME},? (?=(?:my|our|the|I|we)\b)",
            "",
        ),
        (
            "moved",
            r"\b(?:I|we) (?:have )?(?:(?:just|finally|recently) )*moved (?:from [\w ]{1,40} )?to\b",
            "I live in",
        ),
        ("we live", r"\bwe live\b", "I live"),
        ("joined|started", r"\b(I|we) (?:have )?(?:just )?(?:joined|started at)\b", r"\1 work at"),
        ("work for", r"\b(I|we) work for\b", r"\1 work at"),
        (
            "switched",
            r"\b(I|we) (?:have )?(?:just )?switched (?:from [\w ]{1,40} )?to\b",
            r"\1 use",
        ),
        (
            _CHANGED,
            rf"\b(?:{_BEEN} )?(?:{_CHANGED})(?: from [\w .,:]{{1,40}}?)? to\b",
            "is",
        ),
        (
            "on|at|to",
            rf"\b(is|are) (?:(?:back|up|down) )?(?:on|at|to) (?=\d|{_DAY_OR_MONTH})",
            r"\1 ",
        ),
    )
)
"""Replacements by `reworded`: signs of which one must occur, a pattern, and its replacement."""


def sentences(text: str) -> list[str]:
    """Return the sentences that have a word of two letters or more, with their closing marks."""
    return [found.strip() for found in _SENTENCE.findall(text) if _SOMETHING.search(found)]


def split_lazily(separator: re.Pattern[str], text: str) -> Iterator[str]:
    """Split a text piece by piece, for callers that need only the first pieces of a long text."""
    begin = 0
    for between in separator.finditer(text):
        yield text[begin : between.start()]
        begin = between.end()
    yield text[begin:]


def is_question(sentence: str) -> bool:
    return sentence.rstrip(_CLOSING).endswith(_QUESTION_MARKS)


def asks(sentence: str) -> bool:
    """Return whether a sentence asks something and states nothing."""
    may_ask = is_question(sentence) or _ASKS.match(sentence) is not None
    return may_ask and _SAVING.search(sentence) is None


def stating(text: str) -> float:
    """Return the fraction of a text's sentences that state something, from 0 to 1.

    Questions to a memory and mere keywords state nothing. A turn that continues a conversation
    states what happened before it asks.
    """
    found = [sentence.strip(_DECORATION) for sentence in sentences(text)]
    if not found or (len(found) == 1 and not _SUBJECT.search(text)):
        return 0.0
    statements = [s for s in found if not is_question(s) and not _WANTS.match(s)]
    return len(statements) / len(found)


def excerpt(text: str, limit: int) -> str:
    """Return the text in one line, cut after a whole word to at most `limit` characters."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    return f"{line[:limit].rpartition(' ')[0] or line[:limit]} …"


def reworded(text: str) -> str:
    """Return the text with a single wording for equal meanings, so that statements compare."""
    text = composed(text)
    folded = text.lower()
    for signs, phrase, plain in _PHRASES:
        if any(sign in folded for sign in signs):
            text = phrase.sub(plain, text)
    return text


class Features(NamedTuple):
    """The features in the order of the table's columns. The table's migration explains each."""

    stems: str
    length: int
    density: float
    firsthand: int
    timed: bool
    wish: bool


def features(content: str, *, topic: str | None, label: str | None, at: datetime) -> Features:
    """Return a record's features. The stems of its head include topic, label and date."""
    names = words(" ".join(name for name in (topic, label) if name), characters_and_pairs)
    day = [str(at.day), MONTHS[at.month - 1].lower(), str(at.year)]
    head = words(content[:HEAD], characters_and_pairs)
    beginning = sentences(content[:STATEMENT_CHARACTERS])
    statements = words("\n".join(one for one in beginning if not is_question(one)))
    return Features(
        stems=_counted([*names, *head, *day], words(content[HEAD:], characters_and_pairs)),
        length=len(content),
        density=density(head),
        firsthand=min(sum(map(FIRST_PERSON.__contains__, statements)), MAX_FIRSTHAND),
        timed=_names_a_time(statements),
        wish=any(map(_WISH.match, beginning)),
    )


def features_of(content: str, *, topic: str | None, label: str | None, event_time: str) -> Features:
    """Return the features from the columns of a record."""
    return features(content, topic=topic, label=label, at=datetime.fromisoformat(event_time))


def pairs_of(stems: str) -> str | None:
    """Return the pairs of a text without spaces, each once, for the full-text index.

    The index itself finds no words in such a text. The stems are in decomposed form.
    """
    if stems.isascii():
        return None
    return " ".join(_PAIR.findall(unicodedata.normalize("NFC", stems))) or None


def _names_a_time(statements: Sequence[str]) -> bool:
    return not (_MOMENTS.isdisjoint(statements) and _TIME_PAIRS.isdisjoint(pairwise(statements)))


def _counted(head: Sequence[str], rest: Sequence[str]) -> str:
    """Return all stems with their counts, first those of the head, then the others."""
    in_head, in_rest = _count_stems(head), _count_stems(rest)
    first = [f"{stem}={count + in_rest.pop(stem, 0)}" for stem, count in in_head.items()]
    others = [f"{stem}={count}" for stem, count in in_rest.items()]
    return f" {' '.join(first)}{HEAD_SEPARATOR}{' '.join(others)} "


def _count_stems(words_: Sequence[str]) -> dict[str, int]:
    """Count each stem, in the order of first occurrence. Each word is stemmed once."""
    if not words_:
        return {}
    counts, found = Counter[str](), dict[str, int]()
    for begin in range(0, len(words_), PIECE):
        counts.update(words_[begin : begin + PIECE])
    for stem, count in zip(stems(counts), counts.values(), strict=True):
        found[stem] = found.get(stem, 0) + count
    return found
