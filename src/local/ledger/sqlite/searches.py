"""Searches: every channel is asked for what a question needs, and the best of it is chosen.

A small memory is looked at whole; in a large one, the records that its words and vectors point to.
Either way a search takes two reads once the memory is held in columns: one while the question is
embedded, and one when its vector has come.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import TypeVar

import msgspec

from local.ledger.search import AskVectors, Chooser, Drafter, Meaning, Search
from local.ledger.sqlite.candidates import Filter
from local.ledger.sqlite.fulltext import FullText
from local.ledger.sqlite.rows import TenantRows
from local.ledger.sqlite.search_run import (
    FURTHER_LOOK,
    LOOK,
    BehindOthersError,
    Drafted,
    PoolMatches,
    SearchRun,
)
from local.ledger.sqlite.working_sets import Held, WorkingSets

TURNS_TO_SEND = 5
"""Turns of the event loop until a question has left for the worker; a thread that reads the ledger
meanwhile takes the interpreter from it for most of a millisecond."""

D = TypeVar("D")
T = TypeVar("T")


class OtherEmbedderError(Exception):
    """The question was embedded by another embedder than what it is to be compared with."""

    def __init__(self, embedder: str) -> None:
        super().__init__(embedder)
        self.embedder = embedder


class Searches:
    """One tenant's; what is asked for again and again stays in memory."""

    def __init__(self, rows: TenantRows, held: Held) -> None:
        """`held`: the budgets of what stays in memory, which every tenant shares."""
        self._rows = rows
        self._full_text = FullText(rows, held)
        self._working_sets = WorkingSets(rows, held.records)
        self._embedder = ""

    def expect(self, embedder: str) -> None:
        """Questions will be embedded by this one."""
        if embedder != self._embedder:
            self._embedder = embedder
            self._working_sets.keep_only(embedder)

    async def prepare(self, embedder: str) -> None:
        """Read ahead what questions need once another embedder answers them."""
        await self._working_sets.prepare(embedder)

    def forget_held(self) -> None:
        """Hold nothing in memory that may have been erased."""
        self._working_sets.clear()

    async def waits(self, search: Search) -> bool:
        """Whether some of what is searched waits for its vector."""
        asked = msgspec.structs.asdict(Filter.of(self._rows.tenant, search))
        row = await self._rows.one("has_waiting", **asked)
        return bool(row and row["waiting"])

    async def find(
        self, search: Search, look: AskVectors, draft: Drafter[D], choose: Chooser[D, T]
    ) -> T:
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
        while True:
            try:
                return await self._find(search, look, draft, choose)
            except OtherEmbedderError as error:
                self.expect(error.embedder)

    async def _find(
        self, search: Search, look: AskVectors, draft: Drafter[D], choose: Chooser[D, T]
    ) -> T:
        filter_ = Filter.of(self._rows.tenant, search, self._embedder)
        asked = SearchRun(self._rows, self._full_text, search, filter_, draft, choose)
        retired = search.as_of is not None and await self._rows.read(asked.retired_since)
        if not retired and await self._working_sets.fits(filter_.words):
            meaning, drafted = await asyncio.gather(look(0), self._drafted(asked))
            _check(meaning, filter_)
            if drafted is not None:
                return await self._rows.read(partial(asked.of_all, meaning, drafted))
        meaning, pooled = await asyncio.gather(look(LOOK), self._pooled(asked))
        _check(meaning, filter_)
        chosen = partial(asked.of_pooled, pooled)
        with suppress(BehindOthersError):
            return await self._rows.read(partial(chosen, meaning, None))
        further = await look(FURTHER_LOOK)
        _check(further, filter_)
        if further.hits is not None:
            with suppress(BehindOthersError):
                return await self._rows.read(partial(chosen, further, None))
        nearest = await asked.nearest_of_all(meaning)
        return await self._rows.read(partial(chosen, meaning, nearest))

    async def _drafted(self, asked: SearchRun[D, T]) -> Drafted[D] | None:
        """Of a whole memory; None if it has become too large."""
        await _question_has_left()
        columns = await self._working_sets.of(asked.filter.words, asked.filter.embedder)
        if columns is None:
            return None
        return await self._rows.read(partial(asked.draft_of_all, columns))

    async def _pooled(self, asked: SearchRun[D, T]) -> PoolMatches:
        await _question_has_left()
        return await self._rows.read(asked.pool_by_words)


def _check(meaning: Meaning, filter_: Filter) -> None:
    """Raise if the question's vector cannot be compared with those that were read."""
    if meaning.hits is not None and meaning.hits.embedder != filter_.embedder:
        raise OtherEmbedderError(meaning.hits.embedder)


async def _question_has_left() -> None:
    for _ in range(TURNS_TO_SEND):
        await asyncio.sleep(0)
