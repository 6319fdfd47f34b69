"""Long tool outputs: whole, under a key, for their owner only."""

import msgspec

from local.errors import InvalidArgumentsError
from local.ledger.sqlite.database import Connection
from local.ledger.sqlite.rows import TenantRows
from local.protocol.payloads import OutputPart


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Characters `offset` up to `until` of an output that has `total` of them."""

    text: str
    offset: int
    total: int

    @property
    def until(self) -> int:
        return self.offset + len(self.text)


class ToolOutputs:
    """The outputs of one owner; another owner's of the same key are others."""

    def __init__(self, rows: TenantRows, owner: str) -> None:
        self._rows = rows
        self._owner = owner

    async def append(self, part: OutputPart) -> None:
        """Keep the next part of an output. One that is kept already changes nothing.

        Raises:
            InvalidArgumentsError: The part before this one is missing, or the output is complete.
        """
        values = {
            "owner": self._owner,
            "key": part.key,
            "first": part.offset,
            "last": part.last,
            "text": part.text,
        }
        until = part.offset + len(part.text)

        def append(connection: Connection) -> bool:
            added = self._rows.execute(connection, "append_output", **values, until=until).rowcount
            return bool(added or self._rows.execute(connection, "same_part", **values).fetchone())

        if not await self._rows.write(append):
            raise InvalidArgumentsError(
                f"offset: no part of {part.key} can be added at {part.offset}.",
                remedy="Send the parts in order, each once the one before is acknowledged.",
            )

    async def read(self, key: str, offset: int, limit: int) -> Piece:
        """Up to `limit` characters of an output from `offset` on.

        Raises:
            InvalidArgumentsError: The owner has no such output, its last part never came, or it
                ends before the offset.
        """
        total = await self._total(key)
        if offset >= total:
            raise InvalidArgumentsError(f"offset: {key} ends at {total}.", remedy="Start before.")
        rows = await self._rows.all(
            "output_parts", owner=self._owner, key=key, first=offset, until=offset + limit
        )
        start = offset - rows[0]["first"]
        text = "".join(row["text"] for row in rows)[start : start + limit]
        return Piece(text=text, offset=offset, total=total)

    async def _total(self, key: str) -> int:
        row = await self._rows.one("output_size", owner=self._owner, key=key)
        if row is None:
            raise InvalidArgumentsError(
                f"tool_output_key: you have no tool output {key!r}.",
                remedy="Copy the key exactly as the preview names it.",
            )
        if not row["complete"]:
            raise InvalidArgumentsError(
                f"tool_output_key: {key} is not complete; whoever sent it stopped in the middle.",
                remedy="Call the tool again.",
            )
        return int(row["total"])
