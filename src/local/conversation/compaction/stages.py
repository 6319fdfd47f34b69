"""What the stages of a compaction share: what they may use, what they aim at, how they report."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from local.conversation.config import ManagedMemoryConfig
from local.conversation.message import Message
from local.conversation.tokens import TokenCounter
from local.llm.chat import ChatModel


class CompactionRuntime(Struct, frozen=True, kw_only=True):
    """What the caller lends a compaction. Without a model summaries are extracted, and say so."""

    model: ChatModel | None = None
    context_tokens: int | None = None
    """What the model takes at once, if that is known."""
    provider: str | None = None
    """Who serves the conversation's model; says how many bytes a request may have."""
    within: float = 600.0
    """Seconds the model has for each of its answers."""


class Job(Struct, frozen=True, kw_only=True):
    """What a stage goes by."""

    config: ManagedMemoryConfig
    count: TokenCounter
    runtime: CompactionRuntime = CompactionRuntime()

    @property
    def target_tokens(self) -> int:
        return self.config.compaction_target_tokens

    def tokens(self, messages: Iterable[Message]) -> int:
        return sum(map(self.count, messages))


class Processor(Protocol):
    """One stage: makes messages fewer or shorter, and separates no call from its answers."""

    async def process(self, messages: Sequence[Message], job: Job) -> list[Message]:
        """Return what remains; messages that stay as they were are the same objects."""
        ...


class Compacted(Struct, frozen=True, kw_only=True):
    messages: list[Message]
    stages: list[str]
    """Names of the stages that made a difference, in their order."""
