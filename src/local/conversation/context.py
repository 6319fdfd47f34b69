"""What a model is given of a conversation: the messages with their tokens, and the dicts of them.

Both are brought up to date message by message. Counting and converting a whole history for every
prompt would make each turn slower than the one before.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy

import msgspec

from local.conversation.message import Message
from local.conversation.tokens import TokenCounter
from local.protocol.payloads import Json


class Context:
    """Messages in their order, with the sum of their tokens.

    Adding, changing and removing a message takes the same time at any length.
    """

    def __init__(self, count: TokenCounter) -> None:
        self.tokens = 0
        self._count = count
        self._messages: dict[str, Message] = {}
        self._tokens: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def messages(self) -> list[Message]:
        return list(self._messages.values())

    def count(self, message: Message) -> int:
        """The tokens of a message; those of a message in the context are known."""
        key = message.message_id
        return self._tokens[key] if self._messages.get(key) is message else self._count(message)

    def append(self, message: Message, tokens: int | None = None) -> None:
        """Append a message, and count its tokens if they are not given."""
        key = message.message_id
        if tokens is None:
            tokens = self._count(message)
        self._messages[key] = message
        self._tokens[key] = tokens
        self.tokens += tokens

    def replace(self, message_id: str, message: Message) -> None:
        """Replace a message, unless it is not here because it was summarised."""
        if message_id not in self._messages:
            return
        if message_id == message.message_id:
            self.tokens -= self._tokens[message_id]
            self.append(message)
        else:
            self.replace_all(
                message if each.message_id == message_id else each for each in self.messages
            )

    def remove(self, message_id: str) -> None:
        """Remove a message, unless it is not here because it was summarised."""
        if self._messages.pop(message_id, None) is not None:
            self.tokens -= self._tokens.pop(message_id)

    def replace_all(self, messages: Iterable[Message]) -> None:
        self.tokens, self._messages, self._tokens = 0, {}, {}
        for message in messages:
            self.append(message)

    def recount(self) -> None:
        """Count all tokens again, because the counter may have learned since."""
        self.replace_all(self.messages)


class CacheStats(msgspec.Struct, frozen=True, kw_only=True):
    """How often the cache was used, and how large its sources are."""

    valid: bool
    hits: int
    misses: int
    cached_messages: int
    context_messages: int
    raw_messages: int
    tokens: int
    """Of the context."""
    handed_out_tokens: int
    """Of what `get_messages` returns."""
    compaction_due: bool


class Cache:
    """The dicts that `get_messages` returned last, for as long as they are still true."""

    def __init__(self) -> None:
        self.hits = self.misses = 0
        self._messages: list[Json] | None = None

    def __len__(self) -> int:
        return len(self._messages or ())

    @property
    def valid(self) -> bool:
        return self._messages is not None

    def get(self, make: Callable[[], list[Json]]) -> list[Json]:
        """Return dicts of the caller's own; `make` is called if there are none, or old ones."""
        if self._messages is None:
            self.misses += 1
            self._messages = make()
        else:
            self.hits += 1
        return [_copy(message) for message in self._messages]

    def append(self, message: Message) -> None:
        """Append a message to the dicts, if there are any."""
        if self._messages is not None:
            self._messages.append(message.to_llm_dict())

    def invalidate(self) -> None:
        self._messages = None


def _copy(message: Json) -> Json:
    """A deep copy that skips texts: most of a conversation is text, which cannot change."""
    return {
        name: value if isinstance(value, str) else deepcopy(value)
        for name, value in message.items()
    }
