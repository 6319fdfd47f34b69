"""What a text shows by its form: which sentences ask or state, and which features ranking reads.

People state what is worth remembering in the first person, with informative words and with a time.
Questions, greetings and agreement seldom are worth it. The weight of each feature was measured on
conversations; docs/recall.md lists them. Features are read when a record is stored.
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
_ASKS_BACK = re.compile(rf"\W*(?:{_ASKING}|tell me|remind me)\b", re.IGNORECASE)
_SAVING = re.compile(r"\b(?:remember|note|save|mind|forget)\b[:,]? that\b", re.IGNORECASE)
"""A polite request that is still a statement: "Could you remember that …?"."""
_WANTS = re.compile(
    rf"(?:please\s+)?(?:{_ASKING}|might|any|isn|aren|don|didn|doesn|tell|show|give|list|find|remind"
    r"|summari[sz]e|search|recall|remember|look\s+up|describe|explain|mention|name)\b",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"\b(?:i|we|let['\u2019]s)\b", re.IGNORECASE)
HEAD = 800
"""Characters of the beginning, by which coverage and density are measured: the longer a text, the
more words of a question it contains by chance."""
STATEMENT_CHARACTERS = 4_000
"""Characters that are searched for statements. Bounds the time that a pasted page takes; statements
beside it come at its beginning."""
MAX_FIRSTHAND = 4
"""The most first-person words that count. More show a longer text, not a more personal one."""
HEAD_ENDS = " | "
"""Between the stems of the beginning and all others, in the column `stems`."""
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
_CHANGED = (
    "moved|changed|switched|rescheduled|postponed|delayed|extended|shortened|slipped|pushed|raised"
    "|lowered|increased|reduced|cut|dropped|renamed"
)
_TIME = r"(?:last |next |this )?\w+(?: \d{1,4})?"
_BEEN = "(?:have been|has been|was|is|has)"
_PHRASES = tuple(
    (tuple(signs.split("|")), re.compile(phrase, re.IGNORECASE), plain)
    for signs, phrase, plain in (
        ("n't|n\u2019t", r"n['\u2019]t\b", " not"),
        ("'m|'re|\u2019m|\u2019re", r"['\u2019](?:m|re)\b", " am"),
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
        ("moved", r"\b(?:I|we) (?:have )?(?:just )?moved (?:from [\w ]{1,40} )?to\b", "I live in"),
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
    )
)
"""What is put in other words where one of its signs is in a sentence, and which."""


def sentences(text: str) -> list[str]:
    """Return the sentences with at least one word of two letters, each with its closing marks."""
    return [found.strip() for found in _SENTENCE.findall(text) if _SOMETHING.search(found)]


def split_lazily(separator: re.Pattern[str], text: str) -> Iterator[str]:
    """Split a text piece by piece: of a long text the first pieces may be enough."""
    begin = 0
    for between in separator.finditer(text):
        yield text[begin : between.start()]
        begin = between.end()
    yield text[begin:]


def is_question(sentence: str) -> bool:
    return sentence.rstrip(_CLOSING).endswith(_QUESTION_MARKS)


def asks(sentence: str) -> bool:
    """Return whether a sentence wants an answer and states nothing."""
    if _SAVING.search(sentence):
        return False
    return is_question(sentence) or _ASKS_BACK.match(sentence) is not None


def stating(text: str) -> float:
    """Return the share of a text's sentences that state something, from 0 to 1.

    A question to a memory, or a few keywords, state nothing. A turn that continues a conversation
    states what happened before it asks.
    """
    every = [sentence.strip(_DECORATION) for sentence in sentences(text)]
    if not every or (len(every) == 1 and not _SUBJECT.search(text)):
        return 0.0
    statements = [s for s in every if not is_question(s) and not _WANTS.match(s)]
    return len(statements) / len(every)


def excerpt(text: str, most: int) -> str:
    """Return the text in one line, cut after a whole word to at most so many characters."""
    one = " ".join(text.split())
    return one if len(one) <= most else f"{one[:most].rpartition(' ')[0] or one[:most]} …"


def reworded(text: str) -> str:
    """With one wording for what is said in several, for whoever compares; accents are composed."""
    text = composed(text)
    folded = text.lower()
    for signs, phrase, plain in _PHRASES:
        if any(sign in folded for sign in signs):
            text = phrase.sub(plain, text)
    return text


class Features(NamedTuple):
    """The features in the order of the table's columns; the table's migration explains each."""

    stems: str
    length: int
    density: float
    firsthand: int
    timed: bool
    wish: bool


def features(content: str, *, topic: str | None, label: str | None, at: datetime) -> Features:
    """Return a record's features. Topic and label count as its first words, its day as its head."""
    named = words(" ".join(name for name in (topic, label) if name), characters_and_pairs)
    day = [str(at.day), MONTHS[at.month - 1].lower(), str(at.year)]
    head = words(content[:HEAD], characters_and_pairs)
    beginning = sentences(content[:STATEMENT_CHARACTERS])
    statements = words("\n".join(one for one in beginning if not is_question(one)))
    return Features(
        stems=_counted([*named, *head, *day], words(content[HEAD:], characters_and_pairs)),
        length=len(content),
        density=density(head),
        firsthand=min(sum(map(FIRST_PERSON.__contains__, statements)), MAX_FIRSTHAND),
        timed=_names_a_time(statements),
        wish=any(map(_WISH.match, beginning)),
    )


def features_of(content: str, *, topic: str | None, label: str | None, event_time: str) -> Features:
    """Return the same as `features`, from the columns of a record."""
    return features(content, topic=topic, label=label, at=datetime.fromisoformat(event_time))


def pairs_of(stems: str) -> str | None:
    """Return the pairs of a text without spaces, each once, for the full-text index.

    The index finds no word of such a text. Stems have the accents of their letters behind them,
    where they have any.
    """
    if stems.isascii():
        return None
    return " ".join(_PAIR.findall(unicodedata.normalize("NFC", stems))) or None


def _names_a_time(statements: Sequence[str]) -> bool:
    return not (_MOMENTS.isdisjoint(statements) and _IN_PAIRS.isdisjoint(pairwise(statements)))


def _counted(head: Sequence[str], rest: Sequence[str]) -> str:
    """Count every stem in both; the stems of the head come first."""
    first, every = _stems(head), _stems(rest)
    ahead = [f"{stem}={count + every.pop(stem, 0)}" for stem, count in first.items()]
    behind = [f"{stem}={count}" for stem, count in every.items()]
    return f" {' '.join(ahead)}{HEAD_ENDS}{' '.join(behind)} "


def _stems(words_: Sequence[str]) -> dict[str, int]:
    """Count each stem, in the order of their first words; each word is stemmed once."""
    if not words_:
        return {}
    counts, found = Counter[str](), dict[str, int]()
    for begin in range(0, len(words_), PIECE):
        counts.update(words_[begin : begin + PIECE])
    for stem, count in zip(stems(counts), counts.values(), strict=True):
        found[stem] = found.get(stem, 0) + count
    return found
