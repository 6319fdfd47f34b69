"""Images that are files here become data URIs, which a model can be given."""

import asyncio
import base64
import re
from pathlib import Path

import msgspec

from local.conversation.message import Message
from local.errors import ConversationError

LARGEST = 20_000_000
"""Bytes of a file."""
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


async def embedded(message: Message) -> Message:
    """The message with data URIs for those of its `images` that are paths.

    The paths are opened as they stand: not for messages of those who may not read files here.

    Raises:
        ConversationError: A file cannot be read, is too large, or is no PNG, JPEG, GIF or WebP.
    """
    if not message.images or all(map(SCHEME.match, message.images)):
        return message
    images = [
        image if SCHEME.match(image) else await asyncio.to_thread(_data_uri, Path(image))
        for image in message.images
    ]
    return msgspec.structs.replace(message, images=images)


def _data_uri(path: Path) -> str:
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ConversationError(f"The image {path} is no file.")
        if size > LARGEST:
            raise ConversationError(f"The image {path} has {size:,} bytes, over {LARGEST:,}.")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise ConversationError(f"The image {path} cannot be read: {error}.") from error
    return f"data:{_type_of(data, path)};base64,{base64.b64encode(data).decode()}"


def _type_of(data: bytes, path: Path) -> str:
    """By its content: names of files say anything."""
    for beginning, type_ in BEGINNINGS.items():
        if data.startswith(beginning):
            return type_
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    raise ConversationError(f"The image {path} is no PNG, JPEG, GIF or WebP.")
