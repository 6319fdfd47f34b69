"""Statements: whether two sentences say another value of one and the same thing.

By their form alone. They begin with the same frame, a subject and what is said of it, and differ in
the value behind it; or one denies what the other states. What holds several values at once, as what
somebody likes, has or did, has no frame: one more takes no other's place.
"""

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import islice, product
from typing import NamedTuple

from local.text.features import asks, reworded
from local.text.words import is_telling

MOST = 12
"""Sentences that are looked at in a text."""
HELD = 2_000
"""Texts whose sentences stay in memory: the same ones are found again and again."""
LONGEST, SHORTEST = 40, 3
"""Words of one."""
LEAD_IN = 6
"""Words before the first comma, without which a sentence is read as well: "As you know, …"."""
VALUE = 5
"""Words of a value."""
SHARED = 3
"""So many of them two values may begin with: "5 June", "5 July"."""
TELLING = 2
"""Words that show what a sentence is about that is denied."""

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
"""Who or what a sentence with one of them first speaks of is not known."""
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
    total sleep
    """
)
_STATES = _STATE_VERBS | {f"{verb}s" for verb in _STATE_VERBS} | {"goes", "studies"}
"""Verbs of what is so, one way at a time."""
_ALIKE = _BE | {f"{verb}s": verb for verb in _STATE_VERBS} | {"goes": "go", "studies": "study"}
"""What is compared as another form of itself: "I live" is what "the user lives" says."""
_HOLD_MANY = _any_of(
    """
    like likes liked love loves loved enjoy enjoys hate hates dislike want wants visit
    visited saw see read bought know knows met allergic interested afraid fond good bad
    excited worried proud happy sorry sure glad aware grateful thankful inspired tired bored
    ready able amazed surprised obsessed passionate concerned involved fan member friend
    kind part lot nervous scared keen full open curious thrilled busy called named titled
    """
)
"""What is said of several things at once, or of several of a kind."""


class Statement(NamedTuple):
    """A sentence as it is compared: its words, but for those that say nothing of the matter.

    `frames`: what else begins with one of these speaks of the same. `denied`: the number of the
    word that stands behind "not".
    """

    words: tuple[str, ...]
    frames: tuple[tuple[str, ...], ...]
    denied: int | None


class Sentence:
    """One that may state something; what it states is read when somebody asks.

    `opening`: its words up to the one behind the first that tells. What speaks of the same begins
    the same, so nothing else need be read.
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
    """The first sentences of a text, but for those that are of nobody knows what.

    `to_user`: it is addressed to whom it speaks of as "you".
    """
    opened = ((_opening(each, to_user=to_user), each) for each in _sentences(reworded(text)))
    told = (Sentence(*each, to_user=to_user) for each in opened if each[0])
    return tuple(islice(told, MOST))


def forget_texts() -> None:
    """Hold no text in memory any more; after some were erased."""
    sentences_of.cache_clear()


def _sentences(text: str) -> Iterator[str]:
    """Each sentence, and it without what leads to it."""
    for sentence in _BREAK.split(text):
        yield sentence
        told = _COLON.split(sentence, 1)[-1] if ":" in sentence else sentence
        if told != sentence:
            yield told
        before, comma, behind = told.partition(", ")
        if comma and before.count(" ") < LEAD_IN:
            yield behind


def _opening(sentence: str, *, to_user: bool) -> tuple[str, ...]:
    opening: list[str] = []
    tells = False
    for found in _WORD.finditer(sentence):
        word = _bare(found[0])
        if word in _UNSAID:
            continue
        if not opening and word in _ANYBODY:
            return ()
        word = _TO_USER.get(word, word) if to_user else word
        opening.append(_ALIKE.get(word, word))
        if tells:
            return tuple(opening)
        tells = is_telling(word)
    return ()


def _statement(sentence: str, *, to_user: bool) -> Statement | None:
    """A sentence, unless it asks, or says one more of several things."""
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
    """Whether it is written like a name, an amount or an address."""
    if word.islower() or word == "I":
        return "@" in word
    return not first or not word.istitle()


def _values(words: list[str], named: list[bool]) -> Iterator[int]:
    """Where values begin: behind "is", or behind a preposition that belongs to what is so."""
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
        if not found or not any(map(is_telling, words[: n - 1])):
            continue
        if not _HOLD_MANY.isdisjoint(words[1 if verb is None else verb + 1 : n + 1]):
            return
        short = len(words) - n <= VALUE and (described or before == "of" or any(named[:n]))
        if short or any(named[n : n + VALUE]):
            yield n


def _is_the_of(words: list[str], n: int) -> bool:
    """Whether one thing of a kind was named: "plays the position of", "in the city of"."""
    if n <= SHORTEST or words[n - 3] != "the":
        return False
    verb = words[n - 4]
    return verb in _BEFORE_VALUE or verb.endswith(("s", "ed"))


def _is_so(told: list[str]) -> bool:
    """Whether it is more than where or when, and nothing that is going on."""
    return len(told) > 1 and not told[0].endswith("ing")


def _is_described(words: list[str], named: list[bool], n: int) -> bool:
    """Whether "is" stands between what is described and a name for it."""
    if words[n - 1] in {"was", "were"} or words[n] in _ARTICLES or words[n].endswith("ing"):
        return False
    return named[n] or _BEFORE_VALUE.isdisjoint(words[n:])


def is_of_same(one: Statement, other: Statement) -> bool:
    """Whether both may speak of the same: in one frame, or one denies something."""
    if (one.denied is None) != (other.denied is None):
        return True
    return any(frame in other.frames for frame in one.frames)


def is_same(one: Statement, other: Statement) -> bool:
    """Whether both say the same in the same words."""
    return one.words == other.words and (one.denied is None) == (other.denied is None)


def is_variant(one: Statement, other: Statement) -> bool:
    """Whether both speak of the same, and say another value of it, or one denies the other."""
    same = _common(one.words, other.words)
    shorter = min(len(one.words), len(other.words))
    if (one.denied is None) != (other.denied is None):
        denied = one.denied if other.denied is None else other.denied
        about = sum(map(is_telling, one.words[:same])) >= TELLING
        return same == shorter and denied is not None and denied < same and about
    tail = _common(one.words[same:][::-1], other.words[same:][::-1])
    if same + tail >= shorter or "be" in one.words[same:] or "be" in other.words[same:]:
        return False  # one says what the other says, in more words; or of something else
    return any(same - SHARED <= len(frame) and frame in other.frames for frame in one.frames)


def say_otherwise(text: str, other: str, *, to_user: bool = False) -> bool:
    """Whether sentences of both say different values of the same; `to_user`: the other's."""
    return any(
        said.opening == another.opening
        and said.statement is not None
        and another.statement is not None
        and is_of_same(said.statement, another.statement)
        and is_variant(said.statement, another.statement)
        for said, another in product(sentences_of(text), sentences_of(other, to_user=to_user))
    )


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """How many are the same from the beginning."""
    for n, (word, another) in enumerate(zip(one, other, strict=False)):
        if word != another:
            return n
    return min(len(one), len(other))
