"""Counting tokens: any function of a message, or an estimate corrected by what a model counts.

A tokenizer would be exact for one model only. What a model reports of each prompt costs nothing,
and corrects the estimate for whichever model it is.
"""

from collections.abc import Callable

import msgspec
import numpy as np

from local.conversation.message import Message
from local.conversation.parts import text_and_parts

TokenCounter = Callable[[Message], int]

CHARACTERS_PER_TOKEN = 4
"""Of English prose and JSON. Characters beyond Latin count as a token each."""
MESSAGE_TOKENS = 4
"""What a message costs besides its text: role and separators."""
IMAGE_TOKENS = 800
"""What an image costs: the reference's default of `image_token_estimate`."""
LAST_LATIN = 0x24F
"""The end of the Unicode block Latin Extended-B."""
MIN_FACTOR, MAX_FACTOR = 0.25, 4.0
"""Bounds of the correction. Beyond a factor of four a report is more likely wrong (a server that
counts without its cache) than the estimate."""
LEARNING_RATE = 0.3
"""The weight of the newest report. A higher one follows a new language faster, a lower one is
disturbed less by a single prompt."""


def estimate(message: Message, image_tokens: int = IMAGE_TOKENS) -> int:
    """About how many tokens a message has for a model."""
    text, others = text_and_parts(message.content)
    tokens = MESSAGE_TOKENS + tokens_of(text) + len(others) * image_tokens
    for call in message.tool_calls or ():
        tokens += MESSAGE_TOKENS + tokens_of(call.name) + tokens_of(call.arguments)
    for request in message.agent_calls or ():
        tokens += MESSAGE_TOKENS + tokens_of(f"{request.agent_name}{request.request}")
    for detail in message.reasoning_details or ():
        tokens += tokens_of(msgspec.json.encode(detail).decode())
    return tokens + len(message.images or ()) * image_tokens


def tokens_of(text: str) -> int:
    """About how many tokens a text has."""
    if text.isascii():
        return -(-len(text) // CHARACTERS_PER_TOKEN)
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    beyond = int(np.count_nonzero(characters > LAST_LATIN))
    return beyond + -(-(len(text) - beyond) // CHARACTERS_PER_TOKEN)


class CalibratedCounter:
    """A TokenCounter that learns from what a model reports of whole prompts."""

    def __init__(self, count: TokenCounter = estimate) -> None:
        self._count = count
        self.factor = 1.0

    def __call__(self, message: Message) -> int:
        return round(self._count(message) * self.factor)

    def observe(self, counted: int, reported: int) -> None:
        """Learn from a prompt: what this counter counted, and what the model reported."""
        if counted > 0 and reported > 0:
            factor = self.factor * ((1 - LEARNING_RATE) + LEARNING_RATE * reported / counted)
            self.factor = min(max(factor, MIN_FACTOR), MAX_FACTOR)
