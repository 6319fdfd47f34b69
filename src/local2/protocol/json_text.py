r"""Read JSON text as other programs write it.

Programs in JavaScript cut texts between the two halves of an emoji, and write such a half as an
escape (`\ud83d`), which is no character. It is read as U+FFFD, and the rest of the text as it is.
"""

import re
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

REPLACEMENT: Final = rb"\ufffd"
_SURROGATE: Final = (
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole pair
    rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"  # half of one, or any other escape
    rb"|(?P<raw>\xed[\xa0-\xbf][\x80-\xbf])"  # half of one in UTF-8, where it is not allowed
)


def read_json(data: bytes, decode: Callable[[bytes], T] = msgspec.json.decode) -> T:
    """Decode JSON, with U+FFFD in place of each half of a surrogate pair.

    Raises:
        msgspec.DecodeError: It is not JSON, or not what `decode` expects (ValidationError).
        UnicodeDecodeError: It is not UTF-8.
        RecursionError: It is nested too deeply.
    """
    try:
        return decode(data)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        mended = without_half_characters(data)
        if mended == data:
            raise
    return decode(mended)


def without_half_characters(data: bytes) -> bytes:
    """Put U+FFFD in place of each half of a surrogate pair in a JSON text."""

    def replaced(escape: re.Match[bytes]) -> bytes:
        return REPLACEMENT if escape["half"] or escape["raw"] else escape[0]

    return re.sub(_SURROGATE, replaced, data, flags=re.DOTALL)  # compiled when first needed
