"""The texts of messages as the rules of `latest.py` compare them.

Searches find the same messages again and again, so analysed texts are cached, until some are
erased.
"""

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache
from itertools import product

from local.memory.recall.announcements import (
    AnalysedSentence,
    analyse,
    announces,
    corrects,
    stems_of,
)
from local.memory.recall.statements import CACHED_TEXTS, sentences_of
from local.text.features import HEAD, asks, sentences
from local.text.words import stems, words

SIMILAR = 0.4
"""Minimum similarity of two messages about the same thing: the Dice coefficient of their stems."""
_ONESELF = frozenset({"i", "my", "me", "mine", "myself"})
_OPENS_CORRECTION = re.compile(
    r"(?:(?:oh|no|wait|sorry|oops|ah|actually|my (?:bad|mistake))\b[\s,.!\u2013\u2014-]*){0,3}"
    r"(?:i meant|correction\b|scratch that|make (?:that|it)\b)",
    re.IGNORECASE,
)
"""Opens a correction of the message before. "It's", which opens a corrected value in extraction, is
left out: nothing shows that a value follows, unless it names the former one ("It's 43, not 42")."""


class MessageText:
    """A text whose parts are analysed when a rule first needs them."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def sentences(self) -> tuple[AnalysedSentence, ...]:
        return analyse(self._text[:HEAD])

    @cached_property
    def may_announce(self) -> bool:
        return any(sentence.may_announce for sentence in self.sentences)

    @cached_property
    def stems(self) -> frozenset[str]:
        return stems_of(self._text)

    @cached_property
    def of_oneself(self) -> bool:
        return not _ONESELF.isdisjoint(words(self._text))

    @cached_property
    def things(self) -> list[frozenset[str]]:
        """The things whose values the text states, by form."""
        return [
            stems_of(" ".join(shortest))
            for sentence in sentences_of(self._text)
            if (statement := sentence.statement)
            and (shortest := min(statement.frames, key=len, default=()))
        ]

    @cached_property
    def states(self) -> bool:
        """Whether no sentence asks."""
        return not self._questions

    @cached_property
    def answers(self) -> bool:
        """Whether some sentence does not ask."""
        return len(self._questions) < len(sentences(self._text))

    @cached_property
    def _questions(self) -> list[str]:
        return [sentence for sentence in sentences(self._text) if asks(sentence)]

    @cached_property
    def _question_stems(self) -> frozenset[str]:
        return _stems(self._questions)

    @cached_property
    def _statement_stems(self) -> frozenset[str]:
        return _stems(one for one in sentences(self._text) if one not in self._questions)

    def only_asks(self, asked: AbstractSet[str]) -> bool:
        """Return whether these stems occur in its questions and in no statement."""
        return not asked.isdisjoint(self._question_stems) and asked.isdisjoint(
            self._statement_stems
        )

    def corrects(self, earlier: "MessageText") -> bool:
        opens = _OPENS_CORRECTION.match(self._text) is not None
        return opens or corrects(self.sentences, earlier.sentences)

    def announces(
        self, earlier: "MessageText", asked: AbstractSet[str], *, same_speaker: bool
    ) -> bool:
        """Return whether this announces a change; nobody else changes what a speaker owns."""
        may_change = same_speaker or not (self.of_oneself or earlier.of_oneself)
        return may_change and announces(self.sentences, earlier.sentences, asked)

    def is_like(self, earlier: "MessageText") -> bool:
        """Return whether this states something about the same thing in much the same words."""
        common, all_stems = self.stems & earlier.stems, len(self.stems) + len(earlier.stems)
        if 2 * len(common) < SIMILAR * max(all_stems, 1):
            return False
        return self.states and not _are_of_others(self.things, earlier.things)


def _stems(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(stems(words(" ".join(texts))))


@lru_cache(maxsize=CACHED_TEXTS)
def message_text(text: str) -> MessageText:
    return MessageText(text)


def forget_texts() -> None:
    """Clear the cached texts, after some were erased."""
    sentences_of.cache_clear()
    message_text.cache_clear()


def _are_of_others(things: Sequence[frozenset[str]], others: Sequence[frozenset[str]]) -> bool:
    """Return whether both texts state a value, each of a thing that the other does not name."""
    pairs = product(things, others)
    return bool(things and others) and all(one - other and other - one for one, other in pairs)
