"""What a question asks for: its words, phrases, topic keys, and the time it speaks of."""

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from local.memory.recall.keywords import terms
from local.memory.recall.timewords import Window, find_window
from local.memory.records import is_topic

MAX_PHRASES = 8

_QUOTED = re.compile(r"[\"“”«»]([^\"“”«»]{3,80})[\"“”«»]")
_IDENTIFIER = re.compile(r"\w+(?:[./:@#-]\w+)+")
_DOTTED = re.compile(r"[a-z]+(?:\.[a-z0-9_]+)+")
_WORD = re.compile(r"\w+")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A question as the channels take it.

    `phrases` are quoted words and identifiers such as `foo-bar.py`; they count beside their words.
    """

    text: str
    terms: tuple[str, ...]
    phrases: tuple[str, ...]
    topics: tuple[str, ...]
    window: Window | None

    def expanded(self, keywords: Sequence[str], topics: Sequence[str]) -> "Query":
        """With what a model adds."""
        words = [word for keyword in keywords for word in terms(keyword)]
        return msgspec.structs.replace(
            self,
            terms=tuple(dict.fromkeys((*self.terms, *words))),
            topics=tuple(dict.fromkeys((*self.topics, *topics))),
        )


def analyse(text: str, now: datetime) -> Query:
    """Analyse a question without a model."""
    quoted = [" ".join(_WORD.findall(phrase)) for phrase in _QUOTED.findall(text)]
    identifiers = [" ".join(_WORD.findall(word)) for word in _IDENTIFIER.findall(text)]
    phrases = dict.fromkeys(phrase for phrase in (*quoted, *identifiers) if " " in phrase)
    topics = dict.fromkeys(key for key in _DOTTED.findall(text) if is_topic(key))
    return Query(
        text=text,
        terms=tuple(terms(text)),
        phrases=tuple(phrases)[:MAX_PHRASES],
        topics=tuple(topics),
        window=find_window(text, now),
    )
