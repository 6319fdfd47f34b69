"""What a conversation comes back to: statements whose words its other messages share.

Somebody who works on something with others says much that no form of a sentence shows to be worth
remembering, but what it is about is said again, by them or in an answer. A single sentence without
a conversation around it never counts.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from local.memory.extraction.items import Passage
from local.text.keywords import stems, telling_words

READ = 2_000
"""Characters of each message that are compared."""
TALK = 1_000
"""Characters of a message that somebody says; whoever writes more composes a text."""
SENTENCES = 3
"""So many of them and one in the first person make a message talk, and not a request with details."""
SHARED = 4
"""Informative words of a statement that other messages share."""

_FIRST_PERSON = re.compile(r"\b(?:i|my|me|we|our)\b", re.IGNORECASE)
_UNCLEAR = re.compile(
    r"\b(?:you|your|you're|you've|you'll|yours)\b|^(?:it|it's|this|that|that's|he|she|they)\b"
    r"|\b(?:it|this|these|those)\b(?! [a-z])",
    re.IGNORECASE,
)
"""Words that only the conversation explains."""
_COMPLETE = re.compile(
    r"(?:i|we)\b|.*(?:\b(?:am|is|are|was|were|has|have|had|will|must|needs?|wants?|can|cannot"
    r"|should|gets?|goes|means|takes?|makes?|runs?|uses?)\b|'(?:m|re|ve|ll|s)\b|n't\b)",
    re.IGNORECASE,
)


class Salience:
    """The words of a passage, counted by the messages that have them."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    @cached_property
    def _messages_with(self) -> Counter[str]:
        counts = Counter[str]()
        for message in (*self._passage.context, *self._passage.messages):
            counts.update(set(stems(telling_words(message.content[:READ]))))
        return counts

    def holds(self, statement: str) -> bool:
        """Whether the statement stands by itself, and is about what other messages are about."""
        if _UNCLEAR.search(statement) or not _COMPLETE.match(statement):
            return False
        own = stems(telling_words(statement))
        if len(own) < SHARED:
            return False
        return sum(self._messages_with[stem] > 1 for stem in own) >= SHARED


def is_talk(content: str, sentences: Sequence[str]) -> bool:
    """Whether somebody speaks of their own, rather than asks for something or shows a text."""
    return (
        len(content) <= TALK
        and len(sentences) >= SENTENCES
        and any(map(_FIRST_PERSON.search, sentences))
    )
