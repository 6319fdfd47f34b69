"""What a message holds besides its fields' forms: its text, and its images."""

from collections.abc import Collection
from typing import Any

import msgspec

from local.conversation.message import Message
from local.conversation.parts import Content, text_or_parts, url_of

SUMMARY = "conversation_summary"
"""The `name` of a message that stands for those before it."""


def is_summary(message: Message) -> bool:
    return message.role == "user" and message.name == SUMMARY


def is_question(message: Message) -> bool:
    """Something that the user said."""
    return message.role == "user" and message.name != SUMMARY


def parted(content: Content | None) -> tuple[str, list[dict[str, Any]]]:
    """The text, and the parts that are none, such as images."""
    form = text_or_parts(content)
    if isinstance(form, list):
        texts = [part["text"] for part in form if _is_text(part)]
        return "\n".join(texts), [part for part in form if not _is_text(part)]
    return form or "", []


def text_of(message: Message) -> str:
    """What the message says and what it asks of tools and agents, a line each."""
    said = [parted(message.content)[0]]
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls or ()]
    requests = [f"asks {call.agent_name}: {call.request}" for call in message.agent_calls or ()]
    return "\n".join(filter(None, [*said, *calls, *requests]))


def images_of(message: Message) -> list[str]:
    """URLs, data URIs and paths, from the field and from structured content."""
    return [*(message.images or ()), *filter(None, map(url_of, parted(message.content)[1]))]


def with_images(message: Message, allowed: Collection[str]) -> Message:
    """The message with no other images than these; itself if it has no others."""
    if all(image in allowed for image in images_of(message)):
        return message
    content = message.content
    if isinstance(parts := text_or_parts(content), list):
        content = [part for part in parts if (url := url_of(part)) is None or url in allowed]
    images = [image for image in message.images or () if image in allowed]
    return msgspec.structs.replace(message, content=content, images=images or None)


def _is_text(part: dict[str, Any]) -> bool:
    return isinstance(part.get("text"), str)
