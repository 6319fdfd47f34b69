"""Read the JSON objects of a file one by one, so that a file of any size fits into memory.

The file has them in a list, under a prefix in ijson's form, or one in each line. One that is larger
than `MAX_OBJECT_BYTES` is refused before it is in memory.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, NamedTuple, Self, TypeVar

import ijson
import msgspec

from local2.errors import BadRequestError, TooLargeError, abridged
from local2.protocol.json_text import read_json, without_half_characters
from local2.protocol.payloads import Json
from local2.sources.files import SourceFile, reading
from local2.sources.items import LeftOuts

MAX_OBJECT_BYTES = 32_000_000
"""Maximum bytes of an object: no conversation of a real export comes near it."""
SNIFFED_BYTES = 1_000_000
"""Bytes within which the format of a file must show."""
PIECE_BYTES = 65_536
"""Bytes that are read at a time."""
MAX_DEPTH = 500
"""Maximum depth of nesting. The parser's time grows with its square."""
ESCAPES = re.compile(rb"\\.", re.DOTALL)
NON_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
OPENING = frozenset(b"[{")
UNFINISHED = re.compile(
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z"  # an escape, or a pair
    rb"|\xed[\xa0-\xbf]?\Z"  # half a character in UTF-8
)
"""The end of a piece of JSON whose meaning depends on what follows."""
LONGEST_UNFINISHED = len(rb"\ud83d\ude0")
BOM = b"\xef\xbb\xbf"
END = object()
JSON_ERRORS = (ijson.JSONError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)

S = TypeVar("S", bound=msgspec.Struct)
Count = Callable[[int], None]
"""Is called with the number of bytes that were just read."""


class FoundObject(NamedTuple):
    """A JSON object, and the name by which a report calls it."""

    name: str
    value: Json


def converted(found: FoundObject, type_: type[S], left_out: LeftOuts) -> S | None:
    """Convert an object; one of another form is left out."""
    try:
        return msgspec.convert(found.value, type_)
    except (msgspec.ValidationError, RecursionError) as error:
        left_out.refuse(f"{found.name}: {abridged(error)}", "of another form than expected")
        return None


class Shape(NamedTuple):
    """The kind of a file's objects, and where they are: under a prefix, or one in each line."""

    kind: str
    prefix: str
    by_lines: bool

    @classmethod
    def guessed(cls, file: SourceFile) -> Self:
        """The shape of a file whose kind is not recognised."""
        with reading(file.name), file.open() as opened:
            is_list = opened.read(SNIFFED_BYTES).removeprefix(BOM).lstrip().startswith(b"[")
        return cls("", "item" if is_list else "", not is_list and _is_by_lines(file))


def shape_of(file: SourceFile, signs: Mapping[str, Mapping[str, str]]) -> Shape | None:
    """Recognise a file by the names of fields; None if it is not JSON, or none of them is there.

    Args:
        file: The file.
        signs: Under each prefix, the kind by the name of a field.
    """
    with reading(file.name), file.open() as opened:
        beginning = _Pieces(opened, SNIFFED_BYTES)
        try:
            for prefix, event, value in ijson.parse(beginning, multiple_values=True):
                if event == "map_key" and (kind := signs.get(prefix, {}).get(value)):
                    return Shape(kind, prefix, not prefix and _is_by_lines(file))
        except (*JSON_ERRORS, TooLargeError):
            pass
    return None


def _is_by_lines(file: SourceFile) -> bool:
    """Whether the first line is an object by itself; one that is too long counts as one."""
    with reading(file.name), file.open() as opened:
        line = opened.readline(MAX_OBJECT_BYTES + 1)
    if len(line) > MAX_OBJECT_BYTES:
        return True
    try:
        return isinstance(read_json(line.removeprefix(BOM)), dict)
    except JSON_ERRORS:
        return False


def objects_in(
    file: SourceFile, shape: Shape, left_out: LeftOuts, count: Count
) -> Iterator[FoundObject]:
    """Yield the objects of a file.

    Raises:
        BadRequestError: The file cannot be read, or is not JSON from some place on.
        TooLargeError: An object is too large.
    """
    with reading(file.name), file.open() as opened:
        read = _by_lines(opened, file, left_out, count) if shape.by_lines else None
        for place, value in read or _by_prefix(opened, file, shape.prefix, count):
            if isinstance(value, dict):
                yield FoundObject(f"{file.name}: {place}", value)
            else:
                left_out.refuse(f"{file.name}: {place}", "no objects")


