"""Counting tokens: any function of a message, or an estimate that a model's counts calibrate."""

from collections.abc import Callable

import msgspec
import numpy as np

from local.conversation.contents import parted
from local.conversation.message import Message

TokenCounter = Callable[[Message], int]

CHARACTERS_A_TOKEN = 4
"""Of English prose and JSON; characters beyond Latin count a token each."""
MESSAGE_TOKENS = 4
"""What a message costs besides its text."""
IMAGE_TOKENS = 800
LAST_LATIN = 0x24F
LEAST, MOST = 0.25, 4.0
"""Bounds of what a model's own counts make of an estimate."""
LEARNED = 0.3
"""The weight of the newest count."""


def estimate(message: Message, image_tokens: int = IMAGE_TOKENS) -> int:
    """About how many tokens a message is to a model."""
    text, others = parted(message.content)
    tokens = MESSAGE_TOKENS + tokens_of(text) + len(others) * image_tokens
    for call in message.tool_calls or ():
        tokens += MESSAGE_TOKENS + tokens_of(call.name) + tokens_of(call.arguments)
    for request in message.agent_calls or ():
        tokens += MESSAGE_TOKENS + tokens_of(f"{request.agent_name}{request.request}")
    for detail in message.reasoning_details or ():
        tokens += tokens_of(msgspec.json.encode(detail).decode())
    return tokens + len(message.images or ()) * image_tokens


def tokens_of(text: str) -> int:
    """About how many tokens a text is."""
    if text.isascii():
        return -(-len(text) // CHARACTERS_A_TOKEN)
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    beyond = int(np.count_nonzero(characters > LAST_LATIN))
    return beyond + -(-(len(text) - beyond) // CHARACTERS_A_TOKEN)


class Calibrated:
    """A TokenCounter that follows what a model says of whole prompts."""

    def __init__(self, count: TokenCounter = estimate) -> None:
        self._count = count
        self.factor = 1.0

    def __call__(self, message: Message) -> int:
        return round(self._count(message) * self.factor)

    def observe(self, counted: int, reported: int) -> None:
        """Learn from a prompt: what this counter made of it, and what the model did."""
        if counted > 0 and reported > 0:
            factor = self.factor * ((1 - LEARNED) + LEARNED * reported / counted)
            self.factor = min(max(factor, LEAST), MOST)
