"""What a message holds beside its text: kept as JSON, with long strings named instead of kept."""

import hashlib
from typing import Any

import msgspec

LONGEST = 10_000
"""Characters of one string; images and sound as base64 have more."""
LARGEST = 100_000
"""Bytes of everything that one message holds beside its text, as JSON."""
SHORT = 200


def bounded(value: Any) -> Any:
    """The JSON, where a string that is too long is a word on its size and its hash.

    If it is too large even so, all but short strings become such words; and then the whole of it.
    """
    for longest in (LONGEST, SHORT):
        value = _shortened(value, longest)
        if len(encoded := msgspec.json.encode(value)) <= LARGEST:
            return value
    return _named(encoded, f"{len(encoded)} bytes")


def _shortened(value: Any, longest: int) -> Any:
    if isinstance(value, str) and len(value) > longest:
        return _named(value.encode(errors="replace"), f"{len(value)} characters")
    if isinstance(value, list):
        return [_shortened(item, longest) for item in value]
    if isinstance(value, dict):
        return {key: _shortened(item, longest) for key, item in value.items()}
    return value


def _named(data: bytes, size: str) -> str:
    return f"[not kept: {size}, sha256 {hashlib.sha256(data).hexdigest()}]"
