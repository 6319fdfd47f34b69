"""Tool truncation: old tool results keep their beginning and their end."""

import re
from collections.abc import Sequence

import msgspec

from local.conversation.compaction.rounds import protected_from
from local.conversation.compaction.stages import Job
from local.conversation.contents import parted
from local.conversation.message import Message
from local.conversation.parts import Content
from local.conversation.tokens import TokenCounter

SHORTEST = 40
"""Characters that are always left of a text."""
EARLIER_CUT = re.compile(r" \[… ([0-9]{1,3}(?:,[0-9]{3}){0,4}) characters left out …\] ")
BEGINNING = 2 / 3
"""Share of what is left that comes from the beginning."""


class ToolTruncation:
    """Cuts tool results older than the newest rounds to `tool_truncation.max_tokens` each."""

    async def process(self, messages: Sequence[Message], job: Job) -> list[Message]:
        config = job.config.active_context.tool_truncation
        boundary = protected_from(messages, config.grace_recent_messages)
        older = [
            shortened(message, config.max_tokens, job.count) if message.role == "tool" else message
            for message in messages[:boundary]
        ]
        return [*older, *messages[boundary:]]


def shortened(message: Message, tokens: int, count: TokenCounter) -> Message:
    """The message with as much of its text as fits into so many tokens; itself if it fits.

    A text too short to gain anything by it stays whole.
    """
    shorter, whole = message, count(message)
    counted = whole
    text, rest = parted(message.content)
    room = len(text)
    while counted > tokens and room > SHORTEST:
        room = max(SHORTEST, min(room * max(tokens, 1) // counted, room * 9 // 10))
        cut = _cut(text, room)
        content: Content = [{"type": "text", "text": cut}, *rest] if rest else cut
        shorter = msgspec.structs.replace(message, content=content)
        counted = count(shorter)
    return shorter if counted < whole else message


def _cut(text: str, room: int) -> str:
    beginning = int(room * BEGINNING)
    end = len(text) - (room - beginning)
    left_out = end - beginning
    for earlier in EARLIER_CUT.finditer(text, beginning, end):
        left_out += int(earlier[1].replace(",", "")) - len(earlier[0])
    return f"{text[:beginning]} [… {left_out:,} characters left out …] {text[end:]}"
