"""Searches: every channel is asked for what a question needs, and what is best is chosen.

A small memory is looked at whole, of a large one what its words and vectors point to. Either takes
two reads once it is known in memory: one while the question is embedded, and one then.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import TypeVar

import msgspec

from local.ledger.choice import Chooses, Drafts, Look
from local.ledger.search import Search
from local.ledger.sqlite import finding
from local.ledger.sqlite.candidates import Filter
from local.ledger.sqlite.finding import BehindOthersError, Drafted, Finding, Pooled
from local.ledger.sqlite.fulltext import FullText
from local.ledger.sqlite.rows import TenantRows
from local.ledger.sqlite.working_sets import WorkingSets

TURNS_TO_SEND = 5
"""Turns of the event loop until a question has left for the worker; a thread that reads the ledger
meanwhile takes the interpreter from it for most of a millisecond."""

D = TypeVar("D")
T = TypeVar("T")


class Searches:
    """One tenant's; what is asked for again and again stays in memory."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows
        self._full_text = FullText(rows)
        self._working_sets = WorkingSets(rows)

    async def waits(self, search: Search) -> bool:
        """Whether some of what is searched waits for its vector."""
        asked = msgspec.structs.asdict(Filter.of(self._rows.tenant, search))
        row = await self._rows.one("has_waiting", **asked)
        return bool(row and row["waiting"])

    async def find(self, search: Search, look: Look, draft: Drafts[D], choose: Chooses[D, T]) -> T:
        """Ask every channel, and choose from what they found, while it is being read.

        Args:
            search: What to look for, and where.
            look: Asks the vectors; once more where the nearest are others'.
            draft: What can be made without the vector; in a small memory while that is made.
            choose: Chooses; it yields what else it wants to know of some rows.
                Both are called off the event loop.

        Raises:
            StorageError: The ledger cannot be read.
        """
        filter_ = Filter.of(self._rows.tenant, search)
        asked = Finding(self._rows, self._full_text, search, filter_, draft, choose)
        if await self._working_sets.fits(filter_.words):
            meaning, drafted = await asyncio.gather(look(0), self._drafted(asked))
            if drafted is not None:
                return await self._rows.read(partial(asked.of_all, meaning, drafted))
        meaning, pooled = await asyncio.gather(look(finding.LOOK), self._pooled(asked))
        chosen = partial(asked.of_pooled, pooled)
        with suppress(BehindOthersError):
            return await self._rows.read(partial(chosen, meaning, None))
        further = await look(finding.FURTHER_LOOK)
        if further.hits is not None:
            with suppress(BehindOthersError):
                return await self._rows.read(partial(chosen, further, None))
        nearest = await asked.nearest_of_all(meaning)
        return await self._rows.read(partial(chosen, meaning, nearest))

    async def _drafted(self, asked: Finding[D, T]) -> Drafted[D] | None:
        """Of a whole memory; None if it has become too large."""
        await _question_has_left()
        columns = await self._working_sets.of(asked.filter.words)
        if columns is None:
            return None
        return await self._rows.read(partial(asked.draft_of_all, columns))

    async def _pooled(self, asked: Finding[D, T]) -> Pooled:
        await _question_has_left()
        return await self._rows.read(asked.pool_by_words)


async def _question_has_left() -> None:
    for _ in range(TURNS_TO_SEND):
        await asyncio.sleep(0)
