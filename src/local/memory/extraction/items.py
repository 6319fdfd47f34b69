"""What is worth remembering of a conversation, and the protocol of what finds it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from local.protocol.memories import Durability, MemoryType
from local.text.names import is_topic
from local.text.words import words

USER = "user"
ASSISTANT = "assistant"


class Utterance(Struct, frozen=True, kw_only=True):
    """A message for an extractor; `speaker` is a name, where there is one."""

    id: str
    role: str
    content: str
    at: datetime
    speaker: str | None = None


class Passage(Struct, frozen=True, kw_only=True):
    """Messages of one conversation in their order.

    `context` came before them and shows what they refer to; nothing is extracted from it.
    """

    messages: Sequence[Utterance]
    context: Sequence[Utterance] = ()


class Item(Struct, frozen=True, kw_only=True):
    """Something to remember; `content` is a sentence that stands by itself.

    `topic` is the key if there can be only one of it, None if there can be several.
    `queries` are questions that it answers, `sources` the ids of the messages that state it.
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


class Extractor(Protocol):
    async def extract(self, passage: Passage) -> list[Item]:
        """Return what is worth remembering of the messages, in their order.

        Raises:
            ModelError: A model is out of reach; it may answer later.
        """
        ...


def topic_of_speaker(topic: str, speaker: str | None) -> str | None:
    """Return the key for this speaker, None if there can be none.

    People who talk with each other each have keys of their own, and do not retire each other's.
    """
    scope, _, rest = topic.partition(".")
    if speaker is not None and scope == USER:
        topic = f"{USER}.{'_'.join(words(speaker))}.{rest}"
    return topic if is_topic(topic) else None
