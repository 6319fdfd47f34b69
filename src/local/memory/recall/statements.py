"""Statements: whether two sentences state different values of the same thing.

They are compared by their form alone. They begin with the same frame, a subject and a predicate,
and differ in the value behind it; or one denies what the other states. What can have several values
at once, such as what somebody likes, has or did, has no frame: a further value replaces no other.
"""

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import islice, product
from typing import NamedTuple

from local.text.features import asks, reworded
from local.text.words import is_informative

MOST = 12
"""Sentences that are read of a text."""
HELD = 2_000
"""Texts whose sentences stay in memory: the same ones are found again and again."""
LONGEST, SHORTEST = 40, 3
"""Words of a sentence."""
LEAD_IN = 6
"""Words before the first comma; the sentence is also read without them: "As you know, …"."""
VALUE = 5
"""Words of a value."""
SHARED = 3
"""Words that two values may have in common at the beginning: "5 June", "5 July"."""
LEAST_INFORMATIVE = 2
"""Informative words that a denied sentence needs."""

_ABBREVIATED = ("Dr", "Mr", "Ms", "St", "Co", "Jr", "Sr", "No", "Mrs", "Inc", "Ltd", "[A-Z]")
_BREAK = re.compile(
    "(?<=[.!?…;])" + "".join(rf"(?<!\b{each}\.)" for each in _ABBREVIATED) + r"\s+|\n+"
)
_COLON = re.compile(r":\s+")
_WORD = re.compile(r"[^\W_]+(?:[.,:@/'\u2019-]+[^\W_]+)*")
"""Amounts, times, addresses and names with a hyphen are one word."""
_POSSESSIVE = frozenset({"'s", "\u2019s"})


def _any_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_BE = dict.fromkeys(("am", "is", "are"), "be") | dict.fromkeys(("was", "were"), "was")
_TO_USER = {"you": "i", "your": "my"}
_DENIES = frozenset({"not", "never"})
_ADDS = frozenset({"also", "too", "another", "additionally", "both", "besides"})
_UNSAID = _DENIES | _any_of(
    """
    actually currently now nowadays today really just still already always so well ok okay
    do does did have has had been please and but oh hi hey yes yeah
    """
)
_ANYBODY = _any_of(
    """
    he she it they this that these those there you what which who here let
    """
)
"""The subject of a sentence that begins with one of them is not known."""
_ARTICLES = frozenset({"a", "an"})
_CHOSEN = _any_of(
    """
    favorite favourite preferred usual default main current
    """
)
_BEFORE_VALUE = _any_of(
    """
    in at by to on of for from with as near under until till about around
    """
)
_STATE_VERBS = _any_of(
    """
    live reside work stay study weigh cost earn speak play belong stand lie start begin end
    close open leave arrive expire run use prefer last report teach lead manage meet amount
    total sleep wake
    """
)
_STATES = _STATE_VERBS | {f"{verb}s" for verb in _STATE_VERBS} | {"goes", "studies"}
"""Verbs of what is so, one way at a time."""
_ALIKE = _BE | {f"{verb}s": verb for verb in _STATE_VERBS} | {"goes": "go", "studies": "study"}
"""Equal forms for the comparison: "I live" is the same as "the user lives"."""
_HOLD_MANY = _any_of(
    """
    like likes liked love loves loved enjoy enjoys hate hates dislike want wants visit
    visited saw see read bought know knows met allergic interested afraid fond good bad
    excited worried proud happy sorry sure glad aware grateful thankful inspired tired bored
    ready able amazed surprised obsessed passionate concerned involved fan member friend
    kind part lot nervous scared keen full open curious thrilled busy called named titled
    """
)
"""What may be true of several things at once, or of several of a kind."""


class Statement(NamedTuple):
    """A sentence in the form for comparison: without words that add nothing.

    `frames`: what else begins with one of these speaks of the same. `denied`: the number of the
    word that stands behind "not".
    """

    words: tuple[str, ...]
    frames: tuple[tuple[str, ...], ...]
    denied: int | None


class Sentence:
    """A sentence that may state something; its statement is read when it is needed.

    `opening`: its words up to the one behind the first informative one. Sentences about the same
    begin the same, so no others need be read.
    """

    def __init__(self, opening: tuple[str, ...], text: str, *, to_user: bool) -> None:
        self.opening = opening
        self._text = text
        self._to_user = to_user

    @cached_property
    def statement(self) -> Statement | None:
        return _statement(self._text, to_user=self._to_user)


@lru_cache(maxsize=HELD)
def sentences_of(text: str, *, to_user: bool = False) -> tuple[Sentence, ...]:
    """Return the first sentences of a text, without those whose subject is not known.

    `to_user`: it addresses the user as "you".
    """
    opened = ((_opening(each, to_user=to_user), each) for each in _sentences(reworded(text)))
    sentences = (Sentence(*each, to_user=to_user) for each in opened if each[0])
    return tuple(islice(sentences, MOST))


def forget_texts() -> None:
    """Clear the texts in memory, after some were erased."""
    sentences_of.cache_clear()


def _sentences(text: str) -> Iterator[str]:
    """Yield each sentence, and the sentence without its lead-in."""
    for sentence in _BREAK.split(text):
        yield sentence
        rest = _COLON.split(sentence, 1)[-1] if ":" in sentence else sentence
        if rest != sentence:
            yield rest
        before, comma, behind = rest.partition(", ")
        if comma and before.count(" ") < LEAD_IN:
            yield behind


