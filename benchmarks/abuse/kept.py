"""What a running stack has stored of an abuse, read from its ledger by a second process."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

CONTENTS = "SELECT content FROM record WHERE owner = ? AND kind = ?"
TURNS = """
    SELECT query_id FROM record WHERE owner GLOB ? AND query_id IS NOT NULL GROUP BY query_id
    HAVING sum(kind = 'episode') > 0 AND sum(role = 'user') > 0
       AND max(CASE WHEN role = 'assistant' THEN length(content) END) >= ?
"""
RECORDS = "SELECT count(*) FROM record WHERE owner = ? AND kind = ?"
COPIES = "SELECT content, count(*) FROM record WHERE owner = ? AND kind = ? GROUP BY content"
COPIES_OF_TURNS = """
    SELECT query_id, max(copies) FROM (
        SELECT query_id, count(*) AS copies FROM record
        WHERE owner = ? AND query_id IS NOT NULL GROUP BY query_id, kind, role)
    GROUP BY query_id
"""
CHUNKS = "SELECT count(*) FROM record WHERE kind = 'document_chunk' AND label GLOB ?"


class Kept:
    """The records of a ledger, by owner."""

    def __init__(self, ledger: Path) -> None:
        self._address = f"{ledger.resolve().as_uri()}?mode=ro"

    async def contents(self, user: str, kind: str) -> set[str]:
        """Return the texts of a user's records of this kind."""
        return {content for (content,) in await self._read(CONTENTS, user, kind)}

    async def turns(self, users: str, *, length: int = 0) -> set[str]:
        """Return the query ids of complete turns, of users that match a pattern.

        Turns with an answer of fewer characters than `length` do not count.
        """
        return {query_id for (query_id,) in await self._read(TURNS, users, length)}

    async def records(self, user: str, kind: str) -> int:
        """Count a user's records of this kind."""
        return int((await self._read(RECORDS, user, kind))[0][0])

    async def copies(self, user: str, kind: str) -> dict[str, int]:
        """Return the texts of a user's records of this kind, and how often each is stored."""
        return dict(await self._read(COPIES, user, kind))

    async def copies_of_turns(self, user: str) -> dict[str, int]:
        """Return the query ids of a user's turns, and how often each turn is stored."""
        return dict(await self._read(COPIES_OF_TURNS, user))

    async def chunks(self, title: str) -> int:
        """Count the chunks of the document with this title."""
        return int((await self._read(CHUNKS, f"{title}*"))[0][0])

    async def _read(self, statement: str, *values: object) -> Sequence[tuple[Any, ...]]:
        return await asyncio.to_thread(self._rows, statement, values)

    def _rows(self, statement: str, values: tuple[object, ...]) -> Sequence[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._address, uri=True)) as connection:
            return connection.execute(statement, values).fetchall()
