"""What `get_messages` handed out last, to be handed out again while it is still true."""

from collections.abc import Callable
from copy import deepcopy

import msgspec

from local.conversation.message import Message
from local.conversation.parts import Dict


class CacheStats(msgspec.Struct, frozen=True, kw_only=True):
    """How often the cache served, and the sizes of what it was made from."""

    valid: bool
    hits: int
    misses: int
    cached_messages: int
    context_messages: int
    raw_messages: int
    tokens: int
    """Of the context."""
    handed_out_tokens: int
    """Of what `get_messages` hands out."""
    compaction_due: bool


class Cache:
    def __init__(self) -> None:
        self.hits = self.misses = 0
        self._messages: list[Dict] | None = None

    def __len__(self) -> int:
        return len(self._messages or ())

    @property
    def valid(self) -> bool:
        return self._messages is not None

    def get(self, make: Callable[[], list[Dict]]) -> list[Dict]:
        """Dicts of the caller's own; `make` is called where nothing valid is there."""
        if self._messages is None:
            self.misses += 1
            self._messages = make()
        else:
            self.hits += 1
        return [_copy(message) for message in self._messages]

    def follow(self, message: Message) -> None:
        """Append to what is there, if anything is."""
        if self._messages is not None:
            self._messages.append(message.to_llm_dict())

    def invalidate(self) -> None:
        self._messages = None


def _copy(message: Dict) -> Dict:
    """Texts need none, and most of a conversation is text."""
    return {
        name: value if isinstance(value, str) else deepcopy(value)
        for name, value in message.items()
    }
