"""Find candidates for names in a text, and statements of two names of one thing."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from local2.language.time import MONTHS
from local2.language.words import STOP_WORDS, stems

MAX_WORDS = 1_000
"""Maximum number of words of a text that are searched for names."""
MAX_NAME_WORDS = 5
"""Maximum number of words of a name."""

_WORD = re.compile(r"\w(?:[\w.&'\u2019+#-]*[\w+#])?")
_POSSESSIVE = re.compile(r"['\u2019]s$")


class NameCandidate(NamedTuple):
    """Consecutive words of a text, from the word `first` to the one before `end`."""

    first: int
    end: int
    text: str


def name_candidates(text: str) -> Iterator[NameCandidate]:
    """Yield everything in a text that may be a name, the longest first at each word.

    A possessive ending is not part of a name.
    """
    found = list(islice(_WORD.finditer(text), MAX_WORDS))
    for first, word in enumerate(found):
        for end in range(min(first + MAX_NAME_WORDS, len(found)), first, -1):
            name = text[word.start() : found[end - 1].end()]
            yield NameCandidate(first, end, _POSSESSIVE.sub("", name))


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
_NOT_LAST_NAMES = frozenset(
    re.findall(
        r"\w+",
        """
    accountant administrator adviser advisor agent ambassador analyst architect artist assistant
    attorney author captain chair chairman chairwoman champion chef chief clerk coach colonel
    commander consultant coordinator cto ceo cfo coo counsel dean designer developer director doctor
    editor engineer executive expert founder general governor head host inspector intern judge
    king lawyer lead leader lecturer lieutenant manager master mayor member minister nurse officer
    operator owner partner pilot planner player president prince princess principal producer
    professor programmer queen representative researcher scientist secretary senator sergeant
    specialist student supervisor support surgeon teacher technician trainer treasurer tutor writer
    african american asian australian british canadian catholic chinese christian dutch english
    european french german indian irish italian japanese jewish korean muslim orthodox polish
    protestant russian scottish spanish swedish swiss turkish welsh zealander
    monday tuesday wednesday thursday friday saturday sunday january february march april june july
    august september october november december morning afternoon evening night week month year
    """,
    )
)
"""Last words of capitalised phrases after "is" that mean a role, an origin or a time."""
_NAME_PARTS = frozenset({"of", "the", "de", "da", "di", "del", "van", "von", "der", "la", "le"})


def states_alias(subject: str, predicate: str, object_: str) -> bool:
    """Return whether a triplet certainly states two names of one thing.

    It says so ("is also known as"), or has "is" between two proper names, the second of at least
    two words: "Bob is Robert Smith", but not "Bob is Swedish".
    """
    if any(_NO_NAME.match(name.casefold()) for name in (subject, object_)):
        return False
    stated = " ".join(predicate.casefold().replace(".", "").split())
    if _ALIAS_PREDICATE.fullmatch(stated):
        return max(len(name.split()) for name in (subject, object_)) <= MAX_NAME_WORDS
    named = object_.split()
    return (
        stated == "is"
        and len(named) > 1
        and named[-1].casefold() not in _NOT_LAST_NAMES
        and _is_proper(subject)
        and _is_proper(object_)
    )


def _is_proper(name: str) -> bool:
    """Return whether every word is written like a part of a name."""
    words = name.replace(".", " ").replace("-", " ").split()
    return 0 < len(words) <= MAX_NAME_WORDS and all(
        word.replace("'", "").isalpha() and (word[0].isupper() or word in _NAME_PARTS)
        for word in words
    )


_NO_NAMES = STOP_WORDS | frozenset(stems(month.lower() for month in MONTHS))


def may_be_name(stem: str) -> bool:
    """Return whether a stem may belong to a name. The stems of a record include its date."""
    return stem not in _NO_NAMES and not stem.isdigit()
