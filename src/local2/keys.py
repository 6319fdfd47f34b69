"""Keys that are compared without regard to their spelling: topic keys, and names of entities."""

import re
import unicodedata
from functools import lru_cache

from local2.errors import InvalidArgumentsError, quoted

_IGNORED = re.compile(r"['\u2019`]|(?<!\d)\.|\.(?!\d)")
"""Characters that make no difference in a name: apostrophes, and points outside numbers."""
_BETWEEN = re.compile(r"(?<=\w)[-_](?=\w)|(?<!\d),|,(?!\d)")
_INITIALS = re.compile(r"(?<=\b[^\W\d_]) (?=[^\W\d_]\b)")
"""A space between single letters."""
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Selectors, joiners and fillers that count as letters or marks, and that nobody sees."""
_AROUND = " .,;:!?\"'“”«»"
TOPIC_RULE = (
    "A topic key is user., project. or constraint., followed by words of letters, "
    "digits, hyphens and underscores, joined by dots, e.g. user.language_preference."
)
_TOPIC_PREFIXES = frozenset({"user", "project", "constraint"})
_TOPIC_LENGTH = 200


def entity_key(name: str) -> str:
    """A key that is equal for all spellings of a name in capitals, spaces and punctuation.

    Initials are one word: "J. R. Smith" equals "JR Smith".
    """
    plain = unicodedata.normalize("NFKC", name).casefold()
    bare = _BETWEEN.sub(" ", _IGNORED.sub("", plain))
    return _INITIALS.sub("", " ".join(bare.split()).strip(_AROUND)) or plain


def is_topic(text: str) -> bool:
    """Whether the text is a valid topic key."""
    return len(text) <= _TOPIC_LENGTH and _has_topic_form(text)


@lru_cache(1_000)
def _has_topic_form(text: str) -> bool:
    prefix, *words = text.split(".")
    return (
        prefix.lower() in _TOPIC_PREFIXES
        and bool(words)
        # Letters of any script, combining marks, digits and hyphens, as in identifiers.
        and all(f"_{word.replace('-', '_')}".isidentifier() for word in words)
        and all(_INVISIBLE.sub("", word).strip("-_") for word in words)
    )


def fold_topic(topic: str) -> str:
    """A topic key in the form for comparison, without capitals, letter variants and selectors."""
    if topic.isascii():
        return topic.lower()
    normal = unicodedata.normalize("NFKC", _INVISIBLE.sub("", topic))
    return unicodedata.normalize("NFKC", normal.casefold())


def checked_topic(topic: str) -> str:
    """The key if it is valid.

    Raises:
        InvalidArgumentsError: The key violates the rule, which the message states.
    """
    if not is_topic(topic):
        raise InvalidArgumentsError(
            f"topic: {quoted(topic)} is not a topic key.", remedy=TOPIC_RULE
        )
    return topic


def is_user_topic(topic: str) -> bool:
    """Whether a topic key is for a user's own facts."""
    return fold_topic(topic).startswith("user.")
