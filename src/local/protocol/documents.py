"""A document on the wire: what it may be, and what became of it."""

import msgspec

from local.errors import TooLargeError

MAX_DOCUMENT = 900_000
"""Bytes as JSON; the bus carries 1 MB."""
MAX_TITLE = 100


class AddedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of chunks; `removed` are old ones that the document has no more."""

    source: str
    chunks: int
    added: int
    replaced: int
    unchanged: int
    removed: int


def check_size(content: str) -> None:
    """Raise TooLargeError if the text is more than a document may have."""
    if len(content) > MAX_DOCUMENT or len(msgspec.json.encode(content)) > MAX_DOCUMENT:
        raise TooLargeError(
            f"The document has more than {MAX_DOCUMENT:,} bytes as JSON, the most it may have.",
            remedy="Split it.",
        )
