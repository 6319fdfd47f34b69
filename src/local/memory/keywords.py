"""Words of a question to a full-text expression."""

import re

MAX_TERMS = 32
SHORT_WORD = 4
ENDING = 3
"""Letters by which two forms of a word may differ."""

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
    """,
    )
)


def terms(text: str) -> list[str]:
    """The words that say what a text is about: no stop words, each once."""
    words = dict.fromkeys(word for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS)
    return list(words)[:MAX_TERMS]


def match_expression(text: str) -> str | None:
    """The terms of `text` joined with OR, for FTS5; None where only stop words are left."""
    return " OR ".join(f'"{term}"' for term in terms(text)) or None


def coverage(query: str, content: str) -> float:
    """The share of the query's terms that the content has, in this or another ending."""
    asked = terms(query)
    words = set(_WORD.findall(content.lower()))
    found = sum(term in words or any(_alike(term, word) for word in words) for term in asked)
    return found / max(len(asked), 1)


def _alike(term: str, word: str) -> bool:
    """Whether two words differ in their ending only, as `edited` and `editor` do."""
    if abs(len(term) - len(word)) > ENDING:
        return False
    shorter = min(len(term), len(word))
    if shorter > SHORT_WORD:
        stem = shorter - ENDING + 1
        return term[:stem] == word[:stem]
    term, word = term.removesuffix("e"), word.removesuffix("e")  # rate, rating
    return term.startswith(word) or word.startswith(term)
