"""What a message may hold: text, data, or parts as APIs of models know them."""

from typing import Any

import msgspec

Content = str | dict[str, Any] | list[dict[str, Any]]
Dict = dict[str, Any]


def text_or_parts(content: Content | None) -> str | list[Dict] | None:
    """The content where it is text or parts, else JSON text of it."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and all(map(_is_part, content)):
        return content
    return as_json(content)


def url_of(part: Dict) -> str | None:
    """The URL of a part that is an image."""
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    return url if isinstance(url, str) else None


def _is_part(part: Dict) -> bool:
    """Whether it has what its type names, as OpenAI's parts do, or a source, as Anthropic's do."""
    type_ = part.get("type")
    return isinstance(type_, str) and (type_ in part or isinstance(part.get("source"), dict))


def text_parts(content: str | list[Dict] | None) -> list[Dict]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content or []


def urls_of(images: list[Any] | None) -> list[Any] | None:
    """What is no part stays as it is: a URL, or something to be refused."""
    if not isinstance(images, list):
        return images
    return [url_of(image) if isinstance(image, dict) else image for image in images]


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
