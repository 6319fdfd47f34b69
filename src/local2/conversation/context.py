"""The messages that a model sees, with their token counts and a cache of their dicts.

Both are updated message by message: counting and converting a whole history for every prompt would
make each turn slower than the previous one. Any function of a message may count tokens. The default
estimates them, and a model's own count of each prompt corrects the estimate. A tokenizer would be
exact for only one model.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy

import msgspec
import numpy as np

from local2.conversation.message import Message
from local2.conversation.parts import text_and_parts
from local2.protocol.payloads import Json

TokenCounter = Callable[[Message], int]

CHARACTERS_PER_TOKEN = 4
"""Characters per token in English prose and JSON. Each character beyond Latin counts as a token."""
MESSAGE_TOKENS = 4
"""Tokens of a message besides its text: role and separators."""
IMAGE_TOKENS = 800
"""Tokens of an image: the reference's default of `image_token_estimate`."""
LATIN_END = 0x24F
"""The last code point of the Unicode block Latin Extended-B."""
MIN_FACTOR, MAX_FACTOR = 0.25, 4.0
"""Bounds of the correction. Beyond a factor of four, the report is more likely to be wrong than the
estimate, as from a server that leaves its cache out of the count."""
LEARNING_RATE = 0.3
"""Weight of the newest report. A higher weight adapts to a new language faster; a lower one makes
single prompts matter less."""


def estimate(message: Message, image_tokens: int = IMAGE_TOKENS) -> int:
    """Estimate how many tokens a message costs."""
    text, others = text_and_parts(message.content)
    tokens = MESSAGE_TOKENS + estimate_tokens(text) + len(others) * image_tokens
    for call in message.tool_calls or ():
        tokens += MESSAGE_TOKENS + estimate_tokens(call.name) + estimate_tokens(call.arguments)
    for request in message.agent_calls or ():
        tokens += MESSAGE_TOKENS + estimate_tokens(f"{request.agent_name}{request.request}")
    for detail in message.reasoning_details or ():
        tokens += estimate_tokens(msgspec.json.encode(detail).decode())
    return tokens + len(message.images or ()) * image_tokens


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a text has."""
    if text.isascii():
        return -(-len(text) // CHARACTERS_PER_TOKEN)
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    beyond = int(np.count_nonzero(characters > LATIN_END))
    return beyond + -(-(len(text) - beyond) // CHARACTERS_PER_TOKEN)


class CalibratedCounter:
    """A TokenCounter that learns from the token counts that a model reports for whole prompts."""

    def __init__(self) -> None:
        self.factor = 1.0

    def __call__(self, message: Message) -> int:
        return self.corrected(estimate(message))

    def corrected(self, estimated: int) -> int:
        """An estimate, corrected by what the model has reported so far."""
        return round(estimated * self.factor)

    def observe(self, counted: int, reported: int) -> None:
        """Learn from a prompt that this counter and the model have both counted."""
        if counted > 0 and reported > 0:
            factor = self.factor * ((1 - LEARNING_RATE) + LEARNING_RATE * reported / counted)
            self.factor = min(max(factor, MIN_FACTOR), MAX_FACTOR)


class Context:
    """Messages in their order, with the sum of their tokens.

    Adding, changing or removing a message takes constant time.
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
        """The tokens of a message; a message in the context is not counted again."""
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
        """Replace a message. Do nothing if it is no longer here because it was summarised."""
        if message_id not in self._messages:
            return
        if message_id == message.message_id:
            self.tokens -= self._tokens[message_id]
            self.append(message)
        else:
            self.replace_all(
                message if known.message_id == message_id else known for known in self.messages
            )

    def remove(self, message_id: str) -> None:
        """Remove a message. Do nothing if it is no longer here because it was summarised."""
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
    """How often the cache was used, and the sizes of history, context and cache."""

    valid: bool
    hits: int
    misses: int
    cached_messages: int
    context_messages: int
    raw_messages: int
    tokens: int
    """Tokens of the context."""
    handed_out_tokens: int
    """Tokens of the messages that `get_messages` returns."""
    compaction_due: bool


class Cache:
    """The dicts that `get_messages` returned last, while they are valid."""

    def __init__(self) -> None:
        self.hits = self.misses = 0
        self._messages: list[Json] | None = None

    def __len__(self) -> int:
        return len(self._messages or ())

    @property
    def valid(self) -> bool:
        return self._messages is not None

    def get(self, make: Callable[[], list[Json]]) -> list[Json]:
        """Copies of the dicts; call `make` first if there are none."""
        if self._messages is None:
            self.misses += 1
            self._messages = make()
        else:
            self.hits += 1
        # Deep copies that share strings, since most of a conversation is immutable text.
        return [
            {
                name: value if isinstance(value, str) else deepcopy(value)
                for name, value in message.items()
            }
            for message in self._messages
        ]

    def append(self, message: Message) -> None:
        """Append a message to the dicts, if there are any."""
        if self._messages is not None:
            self._messages.append(message.to_llm_dict())

    def invalidate(self) -> None:
        self._messages = None
