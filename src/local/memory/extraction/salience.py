"""What a conversation comes back to: statements whose words its other messages share.

Somebody who works on something with others says much that no form of a sentence shows to be worth
remembering, but what it is about is said again, by them or in an answer. A single sentence without
a conversation around it never counts.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from local.memory.extraction.items import ASSISTANT, Passage
from local.text.keywords import stems, telling_words
from local.text.unspaced import RUN

READ = 2_000
"""Characters of each message that are compared."""
TALK = 800
"""Characters of a message that somebody says; whoever writes more composes a text."""
SENTENCES = 3
"""So many of them, and one in the first person, make talk of a message; a request has details."""
SHARED = 3
"""Informative words of a statement that other messages share."""
TOGETHER = 200
"""Characters of what is said together, in one message, about the same."""

_FIRST_PERSON = re.compile(r"\b(?:i|my|me|we|our)\b", re.IGNORECASE)
_UNCLEAR = re.compile(
    r"\b(?:you|your|you're|you've|you'll|yours)\b|^(?:it|it's|this|that|that's|he|she|they)\b"
    r"|\b(?:it|this|these|those)\b(?! [a-z])",
    re.IGNORECASE,
)
"""Words that only the conversation explains."""
_ORDERS = re.compile(
    r"(?:please |then |now |just )*(?:pinpoint|draft|compile|suspend|drop|consider|point|execute"
    r"|integrate|initiate|transform|(?:re-?)?define|break|build|design|pick|choose|set|get|take|move"
    r"|focus|ensure|apply|run|test|log|track|mark|lock|outline|prepare|schedule|book|send|share"
    r"|return|replace|combine|compare|double-check|confirm|verify|identify|illustrate|discuss"
    r"|conduct|analy[sz]e|assume|see|look|populate|deliver|present|format|convert|calculate|expand"
    r"|refine|revise|review|shorten|extend|elaborate|swap|do|have|call|place|map|pull|push|hit"
    r"|bring|cut|order|structure|vary|introduce|implement|reply|respond|answer|read|select"
    r"|feel free|don't|such as|like|including|especially)\b",
    re.IGNORECASE,
)
"""How orders of the moment and mere additions begin."""


class Salience:
    """The words of an assistant's messages in a passage."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    @cached_property
    def _taken_up(self) -> frozenset[str]:
        every = (*self._passage.context, *self._passage.messages)
        texts = [message.content[:READ] for message in every if message.role == ASSISTANT]
        return frozenset(stems(telling_words("\n".join(texts))))

    def holds(self, statement: str) -> bool:
        """Whether the statement stands by itself, and is about what other messages are about.

        Pairs of characters are no words here: a line of a foreign text has many of them.
        """
        if _UNCLEAR.search(statement) or _ORDERS.match(statement):
            return False
        own = [word for word in telling_words(statement) if not RUN.match(word)]
        return len(own) >= SHARED and len(self._taken_up.intersection(stems(own))) >= SHARED


def is_talk(content: str, sentences: Sequence[str]) -> bool:
    """Whether somebody speaks of their own, rather than asks for something or shows a text."""
    return (
        len(content) <= TALK
        and len(sentences) >= SENTENCES
        and any(map(_FIRST_PERSON.search, sentences))
    )


def together(statements: Sequence[str]) -> Iterator[str]:
    """Join what is said one after the other, in texts that are not long."""
    text = ""
    for statement in statements:
        joined = f"{text.rstrip('.! ')}. {statement}" if text else statement
        if text and len(joined) > TOGETHER:
            yield text
            joined = statement
        text = joined
    if text:
        yield text
