"""Read what a sentence mentions: things with their modifiers, and values by kind. English only."""

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, product

from local.text.features import MONTHS
from local.text.words import is_informative, stems, words

_BREAK = re.compile(r"(?<=[.!?;])\s+|\n+")
_PAUSE = re.compile(r"[,:;]\s")
_DETERMINERS = frozenset({"the", "a", "an", "my", "our", "this"})
_WEEKDAY = "(?i:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS)
_DAY = rf"(?:{_WEEKDAY}|{_MONTH})s?\b"
_NUMBER = r"(?<![\w:.,-])\W?\d[\d.,]*(?![\d:]| ?[ap]m\b|st\b|nd\b|rd\b|th\b)[a-z%]*"
_RANK = r"\b(?:first|second|third|(?:four|fif|six|seven|eigh|nin|ten)th)(?= [a-z])"
_VALUES = {
    "time": re.compile(r"\b\d{1,2}(?::\d\d| ?[ap]m\b)|\bat \d{1,2}\b|\bnoon\b", re.IGNORECASE),
    "day": re.compile(rf"\b(?:{_DAY}(?: \d+)?|\d{{1,2}}(?:st|nd|rd|th)\b)"),
    "number": re.compile(_NUMBER),
    "rank": re.compile(_RANK),
    "name": re.compile(rf"(?<=[\w,] )(?!I\b|{_DAY})[A-Z][\w.+-]*"),
}
"""The kinds of values. The first word of a sentence does not count as a name."""
_NO_MODIFIER = re.compile(f"{_NUMBER}|{_RANK}")


class Sentence:
    """A sentence of a message."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def stems(self) -> frozenset[str]:
        return stems_of(self.text)

    @cached_property
    def values(self) -> list[tuple[str, str]]:
        """The values with their kinds."""
        return [
            (kind, one[0]) for kind, each in _VALUES.items() for one in each.finditer(self.text)
        ]

    @cached_property
    def modifiers(self) -> list[tuple[str, frozenset[str]]]:
        """The stems with their modifiers: "limit" with "API" in "API limit", "limit of the API".

        Names do not count as modifiers, because they may be values ("Elm School").
        """
        names = stems_of(" ".join(value for kind, value in self.values if kind == "name"))
        nouns = _NO_MODIFIER.sub(" , ", self.text)
        phrases = chain.from_iterable(map(_phrases, _PAUSE.split(nouns)))
        found = chain.from_iterable(map(_modifiers, phrases))
        return [(stem, modifiers - names) for stem, modifiers in found]

    def values_beyond(self, other: "Sentence") -> dict[str, frozenset[str]]:
        """Return the stems of the values that the other sentence lacks, by kind."""
        beyond = [(kind, value) for kind, value in self.values if value not in other.text]
        return {kind: stems_of(" ".join(v for k, v in beyond if k == kind)) for kind, _ in beyond}

    def may_mean(self, other: "Sentence", stem: str) -> bool:
        """Return whether a stem means the same in both: they do not modify it in different ways."""
        return any(
            stem == one == another and (by_one <= by_another or by_another <= by_one)
            for (one, by_one), (another, by_another) in product(self.modifiers, other.modifiers)
        )

    def modifies(self, stem: str) -> Iterator[str]:
        """Yield the stems that a stem modifies."""
        return (one for one, modifiers in self.modifiers if stem in modifiers)


def read(text: str) -> tuple[Sentence, ...]:
    return tuple(map(Sentence, filter(None, _BREAK.split(text))))


def stems_of(text: str) -> frozenset[str]:
    """Return the stems of the informative words."""
    return frozenset(stems(filter(is_informative, words(text))))


def _phrases(text: str) -> Iterator[list[list[str]]]:
    """Yield the stems of informative words in a row; a phrase has several rows around "of"."""
    phrase: list[list[str]] = [[]]
    for word, stem in zip(spoken := words(text), stems(spoken), strict=True):
        if is_informative(word):
            phrase[-1].append(stem)
        elif word == "of":
            phrase.append([])
        elif phrase[-1] or word not in _DETERMINERS:
            yield phrase
            phrase = [[]]
    yield phrase


def _modifiers(phrase: list[list[str]]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each stem with those before it in its row; the last one also with those after "of"."""
    for n, row in enumerate(phrase):
        following = list(chain.from_iterable(phrase[n + 1 :]))
        for k, stem in enumerate(row):
            yield stem, frozenset(row[:k] + (following if k == len(row) - 1 else []))
