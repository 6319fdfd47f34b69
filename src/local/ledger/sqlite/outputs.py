"""Long outputs of tools, in parts, under the key of their owner."""

from local.ledger.records import StoredOutput
from local.ledger.sqlite.database import Connection
from local.ledger.sqlite.rows import TenantRows
from local.protocol.payloads import OutputPart


class Outputs:
    """One tenant's outputs; another owner's of the same key are others."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    async def store(self, owner: str, part: OutputPart) -> bool:
        """Add the next part of an output, which may be there already.

        False if the part before it is missing, or the output is complete.
        """
        values = {
            "owner": owner,
            "key": part.key,
            "first": part.offset,
            "last": part.last,
            "text": part.text,
        }
        until = part.offset + len(part.text)

        def store(connection: Connection) -> bool:
            added = self._rows.execute(connection, "append_output", **values, until=until).rowcount
            return bool(added or self._rows.execute(connection, "same_part", **values).fetchone())

        return await self._rows.write(store)

    async def read(self, owner: str, key: str, offset: int, limit: int) -> StoredOutput | None:
        """What is stored under a key, with up to `limit` characters of it from `offset` on."""

        def read(connection: Connection) -> StoredOutput | None:
            size = self._rows.execute(connection, "output_size", owner=owner, key=key).fetchone()
            if size is None:
                return None
            asked = {"owner": owner, "key": key, "first": offset, "until": offset + limit}
            rows = self._rows.execute(connection, "output_parts", **asked).fetchall()
            start = offset - rows[0]["first"] if rows else 0
            return StoredOutput(
                total=size["total"],
                complete=bool(size["complete"]),
                text="".join(row["text"] for row in rows)[start : start + limit],
            )

        return await self._rows.read(read)
