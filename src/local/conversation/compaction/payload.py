"""Recovery when a model's server refuses a request as too large: it is bytes that must go."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from local.conversation.compaction.rounds import protected_from
from local.conversation.compaction.stages import Compacted, Job
from local.conversation.compaction.summarization import Limits, summarized
from local.conversation.message import Message

REQUEST_BYTES: Mapping[str, int] = {
    "anthropic": 32_000_000,
    "google": 20_000_000,
    "openai": 50_000_000,
}
"""What providers take at once, as they document it."""
IMAGES_KEPT = 5
TEXT_KEPT = 0.5
"""What a summary may have of the tokens it stands for, however few they are."""


def payload_bytes(messages: Iterable[Message]) -> int:
    """The size of a request's messages, as JSON."""
    return len(msgspec.json.encode([message.to_llm_dict() for message in messages]))


async def recovered(messages: Sequence[Message], job: Job) -> Compacted:
    """Summarise what precedes the newest rounds, whatever it counts in tokens.

    The newest rounds stay as they are. Of the others' images the newest stay, as many as
    `max_retained_images` says (5 where it does not), and as half the bytes allow that the
    provider takes besides the newest rounds; half of what was refused, of unknown providers.
    """
    config = job.config.active_context.summarization
    boundary = protected_from(messages, max(config.grace_recent_messages, 1))
    prefix, tail = messages[:boundary], messages[boundary:]
    refused = payload_bytes(messages)
    limit = min(refused, REQUEST_BYTES.get(job.runtime.provider or "", refused))
    at_most = IMAGES_KEPT if config.max_retained_images is None else config.max_retained_images
    image_bytes = max(0, limit - payload_bytes(tail)) // 2
    limits = Limits(images=at_most, image_bytes=image_bytes, text_share=TEXT_KEPT)
    fewer = [*await summarized(prefix, tail, limits, job), *tail]
    if payload_bytes(fewer) >= refused:
        return Compacted(messages=list(messages), stages=[])
    return Compacted(messages=fewer, stages=["summarization"])
