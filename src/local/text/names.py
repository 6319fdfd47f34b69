"""Names of things: topic keys and proper names, which are the same, and which a text contains."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from local.errors import InvalidArgumentsError, quoted

MOST_WORDS = 1_000
"""Words of a text that are searched for names."""
LONGEST_NAME = 5
"""The most words of a name."""

_UNSAID = re.compile(r"['\u2019`]|(?<!\d)\.|\.(?!\d)")
"""The differences between spellings of a name: apostrophes, and points outside numbers."""
_BETWEEN = re.compile(r"(?<=\w)[-_](?=\w)|(?<!\d),|,(?!\d)")
_INITIALS = re.compile(r"(?<=\b[^\W\d_]) (?=[^\W\d_]\b)")
"""Between letters that stand alone."""
_AROUND = " .,;:!?\"'“”«»"
_WORD = re.compile(r"\w(?:[\w.&'\u2019+#-]*[\w+#])?")
_POSSESSIVE = re.compile(r"['\u2019]s$")
TOPIC_RULE = (
    "A topic key starts with user., project. or constraint. and goes on in words of letters, "
    "digits, hyphens and underscores, joined by dots, e.g. user.language_preference."
)
_TOPIC_PREFIXES = frozenset({"user", "project", "constraint"})
_TOPIC_LENGTH = 200


def entity_key(name: str) -> str:
    """Return a key that is equal for a name in any capitals, spaces and punctuation.

    Initials are one word: "J. R. Smith" is "JR Smith".
    """
    plain = unicodedata.normalize("NFKC", name).casefold()
    bare = _BETWEEN.sub(" ", _UNSAID.sub("", plain))
    return _INITIALS.sub("", " ".join(bare.split()).strip(_AROUND)) or plain


class Run(NamedTuple):
    """Words of a text that stand together, from the word `first` to the one before `end`."""

    first: int
    end: int
    text: str


def runs(text: str) -> Iterator[Run]:
    """Yield what may be a name in a text, at each word the longest first, without possessives."""
    found = list(islice(_WORD.finditer(text), MOST_WORDS))
    for first, word in enumerate(found):
        for end in range(min(first + LONGEST_NAME, len(found)), first, -1):
            name = text[word.start() : found[end - 1].end()]
            yield Run(first, end, _POSSESSIVE.sub("", name))


_ALSO = re.compile(
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
_OTHER = frozenset(
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
"""Last words after "is" in capitals that are a role, an origin or a time."""
_NAME_PARTS = frozenset({"of", "the", "de", "da", "di", "del", "van", "von", "der", "la", "le"})


def states_alias(subject: str, predicate: str, object_: str) -> bool:
    """Return whether a statement names one thing twice; where that is uncertain, False.

    It does so in words ("is also known as"), or with "is" between two proper names, of which the
    second has two words at least: "Bob is Robert Smith", and not "Bob is Swedish".
    """
    if any(_NO_NAME.match(name.casefold()) for name in (subject, object_)):
        return False
    stated = " ".join(predicate.casefold().replace(".", "").split())
    if _ALSO.fullmatch(stated):
        return max(len(name.split()) for name in (subject, object_)) <= LONGEST_NAME
    named = object_.split()
    return (
        stated == "is"
        and len(named) > 1
        and named[-1].casefold() not in _OTHER
        and _is_proper(subject)
        and _is_proper(object_)
    )


def _is_proper(name: str) -> bool:
    """Return whether every word is written as names are, in letters."""
    words = name.replace(".", " ").replace("-", " ").split()
    return 0 < len(words) <= LONGEST_NAME and all(
        word.replace("'", "").isalpha() and (word[0].isupper() or word in _NAME_PARTS)
        for word in words
    )


def is_topic(text: str) -> bool:
    """Return whether the text can be a topic key."""
    prefix, *words = text.split(".")
    return (
        len(text) <= _TOPIC_LENGTH
        and prefix.lower() in _TOPIC_PREFIXES
        and bool(words)
        and all(map(_is_topic_word, words))
    )


def _is_topic_word(word: str) -> bool:
    """Return whether it has letters of any script with their marks, digits and hyphens only."""
    return bool(word.strip("-_")) and f"_{word.replace('-', '_')}".isidentifier()


def folded(topic: str) -> str:
    """Return the key as it is compared: neither capitals nor forms of a letter make another one."""
    if topic.isascii():
        return topic.lower()
    normal = unicodedata.normalize("NFKC", topic)
    return unicodedata.normalize("NFKC", normal.casefold())


def checked_topic(topic: str) -> str:
    """Return the key if it follows the rule.

    Raises:
        InvalidArgumentsError: It does not; the message states the rule.
    """
    if not is_topic(topic):
        raise InvalidArgumentsError(
            f"topic: {quoted(topic)} is not a topic key.", remedy=TOPIC_RULE
        )
    return topic


def is_users(topic: str) -> bool:
    """Return whether the key is of a user's own facts."""
    return folded(topic).startswith("user.")
