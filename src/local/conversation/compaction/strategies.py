"""When a conversation is compacted, how, and what of it a model is given; each can be replaced."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from local.conversation.compaction.packing import BackwardPacking
from local.conversation.compaction.stages import Compacted, Job, Processor
from local.conversation.compaction.summarization import Summarization
from local.conversation.compaction.truncation import ToolTruncation
from local.conversation.config import ActiveContextPolicyConfig, ManagedMemoryConfig, Stage
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
    """Asked after every event in `trigger_events`, so it must be quick."""

    def is_due(self, state: MemoryState, config: ManagedMemoryConfig) -> bool: ...


class ProcessStrategy(Protocol):
    """Makes the context smaller."""

    async def process(self, messages: Sequence[Message], job: Job) -> Compacted: ...


class RetrievalStrategy(Protocol):
    """Chooses what of the context `get_messages` hands out."""

    def retrieve(self, messages: Sequence[Message], job: Job) -> Sequence[Message]: ...


class Threshold:
    """Due as soon as the context has more than `threshold_tokens`."""

    def is_due(self, state: MemoryState, config: ManagedMemoryConfig) -> bool:
        return state.tokens > config.threshold_tokens


class Pipeline:
    """The stages in the order of `processor_order`, until the context fits its target."""

    def __init__(self, processors: Mapping[Stage, Processor] = PROCESSORS) -> None:
        self._processors = processors

    async def process(self, messages: Sequence[Message], job: Job) -> Compacted:
        current, tokens = list(messages), job.tokens(messages)
        stages: list[str] = []
        for stage in enabled_stages(job.config.active_context):
            if tokens <= job.target_tokens:
                break
            fewer = await self._processors[stage].process(current, job)
            counted = job.tokens(fewer)
            if counted < tokens:
                current, tokens = fewer, counted
                stages.append(stage)
        return Compacted(messages=current, stages=stages)


class WholeContext:
    """All of it: compaction, or the sliding window, has chosen already."""

    def retrieve(self, messages: Sequence[Message], job: Job) -> Sequence[Message]:  # noqa: ARG002
        return messages


def enabled_stages(policy: ActiveContextPolicyConfig) -> list[Stage]:
    enabled = {
        "tool_truncation": policy.tool_truncation.enabled,
        "summarization": policy.summarization.enabled,
        "backward_packing": policy.backward_packing.enabled,
    }
    return [
        stage
        for stage in policy.processor_order
        if enabled[stage] and stage not in policy.excluded_processors
    ]
