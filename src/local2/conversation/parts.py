"""The content of a message (text, data or parts) and the forms that model APIs write it in.

These are plain functions on open JSON. Messages are built from what they return, so that the rest
of the package reads only messages.
"""

from typing import Any

import msgspec

from local2.protocol.payloads import Json

Content = str | Json | list[Any]
"""Text, data, or a list: of parts, or of any data."""

REASONING_FIELDS = ("reasoning", "reasoning_content", "thinking")
"""The fields that servers use for reasoning text; none of them is standard."""


def text_or_parts(content: Content | None) -> str | list[Json] | None:
    """The content if it is text or parts, else as JSON text."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and all(map(_is_part, content)):
        return content
    return as_json(content)


def text_and_parts(content: Content | None) -> tuple[str, list[Json]]:
    """The text, and the parts that are not text, such as images."""
    form = text_or_parts(content)
    if isinstance(form, list):
        texts = [part["text"] for part in form if _is_text(part)]
        return "\n".join(texts), [part for part in form if not _is_text(part)]
    return form or "", []


def as_parts(content: str | list[Json] | None) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content or []


def url_of(part: Json) -> str | None:
    """The URL of an image part; None for any other part."""
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    return url if isinstance(url, str) else None


def urls_of(images: list[Any] | None) -> list[Any] | None:
    """Image parts as their URLs. Everything else stays, for the type check."""
    if not isinstance(images, list):
        return images
    return [url_of(image) if isinstance(image, dict) else image for image in images]


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def reasoning_of(reply: Json) -> Any:
    """The reasoning details as the model gave them, or else its reasoning text as details.

    They are sent back to the model.
    """
    if reply.get("reasoning_details"):
        return reply["reasoning_details"]
    texts = (reply.get(name) for name in REASONING_FIELDS)
    text = next((text for text in texts if isinstance(text, str) and text), None)
    return [{"type": "reasoning.text", "text": text}] if text else None


def call_fields(call: Any) -> Json:
    """A call as a dict, whether it is one or an object with these attributes."""
    if isinstance(call, dict):
        return call
    names = ("id", "call_id", "type", "name", "arguments", "function", "agent_name", "request")
    fields = {name: getattr(call, name) for name in names if getattr(call, name, None) is not None}
    if "function" in fields:
        fields["function"] = call_fields(fields["function"])
    return fields


def _is_part(part: Any) -> bool:
    """Whether it has the field that its type names (OpenAI), or a source (Anthropic)."""
    type_ = part.get("type") if isinstance(part, dict) else None
    return isinstance(type_, str) and (type_ in part or isinstance(part.get("source"), dict))


def _is_text(part: Json) -> bool:
    return isinstance(part.get("text"), str)
