"""Words of a question to a full-text expression."""

import re

MAX_TERMS = 32

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


def match_expression(text: str) -> str | None:
    """The words of `text` joined with OR, for FTS5; None where only stop words are left."""
    words = dict.fromkeys(word for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS)
    return " OR ".join(f'"{word}"' for word in list(words)[:MAX_TERMS]) or None
