"""Replaces different words for the same, before sentences are compared by their form."""

import re

from local.text.words import composed

_CHANGED = "moved|changed|switched|rescheduled|postponed|raised|lowered|increased|reduced|renamed"
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
        ("moved", r"\b(I|we) (?:have )?(?:just )?moved to\b", r"\1 live in"),
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
"""The replacements, each tried if one of its signs is in a sentence."""


def reworded(text: str) -> str:
    """Return the text in those words; accents are composed."""
    text = composed(text)
    folded = text.lower()
    for signs, phrase, plain in _PHRASES:
        if any(sign in folded for sign in signs):
            text = phrase.sub(plain, text)
    return text
