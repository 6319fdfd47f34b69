"""Analyse a question: its words, phrases, topic keys and the time that it is about."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import takewhile

import msgspec

from local2.keys import is_topic
from local2.language.little_words import little_words_in
from local2.language.questions import ASKS_WHEN, FIRST_PERSON, PAST, SECOND_PERSON, stating
from local2.language.spelling import spelled
from local2.language.time import Window, find_window
from local2.language.words import MAX_TERMS, composed, is_informative, terms, words
from local2.language.writings import parts_of, wholes_of

MAX_PHRASES = 8
MAX_PHRASE_CHARACTERS = 80
"""Maximum characters of a quoted phrase."""
MAX_READ = 8_192
"""Maximum characters of a question that are read: half from its beginning, half from its end."""

# None of these expressions backtracks over a long word.
_QUOTED = re.compile(r"[\"“”«»]([^\"“”«»]*)[\"“”«»]")
_IDENTIFIER = re.compile(r"\b[^\W_]++(?:(?:_++[./:@#-]?_*+|[./:@#-]_*+)[^\W_]++)+")
_DOTTED = re.compile(r"(?<!\w)(?:user|project|constraint)\.\S+", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A question in the form that the search channels use.

    `asked`: the terms of the question itself, without those that were added (`expanded`).
    `phrases`: quoted words and identifiers such as `foo-bar.py`, matched in addition to their
    words. `optional`: terms that write others in another way, left out where no record has them.
    `stating`: from 0 to 1, how much the query states something. `continues`: the caller says that
    it continues a conversation instead of asking about one. `of_oneself`: the user asks about
    himself or herself, and does not address the assistant. `about_past`: its verb is in the past,
    in English.
    """

    text: str
    terms: tuple[str, ...]
    asked: tuple[str, ...]
    optional: frozenset[str] = frozenset()
    phrases: tuple[str, ...]
    topics: tuple[str, ...]
    window: Window | None
    asks_when: bool = False
    stating: float = 0.0
    continues: bool = False
    of_oneself: bool = False
    about_past: bool = False

    def expanded(self, keywords: Sequence[str], topics: Sequence[str] = ()) -> "Query":
        """The query with further keywords and topic keys."""
        words = [word for keyword in keywords for word in terms(keyword)]
        return msgspec.structs.replace(
            self,
            terms=tuple(dict.fromkeys((*self.terms, *words))),
            topics=tuple(dict.fromkeys((*self.topics, *topics))),
        )

    def respelled(self, meant: Mapping[str, tuple[str, ...]]) -> "Query":
        """The query with the words that are meant by some of its own."""
        if not meant:
            return self
        return msgspec.structs.replace(
            self, terms=spelled(self.terms, meant), asked=spelled(self.asked, meant)
        )


def analyse(text: str, now: datetime, *, multilingual: bool = False) -> Query:
    """Analyse a question without a model.

    `multilingual`: the meaning of texts in any language is known, so the little words of all are
    left out. Otherwise they help: who says "bin" speaks of himself or herself.
    """
    if len(text) > MAX_READ:
        text = f"{text[: MAX_READ // 2]}\n{text[-MAX_READ // 2 :]}"
    whole = composed(text)
    quoted = [phrase for phrase in _QUOTED.findall(whole) if len(phrase) <= MAX_PHRASE_CHARACTERS]
    sequences = [" ".join(_WORD.findall(part)) for part in (*quoted, *_IDENTIFIER.findall(whole))]
    phrases = dict.fromkeys(sequence for sequence in sequences if " " in sequence)
    found = (  # a key may have combining marks, which \w does not match
        "".join(takewhile(lambda c: c in ".-" or f"_{c}".isidentifier(), start))
        for start in _DOTTED.findall(text)
    )
    dotted = (key.rstrip(".-") for key in found)
    topics = dict.fromkeys(key for key in dotted if is_topic(key))
    spoken = frozenset(words(text))
    little = little_words_in(spoken) if multilingual else ()
    asked = tuple(term for term in terms(text) if term not in little)
    apart, wholes = parts_of(text), wholes_of(text)
    parts = [part for parts in apart.values() for part in parts if is_informative(part)]
    asked = tuple(dict.fromkeys((*asked, *parts, *wholes)))[:MAX_TERMS]
    return Query(
        text=text,
        terms=asked,
        asked=asked,
        optional=frozenset((*apart, *wholes)),
        phrases=tuple(phrases)[:MAX_PHRASES],
        topics=tuple(topics),
        window=find_window(text, now),
        asks_when=ASKS_WHEN.search(text) is not None,
        stating=stating(text),
        of_oneself=not spoken.isdisjoint(FIRST_PERSON) and spoken.isdisjoint(SECOND_PERSON),
        about_past=not spoken.isdisjoint(PAST),
    )
