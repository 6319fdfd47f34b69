"""When a conversation is compacted, how, and what of it a model is given: each can be replaced."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from local.conversation.compaction.fitting import BackwardPacking, ToolTruncation
from local.conversation.compaction.stages import Compaction, Job, Processor
from local.conversation.compaction.summarization import Summarization
from local.conversation.config import ManagedMemoryConfig, Stage
from local.conversation.message import Message

PROCESSORS: Mapping[Stage, Processor] = {
    "tool_truncation": ToolTruncation(),
    "summarization": Summarization(),
    "backward_packing": BackwardPacking(),
}


class MemoryState(Struct, frozen=True, kw_only=True):
    """What a trigger judges by: the context's size, and what just happened."""

    event: str
    tokens: int
    messages: int


class TriggerStrategy(Protocol):
    """Decides whether a compaction is due. Called after every trigger event, so it must be fast."""

    def is_due(self, state: MemoryState, config: ManagedMemoryConfig) -> bool: ...


class ProcessStrategy(Protocol):
    """Makes the context smaller."""

    async def process(self, messages: Sequence[Message], job: Job) -> Compaction: ...


class RetrievalStrategy(Protocol):
    """Chooses what of the context `get_messages` returns."""

    def retrieve(self, messages: Sequence[Message], job: Job) -> Sequence[Message]: ...


class Threshold:
    """Due as soon as the context has more than `threshold_tokens`."""

    def is_due(self, state: MemoryState, config: ManagedMemoryConfig) -> bool:
        return state.tokens > config.threshold_tokens


class Pipeline:
    """Runs the stages in the order of `processor_order`, until the context fits its target.

    The result of a stage that saves nothing is dropped: it would only lose information.
    """

    def __init__(self, processors: Mapping[Stage, Processor] = PROCESSORS) -> None:
        self._processors = processors

    async def process(self, messages: Sequence[Message], job: Job) -> Compaction:
        current, tokens = list(messages), job.tokens(messages)
        stages: list[str] = []
        for stage in job.config.active_context.enabled_stages:
            if tokens <= job.target_tokens:
                break
            reduced = await self._processors[stage].process(current, job)
            counted = job.tokens(reduced)
            if counted < tokens:
                current, tokens = reduced, counted
                stages.append(stage)
        return Compaction(messages=current, stages=stages)


class WholeContext:
    """Returns all of it, because compaction or the sliding window has chosen already."""

    def retrieve(self, messages: Sequence[Message], job: Job) -> Sequence[Message]:  # noqa: ARG002
        return messages
