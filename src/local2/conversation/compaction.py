"""Compaction: when a context is shortened, in which stages, and how summaries replace messages.

The strategies that decide when to compact, how, and what a model sees can each be replaced. The
stages are those of `fitting`, which cut without a model, and summarization, which turns everything
older than the newest rounds into one message. Summarization also runs at once when a model's server
refuses a request as too large. Then bytes have to be saved, whatever the messages count in tokens,
and most bytes are those of images.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from local2.conversation.config import ManagedMemoryConfig, Stage
from local2.conversation.fitting import BackwardPacking, ToolTruncation, shorten
from local2.conversation.images import images_of, with_images
from local2.conversation.message import Message, is_from_user, is_summary
from local2.conversation.stages import Compaction, Processor, StageInput, protected_from
from local2.conversation.summaries import heading_tokens, summary_of

REQUEST_BYTES: Mapping[str, int] = {
    "anthropic": 32_000_000,
    "google": 20_000_000,
    "openai": 50_000_000,
}
"""Maximum bytes of a request, by provider, as each documents it."""
RECOVERY_IMAGES = 5
"""Images that stay after a refused request if `max_retained_images` is None."""
RECOVERY_TEXT_SHARE = 0.5
"""Maximum size of a summary after a refused request, as a share of the tokens that it replaces.
Otherwise a summary might be as long as the short prefix it replaces."""
ROOM_FRACTION = 4
"""Divisor for a quarter. Beside a long tail, summarised messages get at least a quarter of the
target. The instruction, the open question and the images each get at most a quarter of those
tokens."""


class SummaryLimits(Struct, frozen=True, kw_only=True):
    """The limits of a summary and of the images that stay, newest first."""

    images: int | None = None
    image_bytes: int | None = None
    """Maximum bytes of the images' URLs and data URIs together."""
    text_share: float = 1.0
    """Maximum size of the summary, as a share of the tokens of the text that it replaces."""


class Summarization:
    """Summarises the messages older than the newest rounds."""

    async def process(self, messages: Sequence[Message], job: StageInput) -> list[Message]:
        config = job.config.active_context.summarization
        boundary = protected_from(messages, config.grace_recent_messages)
        tail = messages[boundary:]
        limits = SummaryLimits(images=config.max_retained_images)
        return [*await summarize(messages[:boundary], tail, limits, job), *tail]


def payload_bytes(messages: Iterable[Message]) -> int:
    """The size of a request's messages as JSON."""
    return len(msgspec.json.encode([message.to_llm_dict() for message in messages]))


async def recover_from_refusal(messages: Sequence[Message], job: StageInput) -> Compaction:
    """Summarise the messages before the newest rounds, whatever they count in tokens.

    The newest rounds stay as they are. Of the earlier images, the newest stay: at most
    `max_retained_images`, in half of the bytes that the newest rounds leave of the provider's
    limit. For an unknown provider, the size of the refused request counts as the limit.
    """
    config = job.config.active_context.summarization
    boundary = protected_from(messages, max(config.grace_recent_messages, 1))
    prefix, tail = messages[:boundary], messages[boundary:]
    refused = payload_bytes(messages)
    limit = min(refused, REQUEST_BYTES.get(job.runtime.provider or "", refused))
    images = RECOVERY_IMAGES if config.max_retained_images is None else config.max_retained_images
    image_bytes = max(0, limit - payload_bytes(tail)) // 2
    limits = SummaryLimits(images=images, image_bytes=image_bytes, text_share=RECOVERY_TEXT_SHARE)
    reduced = [*await summarize(prefix, tail, limits, job), *tail]
    if payload_bytes(reduced) >= refused:
        return Compaction(messages=list(messages), stages=[])
    return Compaction(messages=reduced, stages=["summarization"])


