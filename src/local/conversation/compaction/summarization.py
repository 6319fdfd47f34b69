"""Summarization: what is older than the newest rounds becomes one message."""

from collections.abc import Collection, Iterable, Sequence

import msgspec
from msgspec import Struct

from local.conversation.compaction.rounds import protected_from
from local.conversation.compaction.stages import Job
from local.conversation.compaction.summaries import heading_tokens, summary_of
from local.conversation.compaction.truncation import shortened
from local.conversation.contents import images_of, is_question, is_summary, with_images
from local.conversation.message import Message


class Limits(Struct, frozen=True, kw_only=True):
    """What may stay of summarised messages. Of their images the newest do."""

    images: int | None = None
    image_bytes: int | None = None
    """Of their URLs and data URIs together."""
    text_share: float = 1.0
    """What the summary may have of the tokens of the text that it stands for."""


class Summarization:
    async def process(self, messages: Sequence[Message], job: Job) -> list[Message]:
        config = job.config.active_context.summarization
        boundary = protected_from(messages, config.grace_recent_messages)
        tail = messages[boundary:]
        limits = Limits(images=config.max_retained_images)
        return [*await summarized(messages[:boundary], tail, limits, job), *tail]


async def summarized(
    prefix: Sequence[Message], tail: Sequence[Message], limits: Limits, job: Job
) -> list[Message]:
    """What becomes of the prefix: system message, instruction, summary, open question.

    They have what the tail leaves of the target, and a quarter of it at least. The instruction is
    what the user said first; the open question, where the tail only holds the work on it, is what
    the user said last. Both stay as said, up to a quarter of the room each; images have a quarter.
    Where there is nothing else to summarise, only images go.
    """
    config = job.config.active_context.summarization
    system = prefix[:1] if prefix and prefix[0].role == "system" else []
    asked = [message for message in prefix if is_question(message)]
    alone = asked[:1] == list((tail or prefix)[-1:])
    first = asked[:1] if config.include_original_instruction and not alone else []
    last = [] if any(map(is_question, tail)) or asked[-1:] == first else asked[-1:]
    apart = {message.message_id for message in (*system, *first, *last)}
    rest = [message for message in prefix if message.message_id not in apart]
    room = max(job.target_tokens - job.tokens((*system, *tail)), job.target_tokens // 4)
    each = max(job.config.image_token_estimate, 1)
    kept = _retained(prefix, limits, room // 4 // each)
    if all(map(is_summary, rest)):
        return [with_images(message, kept) for message in prefix]
    first, last = ([_fitted(m, kept, room // 4, job) for m in some] for some in (first, last))
    moved = [image for image in kept if not _has(image, (*first, *last))]
    room = max(room - job.tokens((*first, *last)) - len(moved) * each, room // 4)
    text = job.tokens(with_images(message, ()) for message in rest)
    longest = int(text * limits.text_share) + heading_tokens(job)
    summary = await summary_of(rest, min(config.output_max_tokens, room, longest), job)
    return [*system, *first, msgspec.structs.replace(summary, images=moved or None), *last]


def _fitted(message: Message, images: Collection[str], tokens: int, job: Job) -> Message:
    return shortened(with_images(message, images), tokens, job.count)


def _has(image: str, messages: Iterable[Message]) -> bool:
    return any(image in images_of(message) for message in messages)


def _retained(messages: Sequence[Message], limits: Limits, at_most: int) -> list[str]:
    """The newest images that fit, in their order, each once."""
    newest = [image for message in reversed(messages) for image in reversed(images_of(message))]
    if limits.images is not None:
        at_most = min(at_most, limits.images)
    kept: list[str] = []
    size = 0
    for image in dict.fromkeys(newest):
        if len(kept) < at_most and (
            limits.image_bytes is None or size + len(image) <= limits.image_bytes
        ):
            size += len(image)
            kept.append(image)
    return kept[::-1]
