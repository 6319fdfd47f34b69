"""Find candidates for names in a text, and statements of two names of one thing."""

import re
from collections.abc import Iterator
from itertools import islice

from local2.language.time import MONTHS, WEEKDAYS
from local2.language.words import STOP_WORDS, stems, word_set

MAX_WORDS = 1_000
"""Maximum number of words of a text that are searched for names."""
MAX_NAME_WORDS = 5
"""Maximum number of words of a name."""

_WORD = re.compile(r"\w(?:[\w.&'\u2019+#-]*[\w+#])?")
_POSSESSIVE = re.compile(r"['\u2019]s$")


def name_candidates(text: str) -> Iterator[str]:
    """Yield everything in a text that may be a name, the longest first at each word.

    A possessive ending is not part of a name.
    """
    found = list(islice(_WORD.finditer(text), MAX_WORDS))
    for first, word in enumerate(found):
        for end in range(min(first + MAX_NAME_WORDS, len(found)), first, -1):
            name = text[word.start() : found[end - 1].end()]
            yield _POSSESSIVE.sub("", name)


_ALIAS_PREDICATE = re.compile(
    r"(?:(?:is|was) )?(?:also |otherwise |better |formerly )?(?:known|called|nicknamed) as"
    r"|(?:is|was) (?:also |otherwise |formerly )(?:called|named)|(?:is )?aka|is nicknamed"
    r"|goes by(?: the (?:nick)?name(?: of)?)?|is the same (?:person|thing|company|one)? ?as"
    r"|is (?:an?|the) (?:alias|nickname|short form|abbreviation|other name|full name) (?:of|for)"
    r"|is short for|has the (?:nickname|full name|alias)"
)
_NO_NAME = re.compile(
    r"(?:the|an?|my|your|his|her|its|our|their|this|that|it|he|she|they|we|you|i|who|someone"
    r"|somebody|everyone|everybody|something|not)\b"
)


def states_alias(subject: str, predicate: str, object_: str) -> bool:
    """Whether a triplet says that a thing has two names: "is also known as".

    A bare "is" does not: "Bob is Robert Smith" says as much as "Bob is Project Manager".
    """
    if any(_NO_NAME.match(name.casefold()) for name in (subject, object_)):
        return False
    stated = " ".join(predicate.casefold().replace(".", "").split())
    if _ALIAS_PREDICATE.fullmatch(stated) is None:
        return False
    return max(len(name.split()) for name in (subject, object_)) <= MAX_NAME_WORDS


_PARTICLES = word_set("down first more off out over until up")
"""They are as rare in a small memory as a name."""
_NO_NAMES = frozenset(stems((*STOP_WORDS, *_PARTICLES, *map(str.lower, (*MONTHS, *WEEKDAYS)))))


def may_be_name(stem: str) -> bool:
    """Whether a stem may belong to a name. The stems of a record include its date."""
    return stem not in _NO_NAMES and not stem.isdigit()