async def summarize(
    prefix: Sequence[Message], tail: Sequence[Message], limits: SummaryLimits, job: StageInput
) -> list[Message]:
    """Replace the prefix by its system message, instruction, summary and open question.

    Together they get what the tail leaves of the target, and at least a quarter of the target. The
    instruction is the user's first message. The open question is the user's last message, if the
    tail holds only the work on it. Both stay word for word, up to a quarter of these tokens each;
    the images get another quarter. If nothing is left to summarise, only images are removed.
    """
    config = job.config.active_context.summarization
    system = prefix[:1] if prefix and prefix[0].role == "system" else []
    questions = [message for message in prefix if is_from_user(message)]
    # If the first message is also the newest of all, it is the question, not the instruction.
    is_newest = questions[:1] == list((tail or prefix)[-1:])
    first = questions[:1] if config.include_original_instruction and not is_newest else []
    answered = any(map(is_from_user, tail)) or questions[-1:] == first
    last = [] if answered else questions[-1:]
    kept_ids = {message.message_id for message in (*system, *first, *last)}
    rest = [message for message in prefix if message.message_id not in kept_ids]
    target = job.target_tokens
    room = max(target - job.tokens((*system, *tail)), target // ROOM_FRACTION)
    image_tokens = max(job.config.image_token_estimate, 1)
    images = _newest_images(prefix, limits, room // ROOM_FRACTION // image_tokens)
    if all(map(is_summary, rest)):
        return [with_images(message, images) for message in prefix]
    first, last = (
        [shorten(with_images(kept, images), room // ROOM_FRACTION, job.count) for kept in messages]
        for messages in (first, last)
    )
    moved = [
        image
        for image in images
        if not any(image in images_of(message) for message in (*first, *last))
    ]
    left = room - job.tokens((*first, *last)) - len(moved) * image_tokens
    replaced = job.tokens(with_images(message, ()) for message in rest)
    share_limit = int(replaced * limits.text_share) + heading_tokens(job)
    max_tokens = min(config.output_max_tokens, max(left, room // ROOM_FRACTION), share_limit)
    summary = await summary_of(rest, max_tokens, job)
    return [*system, *first, msgspec.structs.replace(summary, images=moved or None), *last]


def _newest_images(
    messages: Sequence[Message], limits: SummaryLimits, max_images: int
) -> Collection[str]:
    """The newest images that fit, without duplicates, in the order of the messages."""
    newest = [image for message in reversed(messages) for image in reversed(images_of(message))]
    if limits.images is not None:
        max_images = min(max_images, limits.images)
    chosen: list[str] = []
    size = 0
    for image in dict.fromkeys(newest):
        if len(chosen) < max_images and (
            limits.image_bytes is None or size + len(image) <= limits.image_bytes
        ):
            size += len(image)
            chosen.append(image)
    return chosen[::-1]


PROCESSORS: Mapping[Stage, Processor] = {
    "tool_truncation": ToolTruncation(),
    "summarization": Summarization(),
    "backward_packing": BackwardPacking(),
}


class MemoryState(Struct, frozen=True, kw_only=True):
    """The input of a trigger: the context's size and the latest event."""

    event: str
    tokens: int
    messages: int


class TriggerStrategy(Protocol):
    """Decides whether a compaction is due. Runs after every trigger event, so it must be fast."""

    def is_due(self, state: MemoryState, config: ManagedMemoryConfig) -> bool: ...


class ProcessStrategy(Protocol):
    """Makes the context smaller."""

    async def process(self, messages: Sequence[Message], job: StageInput) -> Compaction: ...


class RetrievalStrategy(Protocol):
    """Chooses the messages of the context that `get_messages` returns."""

    def retrieve(self, messages: Sequence[Message], job: StageInput) -> Sequence[Message]: ...


class Threshold:
    """Makes a compaction due as soon as the context has more than `threshold_tokens`."""

    def is_due(self, state: MemoryState, config: ManagedMemoryConfig) -> bool:
        return state.tokens > config.threshold_tokens


class Pipeline:
    """Runs the stages in the order of `processor_order` until the context fits its target.

    The result of a stage that saves no tokens is dropped, since it would only lose information.
    """

    def __init__(self, processors: Mapping[Stage, Processor] = PROCESSORS) -> None:
        self._processors = processors

    async def process(self, messages: Sequence[Message], job: StageInput) -> Compaction:
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
    """Keeps the whole context, which compaction or the sliding window has already limited."""

    def retrieve(self, messages: Sequence[Message], job: StageInput) -> Sequence[Message]:  # noqa: ARG002
        return messages
