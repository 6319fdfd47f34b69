"""Guess which word of a memory was meant by a word that occurs nowhere in it.

People and speech recognition mistype words, run them together and take them apart. A word of a
question that no record has can only be one that is missing or one that is spelled differently. So
it is compared with the words that the records do have: one slip is allowed, not in the first
letter, which people hardly ever miss. A wrong letter is a key beside the right one or, in a long
word, another vowel; other slips, such as two letters exchanged, need no alphabet.
"""

import math
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise, product
from string import ascii_lowercase

from local2.language.words import STOP_WORDS, stems

MIN_LETTERS = 4
"""Minimum letters of a word that is compared: a shorter one is near to too many."""
MIN_VOWELS_EXCHANGED = 7
"""Minimum letters of a word in which a vowel may stand for another one, as in "definately"; in
short words that makes another word: "list", "last"."""
MIN_STEM_SHARE = 0.5
"""Minimum length of the stem of what is meant, as a share of the word's own length."""
EXCHANGED, DOUBLED, SINGLE, MISSED, BESIDE = 1.0, 1.0, 1.0, 0.8, 0.6
"""How likely it is that two letters are exchanged, that one is written twice or once in place of
twice, left out, or replaced by a key beside it. Other letters are not added by mistake as often as
they make another word: "driver", "drive"."""

_KEYS = "qwertyuiop", "asdfghjkl", "zxcvbnm"
_VOWELS = "aeiouy"


def _beside() -> dict[str, str]:
    """The keys beside each; German keyboards have y and z exchanged."""
    places = {key: (row, at) for row, keys in enumerate(_KEYS) for at, key in enumerate(keys)}
    beside = {key: "z" if key == "y" else "y" if key == "z" else "" for key in places}
    for (one, (row, at)), (other, (below, near)) in product(places.items(), repeat=2):
        if one != other and abs(row - below) <= 1 and abs(at - near) <= 1:
            beside[one] += other
    return beside


_BESIDE = _beside()


def slips(word: str) -> dict[str, float]:
    """The words from which one slip makes this one, each with how likely the slip is."""
    found: dict[str, float] = {}
    if "ss" in word:
        found[word.replace("ss", "ß")] = SINGLE
    if "ß" in word:
        found[word.replace("ß", "ss")] = SINGLE
    vowels = _VOWELS if len(word) >= MIN_VOWELS_EXCHANGED else ""
    for at in range(1, len(word) + 1):
        before, letter, after = word[:at], word[at : at + 1], word[at + 1 :]
        last = before[-1]
        if after:
            found.setdefault(before + after[0] + letter + after[1:], EXCHANGED)
        if letter == last or (letter == "e" and last in "aou"):  # Muenchen
            found.setdefault(before + after, DOUBLED)
        found.setdefault(before + last + letter + after, SINGLE)
        for other in _BESIDE.get(letter, "") + (vowels if letter in vowels else ""):
            found.setdefault(before + other + after, BESIDE)
        for other in ascii_lowercase:
            found.setdefault(before + other + letter + after, MISSED)
    found.pop(word, None)
    return found


def unknown_words(terms: Sequence[str], frequency: Callable[[str], float]) -> frozenset[str]:
    """The terms of which no record has the stem."""
    found = zip(terms, stems(terms), strict=True)
    return frozenset(word for word, stem in found if not frequency(stem))


def possible_words(terms: Sequence[str], unknown: Collection[str]) -> Iterator[str]:
    """Yield every word that `respelled` may ask for."""
    for word in unknown:
        if _is_compared(word):
            yield from slips(_plain(word))
    for one, other in pairwise(terms):
        if one in unknown or other in unknown:
            yield one + other


def respelled(
    terms: Sequence[str], unknown: Collection[str], frequency: Callable[[str], float]
) -> dict[str, tuple[str, ...]]:
    """The words that are meant by each term that is not meant itself.

    Args:
        terms: The words of a question, in their order.
        unknown: Those of them that occur nowhere.
        frequency: How many records have a stem.
    """
    meant: dict[str, tuple[str, ...]] = {}
    if not unknown:
        return meant
    for one, other in pairwise(terms):
        if (one in unknown or other in unknown) and frequency(stems([one + other])[0]):
            for part in (one, other):
                meant[part] = (one + other,) if part in unknown else (part, one + other)
    for word in terms:
        if word in unknown and word not in meant and _is_compared(word):
            near = slips(_plain(word))
            if not STOP_WORDS.isdisjoint(near):
                meant[word] = ()
            elif best := _best(word, near, frequency):
                meant[word] = (best,)
    return meant


def spelled(terms: Sequence[str], meant: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The terms, with what is meant in place of those that are not meant themselves."""
    if not meant:
        return tuple(terms)
    return tuple(dict.fromkeys(word for term in terms for word in meant.get(term, (term,))))


def _is_compared(word: str) -> bool:
    return len(word) >= MIN_LETTERS and word.isalpha()


def _plain(word: str) -> str:
    """The word without accents, as in its stem."""
    if word.isascii():
        return word
    letters = unicodedata.normalize("NFD", word)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _best(word: str, near: dict[str, float], frequency: Callable[[str], float]) -> str | None:
    """The likeliest of the words that some record has."""
    shortest = MIN_STEM_SHARE * len(word)
    best, most = None, 0.0
    for (other, likelihood), stem in zip(near.items(), stems(near), strict=True):
        if len(stem) >= shortest and (having := frequency(stem)):
            likely = likelihood * math.log1p(having)
            if likely > most:
                best, most = other, likely
    return best
