"""What ranking reads of a record's text, once, when it is stored: its stems, and its traits.

People state what is worth remembering in the first person, with words that say something, and with
a time; what they ask, greet and agree to seldom is.
"""

import re
from collections import Counter
from datetime import datetime
from typing import NamedTuple

from local.memory.recall.keywords import density, stems, words
from local.memory.recall.sentences import is_question, sentences

HEAD = 800
"""Characters of the beginning, which coverage and density look at: the longer a text the more
words it has by chance."""
STATED = 4_000
"""Characters that are looked through for statements."""
MOST_FIRSTHAND = 4
HEAD_ENDS = " | "
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip

_FIRST_PERSON = re.compile(r"\b(?:i|my|me|mine|myself|we|our|ours|us)\b", re.IGNORECASE)
_UNITS = "days?|weeks?|months?|years?"
_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|recently|lately"
    r"|(?:last|next|this|past|coming|previous)\s+(?:night|morning|evening|week|weekend|month|year"
    r"|summer|winter|spring|fall|autumn|(?:mon|tues|wednes|thurs|fri|satur|sun)day|few\s+\w+)"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|january|february|april|june|july|august|september|october|november|december"
    r"|(?:in|on|of|since|until|by|march|may)\s+(?:march|may|\d{1,2}(?:st|nd|rd|th)?)"
    rf"|(?:19|20)\d\d|(?:\d+|a|two|three|four|five|six|few|couple\s+of)\s+(?:{_UNITS}))\b",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"\W*(?:please\s+)?(?:always|never|whenever|make\s+sure|from\s+now\s+on|remember\s+to"
    r"|be\s+sure\s+to)\b",
    re.IGNORECASE,
)


class Features(NamedTuple):
    """In the order of the table's columns; migration 0007 says what each is."""

    stems: str
    length: int
    density: float
    firsthand: int
    timed: bool
    wish: bool


def features(content: str, *, topic: str | None, label: str | None, at: datetime) -> Features:
    """Read a record: topic and label count as said before it, its day as said at the beginning."""
    named = "".join(f"{name}: " for name in (topic, label) if name)
    stated = sentences(content[:STATED])
    statements = [sentence for sentence in stated if not is_question(sentence)]
    firsthand = sum(len(_FIRST_PERSON.findall(sentence)) for sentence in statements)
    day = f"{at.day} {MONTHS[at.month - 1]} {at.year}"
    return Features(
        stems=_counted(f"{named}{content[:HEAD]} {day}", content[HEAD:]),
        length=len(content),
        density=density(content[:HEAD]),
        firsthand=min(firsthand, MOST_FIRSTHAND),
        timed=any(map(_TIME.search, statements)),
        wish=any(map(_WISH.match, stated)),
    )


def _counted(head: str, rest: str) -> str:
    """Every stem with how often it stands in both; first those of the head."""
    first = Counter(stems(words(head)))
    every = first + Counter(stems(words(rest)))
    told = [f"{stem}={every[stem]}" for stem in first]
    behind = [f"{stem}={count}" for stem, count in every.items() if stem not in first]
    return f" {' '.join(told)}{HEAD_ENDS}{' '.join(behind)} "