def _opening(sentence: str, *, to_user: bool) -> tuple[str, ...]:
    opening: list[str] = []
    was_informative = False
    for found in _WORD.finditer(sentence):
        word = _bare(found[0])
        if word in _UNSAID:
            continue
        if not opening and word in _ANYBODY:
            return ()
        word = _TO_USER.get(word, word) if to_user else word
        opening.append(_ALIKE.get(word, word))
        if was_informative:
            return tuple(opening)
        was_informative = is_informative(word)
    return ()


def _statement(sentence: str, *, to_user: bool) -> Statement | None:
    """Return a sentence's statement, unless it asks, or adds one of several things."""
    words: list[str] = []
    named: list[bool] = []
    denied = None
    for written in _WORD.findall(sentence):
        word = _bare(written)
        if word in _ADDS:
            return None
        if word not in _UNSAID:
            words.append(_TO_USER.get(word, word) if to_user else word)
            named.append(_is_named(written, first=len(words) == 1))
        elif word in _DENIES and denied is None:
            denied = len(words)
    if not SHORTEST <= len(words) <= LONGEST or asks(sentence):
        return None
    compared = tuple(_ALIKE.get(word, word) for word in words)
    values = () if denied is not None else _values(words, named)
    return Statement(compared, tuple(compared[:n] for n in values), denied)


def _bare(written: str) -> str:
    word = written.lower()
    return word[:-2] if word[-2:] in _POSSESSIVE else word


def _is_named(word: str, *, first: bool) -> bool:
    """Return whether it is written like a name, an amount or an address."""
    if word.islower() or word == "I":
        return "@" in word or any(map(str.isdigit, word))
    return not first or not word.istitle()


def _values(words: list[str], named: list[bool]) -> Iterator[int]:
    """Yield where values begin: behind "is", or behind a preposition of the predicate."""
    verb = None
    lasts = described = False
    for n in range(1, len(words)):
        before = words[n - 1]
        if before in _BE:
            verb, described = n - 1, not _CHOSEN.isdisjoint(words[:n])
            found = _is_described(words, named, n)
        elif before in _BEFORE_VALUE:
            the_of = before == "of" and _is_the_of(words, n)
            found = the_of or (lasts if verb is None else _is_so(words[verb + 1 : n]))
        else:
            lasts = lasts or (n > 1 and before in _STATES)
            continue
        if not found or not any(map(is_informative, words[: n - 1])):
            continue
        if not _HOLD_MANY.isdisjoint(words[1 if verb is None else verb + 1 : n + 1]):
            return
        short = len(words) - n <= VALUE and (described or before == "of" or any(named[:n]))
        if short or any(named[n : n + VALUE]):
            yield n


def _is_the_of(words: list[str], n: int) -> bool:
    """Return whether one thing of a kind was named: "plays the position of", "in the city of"."""
    if n <= SHORTEST or words[n - 3] != "the":
        return False
    verb = words[n - 4]
    return verb in _BEFORE_VALUE or verb.endswith(("s", "ed"))


def _is_so(predicate: list[str]) -> bool:
    """Return whether it is more than where or when, and nothing in progress."""
    return len(predicate) > 1 and not predicate[0].endswith("ing")


def _is_described(words: list[str], named: list[bool], n: int) -> bool:
    """Return whether "is" stands between what is described and a name for it."""
    if words[n - 1] in {"was", "were"} or words[n] in _ARTICLES or words[n].endswith("ing"):
        return False
    return named[n] or _BEFORE_VALUE.isdisjoint(words[n:])


def is_of_same(one: Statement, other: Statement) -> bool:
    """Return whether both may be about the same: in one frame, or one denies something."""
    if (one.denied is None) != (other.denied is None):
        return True
    return any(frame in other.frames for frame in one.frames)


def is_same(one: Statement, other: Statement) -> bool:
    """Return whether both state the same in the same words."""
    return one.words == other.words and (one.denied is None) == (other.denied is None)


def is_variant(one: Statement, other: Statement) -> bool:
    """Return whether both state different values of the same, or one denies the other."""
    same = _common(one.words, other.words)
    shorter = min(len(one.words), len(other.words))
    if (one.denied is None) != (other.denied is None):
        denied = one.denied if other.denied is None else other.denied
        about = sum(map(is_informative, one.words[:same])) >= LEAST_INFORMATIVE
        return same == shorter and denied is not None and denied < same and about
    tail = _common(one.words[same:][::-1], other.words[same:][::-1])
    if same + tail >= shorter or "be" in one.words[same:] or "be" in other.words[same:]:
        return False  # one repeats the other in more words, or is about something else
    return any(same - SHARED <= len(frame) and frame in other.frames for frame in one.frames)


def differ_in_value(text: str, other: str, *, to_user: bool = False) -> bool:
    """Return whether both texts state different values of the same; `to_user`: of the other."""
    return any(
        one.opening == another.opening
        and one.statement is not None
        and another.statement is not None
        and is_of_same(one.statement, another.statement)
        and is_variant(one.statement, another.statement)
        for one, another in product(sentences_of(text), sentences_of(other, to_user=to_user))
    )


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return how many are the same from the beginning."""
    for n, (word, another) in enumerate(zip(one, other, strict=False)):
        if word != another:
            return n
    return min(len(one), len(other))
