"""List a message's images, remove some of them, and embed image files as data URIs.

A path is embedded only on demand. Otherwise the author of a message would decide which files of
this machine are read.
"""

import asyncio
import base64
import re
from collections.abc import Collection
from pathlib import Path

import msgspec

from local2.conversation.message import Message
from local2.conversation.parts import text_and_parts, text_or_parts, url_of
from local2.errors import ConversationError

MAX_IMAGE_BYTES = 20_000_000
"""Maximum bytes of an image file. This bounds memory, which also holds the file as base64, and is
the smallest limit that a provider documents for a whole request."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""The beginning of a URL or data URI. At least two letters, since `C:` is a drive."""
_IMAGE_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def images_of(message: Message) -> list[str]:
    """The URLs, data URIs and paths in the `images` field and in the content's parts."""
    parts = text_and_parts(message.content)[1]
    return [*(message.images or ()), *filter(None, map(url_of, parts))]


def with_images(message: Message, allowed: Collection[str]) -> Message:
    """The message with only these images; the same object if it has no others."""
    if all(image in allowed for image in images_of(message)):
        return message
    content = message.content
    if isinstance(parts := text_or_parts(content), list):
        content = [part for part in parts if (url := url_of(part)) is None or url in allowed]
    images = [image for image in message.images or () if image in allowed]
    return msgspec.structs.replace(message, content=content, images=images or None)


async def embedded(message: Message) -> Message:
    """The message with paths in its `images` replaced by data URIs.

    The paths are opened unchecked, so do not call this for a sender who may not read files here.

    Raises:
        ConversationError: A file cannot be read, is too large, or is not a PNG, JPEG, GIF or WebP.
    """
    if not message.images or all(map(_SCHEME.match, message.images)):
        return message
    images = [
        image if _SCHEME.match(image) else await asyncio.to_thread(_data_uri, Path(image))
        for image in message.images
    ]
    return msgspec.structs.replace(message, images=images)


def _data_uri(path: Path) -> str:
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ConversationError(f"The image {path} is not a file.")
        if size > MAX_IMAGE_BYTES:
            raise ConversationError(
                f"The image {path} has {size:,} bytes; the maximum is {MAX_IMAGE_BYTES:,}."
            )
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise ConversationError(f"The image {path} cannot be read: {error}.") from error
    # The content shows the type, because a file's name may be wrong.
    type_ = next((type_ for start, type_ in _IMAGE_TYPES.items() if data.startswith(start)), None)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        type_ = "image/webp"
    if type_ is None:
        raise ConversationError(f"The image {path} is not a PNG, JPEG, GIF or WebP.")
    return f"data:{type_};base64,{base64.b64encode(data).decode()}"