def _by_lines(
    opened: IO[bytes], file: SourceFile, left_out: LeftOuts, count: Count
) -> Iterator[tuple[str, Any]]:
    """Yield what the lines contain; a line that is broken or too long is left out."""
    number = 0
    while line := opened.readline(MAX_OBJECT_BYTES):
        number += 1
        count(len(line))
        place = f"line {number}"
        if not line.endswith(b"\n") and len(line) == MAX_OBJECT_BYTES:
            left_out.refuse(f"{file.name}: {place}", f"lines of {MAX_OBJECT_BYTES:,} bytes or more")
            while line and not line.endswith(b"\n"):
                line = opened.readline(MAX_OBJECT_BYTES)
                count(len(line))
            continue
        if number == 1:
            line = line.removeprefix(BOM)
        if not line.strip():
            continue
        try:
            yield place, read_json(line)
        except JSON_ERRORS as error:
            left_out.refuse(f"{file.name}: {place}: {abridged(error)}", "broken JSON")


def _by_prefix(
    opened: IO[bytes], file: SourceFile, prefix: str, count: Count
) -> Iterator[tuple[str, Any]]:
    """Yield what is under a prefix.

    Raises:
        BadRequestError: The file is not JSON from some place on.
        TooLargeError: An object is too large.
    """
    pieces = _Pieces(opened, MAX_OBJECT_BYTES, count)
    found = ijson.items(pieces, prefix, buf_size=PIECE_BYTES, use_float=True)
    number = 0
    while True:
        number += 1
        pieces.since_object = 0
        try:
            value = next(found, END)
        except JSON_ERRORS as error:
            (said, *_) = error.args  # bytes, if the parser quotes some that are not UTF-8
            said = said.decode(errors="replace") if isinstance(said, bytes) else str(error)
            raise BadRequestError(
                f"{file.name} is broken: after object {number - 1}, it is not JSON: "
                f"{abridged(said).splitlines()[0].rstrip('.')}.",
                remedy="Get the export once more.",
            ) from error
        except TooLargeError as error:
            raise TooLargeError(
                f"{file.name}: after object {number - 1}, one {error.message}",
                remedy="No conversation is like that: is it the right file?",
            ) from error
        if value is END:
            return
        yield f"object {number}", value


class _Pieces:
    """A file as ijson reads it, with U+FFFD in place of half characters (`json_text.py`).

    Reading raises a TooLargeError if an object has more than `max_bytes`, or is nested too deeply.
    """

    def __init__(self, opened: IO[bytes], max_bytes: int, count: Count = lambda _: None) -> None:
        self._opened = opened
        self._count = count
        self._max_bytes = max_bytes
        self._held = b""
        self._began = False
        self._in_string = False
        self._depth = 0
        self.since_object = 0
        """Bytes read since the last object was complete."""

    def read(self, size: int) -> bytes:
        """Read the next piece, which ends before an escape that may not be complete yet."""
        if not size:  # ijson asks so whether it gets bytes
            return b""
        piece = b""
        while not piece:
            data = self._opened.read(size)
            self._count(len(data))
            self.since_object += len(data)
            if self.since_object > self._max_bytes:
                raise TooLargeError(f"has more than {self._max_bytes:,} bytes.")
            if not self._began:
                self._began, data = True, data.removeprefix(BOM)
            whole = self._held + data
            end = len(whole)
            if data:  # nothing is cut within an escape, or half a character in UTF-8
                tail = max(0, len(whole) - LONGEST_UNFINISHED)
                end = next(UNFINISHED.finditer(whole, tail)).start()
                backslashes = end - len(whole[:end].rstrip(b"\\"))
                end -= backslashes % 2  # after an odd number of them, it is escaped itself
            piece, self._held = whole[:end], whole[end:]
            if not data:
                break
        # The depth is that of the brackets outside strings.
        without_escapes = ESCAPES.sub(b"", piece)
        outside_strings = without_escapes.split(b'"')[self._in_string :: 2]
        self._in_string ^= without_escapes.count(b'"') % 2 == 1
        for bracket in b"".join(outside_strings).translate(None, NON_BRACKETS):
            self._depth += 1 if bracket in OPENING else -1
            if self._depth > MAX_DEPTH:
                raise TooLargeError(f"is nested more than {MAX_DEPTH} levels deep.")
        return without_half_characters(piece)
