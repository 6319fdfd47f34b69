"""Define what an extractor reads and returns, and its protocol."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from local2.keys import fold_topic, is_topic
from local2.language.words import words
from local2.protocol.memories import Durability, MemoryType

USER = "user"
ASSISTANT = "assistant"
MAX_KEYWORDS = 8
"""Maximum number of an item's keywords."""


class Utterance(Struct, frozen=True, kw_only=True):
    """A message as an extractor, maybe a model, reads it. `speaker`: the speaker's name, if known.

    For a model, its fields are part of the prompt.
    """

    id: str
    role: str
    content: str
    at: datetime
    speaker: str | None = None


class Passage(Struct, frozen=True, kw_only=True):
    """Messages of one conversation, in order.

    `context`: earlier messages, which show what these refer to. Nothing is extracted from them.
    """

    messages: Sequence[Utterance]
    context: Sequence[Utterance] = ()


class Item(Struct, frozen=True, kw_only=True):
    """Something to remember.

    `content`: a sentence that is understood on its own. `topic`: the key if there can be only one
    value, None if there can be several. `queries`: questions that the item answers. `sources`: the
    ids of the messages that state it. `corrects`: the content of an item that was a mistake.
    """

    memory_type: MemoryType
    content: str
    summary: str
    topic: str | None = None
    keywords: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    confidence: float = 1.0
    importance: float = 0.5
    durability: Durability = "standard"
    sources: tuple[str, ...]
    corrects: str | None = None


class Extractor(Protocol):
    async def extract(self, passage: Passage) -> list[Item]:
        """The items worth remembering, in the order of the messages."""
        ...


def topic_of_speaker(topic: str, speaker: str | None) -> str | None:
    """A topic key for this speaker, or None if it would be invalid.

    In a conversation between people, each has keys of their own and does not retire the others'.
    """
    scope, _, rest = topic.partition(".")
    if speaker is not None and fold_topic(scope) == USER:  # a model may write "User.Home"
        topic = f"{USER}.{'_'.join(words(speaker))}.{rest}"
    return topic if is_topic(topic) else None
