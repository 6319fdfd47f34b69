"""Recognise answers that only say that nothing is known."""

import re
from collections.abc import Set as AbstractSet

from local2.language.words import stems, words

MAX_CHARACTERS = 2_000
"""Number of characters at the beginning of an answer in which a refusal is recognised."""
MAX_WORDS = 3
"""Maximum number of words of a refusal beside those of its question and of common refusals."""

_REFUSAL = re.compile(
    r"\b(?:no|not|nothing|never|cannot|unable|\w{2,7}n['\u2019]t)\b[^.!?\n]{0,60}?\b(?:know|remember|"
    r"recall|aware|information|memor(?:y|ies)|record(?:s|ed)?|mention(?:ed)?|found|find|saved|stored|"
    r"details?|context|sure|told|access|answer|anything)\b"
    r"|\b(?:know|remember|recall|found|find|have|see) (?:nothing|no|none|neither)\b",
    re.IGNORECASE,
)
_REFUSAL_TALK = frozenset(
    stems(
        words("""
    access across again ahead anything answer asked available aware cannot check chat clear confirm
    context conversation could couldn currently detail did didn doesn don earlier far feel find
    found free give glad happy haven help here hope information isn know known let like look may
    maybe memories mention might more moment need never nothing now old one past perhaps personal
    previous provide record remember right save search see seem session share something sorry
    specific store sure there time topic try unable unfortunately wasn yet
    """)
    )
)


def is_refusal(answer: str, own: AbstractSet[str]) -> bool:
    """Whether an answer only says that nothing is known.

    `own`: its informative stems without those of its question.
    """
    says_little = len(own - _REFUSAL_TALK) <= MAX_WORDS
    return says_little and _REFUSAL.search(answer[:MAX_CHARACTERS]) is not None
