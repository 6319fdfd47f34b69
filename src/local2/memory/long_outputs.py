"""Store long tool outputs whole, under a key that only their owner can read; make them searchable.

The record of a result has a preview of a long output, or all of it if it was ingested, of which
recall reads the beginning. The rest is searched as records of its own, the parts, which come and go
with that record.
"""

import asyncio

import msgspec

from local2.errors import InvalidArgumentsError
from local2.ledger.ledger import Ledger
from local2.ledger.operations.sessions import StoredOutput
from local2.ledger.records import NewRecord, features_of
from local2.protocol.payloads import SEARCHED_CHARACTERS, OutputPart, new_output_key

OF_CALL = ("args", "tool_output_key")
"""Names in the metadata of a result that its parts have, too."""
WITHOUT_PARTS = 12_800
"""Maximum characters of a record that has no parts, but for a preview; the others' parts begin
there."""
PART = 4_000
"""Maximum characters of a part. Of shorter ones there are more to rank and to embed; longer ones
have more words of a question by chance."""


class LongOutputs:
    """The tool outputs of one owner. Keys of different owners are independent."""

    def __init__(self, ledger: Ledger, owner: str) -> None:
        self._outputs = ledger.outputs
        self._owner = owner

    async def store(self, content: str) -> str:
        """Store a whole output; return its key."""
        key = new_output_key()
        await self.store_part(OutputPart(key=key, offset=0, text=content, last=True))
        return key

    async def store_part(self, part: OutputPart) -> None:
        """Store the next part of an output. Storing a part again has no effect.

        Raises:
            InvalidArgumentsError: The previous part is missing, or the output is complete.
        """
        if not await self._outputs.store(self._owner, part):
            raise InvalidArgumentsError(
                f"offset: no part of {part.key} can be added at {part.offset}.",
                remedy="Send the parts in order, each after the previous one is acknowledged.",
            )

    async def read(self, key: str, offset: int, limit: int) -> StoredOutput:
        """Up to `limit` characters of an output from `offset` on.

        Raises:
            InvalidArgumentsError: The owner has no such output, it is incomplete, or it ends before
                the offset.
        """
        stored = await self._outputs.read(self._owner, key, offset, limit)
        if stored is None:
            raise InvalidArgumentsError(
                f"tool_output_key: you have no tool output {key!r}.",
                remedy="Copy the key exactly as the preview names it.",
            )
        if not stored.complete:
            raise InvalidArgumentsError(
                f"tool_output_key: {key} is not complete; its sender stopped before the end.",
                remedy="Call the tool again.",
            )
        if offset >= stored.total:
            raise InvalidArgumentsError(
                f"offset: {key} ends at {stored.total}.", remedy="Use a smaller offset."
            )
        return stored

    async def with_parts(self, record: NewRecord) -> NewRecord:
        """The record; that of a long output with the parts that are searched besides.

        An output whose agent sent a preview, but did not store it to the end, has none.
        """
        if record.kind != "tool_output":
            return record
        key, text = record.metadata.get("tool_output_key"), record.output or record.content
        if key is not None and record.output is None:
            stored = await self._outputs.read(self._owner, key, 0, SEARCHED_CHARACTERS)
            if stored is None or not stored.complete:
                return record
            text = stored.text
        elif record.content == text and len(text) <= WITHOUT_PARTS:
            return record
        parts = await asyncio.to_thread(_parts, record, text)
        return msgspec.structs.replace(record, parts=parts)


def _parts(record: NewRecord, text: str) -> tuple[NewRecord, ...]:
    """A record for each part, with its features: extracting them in a write would delay others.

    Parts end between lines or words if possible.
    """
    begin, until = WITHOUT_PARTS, len(text)
    if record.content != text:  # what the preview leaves out
        shown = record.content.partition("\n")[2]
        begin = _end_between(text, 0, _alike(shown, text))
        until = len(text) - _alike(shown[::-1], text[::-1])
    until = min(until, SEARCHED_CHARACTERS)
    of_call = {name: record.metadata[name] for name in OF_CALL if name in record.metadata}
    parts = []
    while begin < until:
        end = until if until - begin <= PART else _end_between(text, begin, begin + PART)
        if not text[begin:end].isspace():
            part = msgspec.structs.replace(
                record,
                kind="output_part",
                content=text[begin:end],
                alias=None,
                pending=None,
                metadata={**of_call, "offset": begin},
                output=None,
            )
            parts.append(msgspec.structs.replace(part, features=features_of(part)))
        begin = end
    return tuple(parts)


def _alike(one: str, other: str) -> int:
    """The number of characters at the beginning of two texts that are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


def _end_between(text: str, begin: int, end: int) -> int:
    """The end of the last line, or else of the last word, in the second half of a piece."""
    half = (begin + end) // 2
    return text.rfind("\n", half, end) + 1 or text.rfind(" ", half, end) + 1 or end
