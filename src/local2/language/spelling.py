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
from itertools import islice, pairwise, product
from string import ascii_lowercase

from local2.language.forms import stems_of
from local2.language.words import STOP_WORDS, stems, stems_of_guesses

Frequency = Callable[[str], float]
"""How many records have a stem."""

MAX_UNKNOWN = 8
"""Maximum number of words of a question that are compared."""
MIN_LETTERS, MAX_LETTERS = 4, 64
"""Letters of a word that is compared: a shorter one is near to too many, and a longer one is no
word. Comparing one of 4,000 letters would take seconds."""
MIN_DOUBLED, MIN_BESIDE, MIN_VOWELS_EXCHANGED = 5, 6, 7
"""Minimum letters of a word in which one may be written twice or once in place of twice, stand for
one beside it on the keyboard, and a vowel for another one, as in "definately". In shorter words
that makes another word: "feed" and "fed", "cost" and "coat", "list" and "last"."""
MIN_STEM_SHARE = 0.5
"""Minimum length of the stem of what is meant, as a share of the word's own length."""
EXCHANGED, DOUBLED, SINGLE, MISSED, BESIDE = 1.0, 1.0, 1.0, 0.8, 0.6
"""How likely it is that two letters are exchanged, that one is written twice or once in place of
twice, left out, or replaced by a key beside it. Other letters are not added by mistake as often as
they make another word: "driver", "drive"."""

MIN_PART = 3
"""Minimum letters of each of two words that were run together."""

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
    cuts = [(word[:at], word[at : at + 1], word[at + 1 :]) for at in range(1, len(word) + 1)]
    for before, letter, after in cuts:  # the likelier slips come first
        last = before[-1]
        if after:
            found.setdefault(before + after[0] + letter + after[1:], EXCHANGED)
        if len(word) < MIN_DOUBLED:
            continue
        if letter == last or (letter == "e" and last in "aou"):  # Muenchen
            found.setdefault(before + after, DOUBLED)
        found.setdefault(before + last + letter + after, SINGLE)
    vowels = _VOWELS if len(word) >= MIN_VOWELS_EXCHANGED else ""
    for before, letter, after in cuts:
        for other in ascii_lowercase:
            found.setdefault(before + other + letter + after, MISSED)
        beside = _BESIDE.get(letter, "") if len(word) >= MIN_BESIDE else ""
        for other in beside + (vowels if letter and letter in vowels else ""):
            found.setdefault(before + other + after, BESIDE)
    found.pop(word, None)
    return found


def meant_by(
    terms: Sequence[str], frequency: Frequency, optional: Collection[str] = ()
) -> dict[str, tuple[str, ...]]:
    """The words that are meant by each term that is not meant itself; `frequency` knows all.

    What is `optional` only writes other terms in another way: nothing is meant by it.
    """
    unknown = unknown_words(terms, frequency)
    meant: dict[str, tuple[str, ...]] = {word: () for word in unknown if word in optional}
    unknown -= meant.keys()
    if unknown:
        meant |= respelled(terms, unknown, frequency)
    return meant | taken_apart(unknown - meant.keys(), frequency)


def unknown_words(terms: Sequence[str], frequency: Frequency) -> frozenset[str]:
    """The terms that occur nowhere, at most MAX_UNKNOWN of them."""
    unknown = (word for word in terms if not any(map(frequency, stems_of(word))))
    return frozenset(islice(unknown, MAX_UNKNOWN))


def possible_words(terms: Sequence[str], unknown: Collection[str]) -> set[str]:
    """Every word that `respelled` may ask for."""
    possible = {one + other for one, other in _neighbours(terms, unknown)}
    return possible.union(*(slips(_plain(word)) for word in unknown if _is_compared(word)))


def respelled(
    terms: Sequence[str], unknown: Collection[str], frequency: Frequency
) -> dict[str, tuple[str, ...]]:
    """The words that are meant by unknown terms that were mistyped, or written as two words."""
    meant: dict[str, tuple[str, ...]] = {}
    for one, other in _neighbours(terms, unknown):
        if frequency(stems([one + other])[0]):
            for part in (one, other):
                meant[part] = (one + other,) if part in unknown else (part, one + other)
    for word in terms:
        if word in unknown and word not in meant and _is_compared(word):
            near = slips(_plain(word))
            if not STOP_WORDS.isdisjoint(near):
                meant[word] = ()
            elif best := _likeliest(word, near, frequency):
                meant[word] = (best,)
    return meant


def possible_parts(unknown: Collection[str]) -> set[str]:
    """Every word that `taken_apart` may ask for."""
    return {part for word in unknown for parts in _pairs(word) for part in _informative(parts)}


def taken_apart(unknown: Collection[str], frequency: Frequency) -> dict[str, tuple[str, ...]]:
    """The informative words that are meant by unknown words that are two, run together."""
    meant: dict[str, tuple[str, ...]] = {}
    for word in unknown:
        most = 0.0
        for informative in map(_informative, _pairs(word)):
            having = min(map(frequency, stems(informative)), default=0.0)
            if having > most:
                meant[word], most = informative, having
    return meant


def spelled(terms: Sequence[str], meant: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The terms, with what is meant in place of those that are not meant themselves."""
    if not meant:
        return tuple(terms)
    return tuple(dict.fromkeys(word for term in terms for word in meant.get(term, (term,))))


def _is_compared(word: str) -> bool:
    return MIN_LETTERS <= len(word) <= MAX_LETTERS and word.isalpha()


def _plain(word: str) -> str:
    """The word without accents, as in its stem."""
    if word.isascii():
        return word
    letters = unicodedata.normalize("NFD", word)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _neighbours(terms: Sequence[str], unknown: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the terms that may be one word, since at least one of them is none by itself."""
    for one, other in pairwise(terms):
        if (one in unknown or other in unknown) and _is_compared(one + other):
            yield one, other


def _pairs(word: str) -> list[tuple[str, str]]:
    if not _is_compared(word):
        return []
    return [(word[:at], word[at:]) for at in range(MIN_PART, len(word) - MIN_PART + 1)]


def _informative(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in STOP_WORDS)


def _likeliest(word: str, near: Mapping[str, float], frequency: Frequency) -> str | None:
    """The likeliest of the words that some record has.

    Letters that are missing or wrong in an ending only make another form of the same word, or
    another word: "driver" is not "drive".
    """
    shortest = MIN_STEM_SHARE * len(word)
    best, most = None, 0.0
    for (other, likelihood), stem in zip(near.items(), stems_of_guesses(near), strict=True):
        is_form = likelihood < SINGLE and word.startswith(stem)
        if not is_form and len(stem) >= shortest and (having := frequency(stem)):
            likely = likelihood * math.log1p(having)
            if likely > most:
                best, most = other, likely
    return best
