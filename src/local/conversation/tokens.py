"""Counting tokens: any function of a message, or an estimate that a model's counts calibrate."""

from collections.abc import Callable

import msgspec

from local.conversation.message import Message

TokenCounter = Callable[[Message], int]

CHARACTERS_A_TOKEN = 4
"""Of English prose and JSON; characters beyond Latin count a token each."""
MESSAGE_TOKENS = 4
"""What a message costs besides its text."""
IMAGE_TOKENS = 800
LATIN_END = 0x250
LEAST, MOST = 0.25, 4.0
"""Bounds of what a model's own counts make of an estimate."""
LEARNED = 0.3
"""The weight of the newest count."""


def estimate(message: Message, image_tokens: int = IMAGE_TOKENS) -> int:
    """About how many tokens a message is to a model."""
    tokens = MESSAGE_TOKENS
    content = message.content
    if isinstance(content, str):
        tokens += tokens_of(content)
    elif isinstance(content, list):
        for part in content:
            text = part.get("text")
            tokens += tokens_of(text) if isinstance(text, str) else image_tokens
    elif content is not None:
        tokens += tokens_of(msgspec.json.encode(content).decode())
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
    latin = sum(ord(character) < LATIN_END for character in text)
    return len(text) - latin + -(-latin // CHARACTERS_A_TOKEN)


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
