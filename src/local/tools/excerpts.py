"""Memories as text for a model: numbered, dated, and cut to what a context or a message holds."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from local.llm.framing import INSET, inset
from local.protocol.envelope import utc_now

TEXT_BYTES = 8_000
"""Of all memories together in the text for a model, whose context is small."""
DATA_BYTES = 400_000
"""Of all memories together in the data; the bus carries 1 MB."""


class WithContent(Protocol):
    """A Struct that has a text."""

    @property
    def content(self) -> str: ...


M = TypeVar("M", bound=WithContent)


def shortened(memories: Sequence[M], budget: int) -> list[M]:
    """Cut long memories, marked with an ellipsis, so that all fit the budget in bytes of JSON."""
    share = budget // max(len(memories), 1)
    return [
        memory
        if _size(memory.content) <= share
        else msgspec.structs.replace(memory, content=f"{_beginning(memory.content, share)} …")  # type: ignore[type-var]
        for memory in memories
    ]


class Entry(NamedTuple):
    """A memory in a list; `word` says what it is."""

    score: float
    moment: datetime
    text: str
    word: str = ""


def numbered(memories: Sequence[Entry]) -> str:
    """Memories as a list for a model."""
    lines = [f"[Memory recall — {utc_now().date().isoformat()}]"]
    for number, (score, moment, text, word) in enumerate(memories, start=1):
        what = f"{word}, " if word else ""
        lines.append(f"{number}. (relevance: {score:.2f}) {what}{moment.date().isoformat()}")
        lines.append(f"{INSET}{inset(text)}")
    return "\n".join(lines)


def _beginning(text: str, size: int) -> str:
    lengths = range(min(len(text), size + 1))
    return text[: bisect_right(lengths, size, key=lambda length: _size(text[:length])) - 1]


def _size(text: str) -> int:
    """Bytes on the wire, without quotes; JSON makes up to six of a character's one."""
    return len(msgspec.json.encode(text)) - 2
