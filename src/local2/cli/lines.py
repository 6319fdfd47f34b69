"""The lines of a file, or of standard input, one by one: none of them fills the memory."""

import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from local2.errors import BadRequestError, InvalidArgumentsError
from local2.protocol.portable import MAX_LINE_BYTES

STANDARD_INPUT = Path("-")


def lines_in(file: Path) -> Iterator[bytes]:
    """Yield the lines without their ends, and without a byte order mark.

    Raises:
        BadRequestError: A line is too long.
        InvalidArgumentsError: The file cannot be read.
    """
    try:
        if file == STANDARD_INPUT:
            yield from _lines_of(sys.stdin.buffer)
        else:
            with file.open("rb") as source:
                yield from _lines_of(source)
    except OSError as error:
        raise InvalidArgumentsError(f"It cannot be read: {error.strerror}.") from error


def _lines_of(source: BinaryIO) -> Iterator[bytes]:
    number = 0
    while line := source.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise BadRequestError(
                f"Line {number} has more than {MAX_LINE_BYTES:,} bytes.",
                remedy="No line that local2 reads is that long: is it the right file?",
            )
        yield (line.removeprefix(BOM_UTF8) if number == 1 else line).rstrip(b"\r\n")
