"""The words of a question that say what it is about, and whether a text has them."""

import re
import unicodedata

MOST_TERMS = 32
"""Of a longer text the first and the last: people ask before what they paste, or behind it."""
SHORT_WORD = 3

_ENDINGS = (("ies", "es", "s"), ("ing", "ed", "ly"))
_WORD = re.compile(r"\w+", re.UNICODE)
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
    a about am an and any are as at be because been being but by can could did do does
    doing for from get had has have having he her hers him his how i if in into is it its
    just me my no not of on or our ours say says she should so some such than that the
    their them then there these they this those to too us very was we were what when where
    which who whom whose why will with would you your yours
    across conversation conversations discuss discussed discussion discussions ever mention
    mentioned please recall remember remind said talked tell throughout told
    """,
    )
)


def terms(text: str) -> list[str]:
    """As `every_term`, at most MOST_TERMS of them."""
    telling = every_term(text)
    if len(telling) <= MOST_TERMS:
        return telling
    return telling[: MOST_TERMS // 2] + telling[-MOST_TERMS // 2 :]


def every_term(text: str) -> list[str]:
    """The words that say what a text is about: no stop words, each once."""
    # Lowered one by one: "\u0130" becomes two characters, of which the second is no part of a word.
    words = dict.fromkeys(word.lower() for word in _WORD.findall(composed(text)))
    return [word for word in words if word not in _STOP_WORDS]


def composed(text: str) -> str:
    """The text with one character a letter: an accent alone would end the word."""
    return unicodedata.normalize("NFC", text)


def stem(term: str) -> str:
    """How the term begins in any of its endings; a short one must begin a word."""
    for endings in _ENDINGS:
        for ending in endings:
            if term.endswith(ending) and len(term) - len(ending) >= SHORT_WORD:
                term = term.removesuffix(ending)
                break
    if len(term) > SHORT_WORD and (term[-1] == term[-2] or term[-1] == "e"):
        term = term[:-1]
    return term if len(term) > SHORT_WORD else f" {term}"


def coverage(query: str, content: str) -> float:
    """The share of the query's terms that the content has, in this or another ending."""
    asked = terms(query)
    text = f" {composed(content)}".lower()
    return sum(stem(term) in text for term in asked) / max(len(asked), 1)
