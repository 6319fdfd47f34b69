"""Searches: every channel receives the question, and the best of the results is chosen.

A small memory is scored completely; in a large one, only the records that words and vectors find.
Either way a search takes two reads once the memory is held in columns: one while the question is
embedded, and one when its vector has come.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

import msgspec

from local.ledger.columns import Columns, View
from local.ledger.entries import ECHO
from local.ledger.search import (
    AskVectors,
    Chooser,
    DetailRequest,
    Details,
    Drafter,
    Matches,
    Meaning,
    Search,
    WordMatches,
    run_choice,
)
from local.ledger.sqlite.candidates import Filter, Pool
from local.ledger.sqlite.database import SqlConnection
from local.ledger.sqlite.fulltext import FURTHER_LOOK, FullText, PoolMatches
from local.ledger.sqlite.rows import TenantRows
from local.ledger.sqlite.working_sets import Held, WorkingSets
from local.protocol.vectors import VectorHits

LOOK = 50
ENOUGH = 20
"""So many of the nearest vectors, or the best rows, must be visible; otherwise the search goes
on."""
OWN = 3_000
"""Records compared in one read, where the nearest in the index are others'."""
TURNS_TO_SEND = 5
"""Turns of the event loop until a question has left for the worker; a thread that reads the ledger
meanwhile takes the interpreter from it for most of a millisecond."""

D = TypeVar("D")
T = TypeVar("T")
Drafted = tuple[WordMatches, D]


class OtherEmbedderError(Exception):
    """The question was embedded by another embedder than the records."""

    def __init__(self, embedder: str) -> None:
        super().__init__(embedder)
        self.embedder = embedder


class BehindOthersError(Exception):
    """Too few of the nearest vectors are the caller's."""


class SearchRun(Generic[D, T]):
    """One search, in a few reads; its methods take a connection."""

    def __init__(  # noqa: PLR0913, PLR0917 - what is looked for, and what is made of it
        self,
        rows: TenantRows,
        full_text: FullText,
        search: Search,
        filter_: Filter,
        draft: Drafter[D],
        choose: Chooser[D, T],
    ) -> None:
        self._rows = rows
        self._full_text = full_text
        self._search = search
        self.filter = filter_
        self._draft = draft
        self._choose = choose

    def draft_of_all(self, columns: Columns, connection: SqlConnection) -> Drafted[D]:
        """Return the draft for a whole memory, made before the question's vector comes."""
        pool = self._pool(connection)
        worded = WordMatches(
            view=self._view(columns, pool),
            topics=pool.by_topics(self._search.topics),
            phrases=self._full_text.phrases(connection, self._search, self.filter),
        )
        return worded, self._draft(worded)

    def of_all(self, meaning: Meaning, drafted: Drafted[D], connection: SqlConnection) -> T:
        """Return the choice from a whole memory."""
        worded, draft = drafted
        pool = self._pool(connection)

        def given(wanted: DetailRequest) -> Details:
            return Details(
                related=pool.related(wanted.related) if wanted.related else {},
                sources=pool.sources(wanted.sources) if wanted.sources else {},
                texts=pool.texts(wanted.texts) if wanted.texts else {},
                records=pool.records(wanted.records) if wanted.records else {},
                relations=pool.relations(wanted.relations) if wanted.relations else {},
            )

        return run_choice(self._choose(Matches.of(worded, meaning), draft), given)

    def retired_since(self, connection: SqlConnection) -> bool:
        """Return whether some of the searched records were retired since: the columns lack them."""
        return bool(self._pool(connection).retired_since())

    def pool_by_words(self, connection: SqlConnection) -> PoolMatches:
        """Return what the words and the topics of a question find."""
        pool = self._pool(connection)
        return self._full_text.pool(connection, self._search, self.filter, pool)

    def of_pooled(
        self,
        pooled: PoolMatches,
        meaning: Meaning,
        nearest: list[int] | None,
        connection: SqlConnection,
    ) -> T:
        """Return the choice from candidates, with those that vectors and relations lead to.

        `nearest` are the rows of the caller's own, used if too many hits are others'.

        Raises:
            BehindOthersError: Too many hits are others'.
        """
        pool = self._pool(connection, pooled.pool)
        if meaning.hits is not None:
            pool.add(_nearest(pool, meaning.hits) if nearest is None else nearest)
        related = pool.related(list(pool.candidates))
        pool.add([one.row for others in related.values() for one in others])
        sources = pool.sources([c.row for c in pool.candidates.values() if c.echo == ECHO])
        pool.add([row for echo in sources.values() for row in echo.sources])

        def given(wanted: DetailRequest) -> Details:
            return Details(
                related={row: related[row] for row in wanted.related if row in related},
                sources=sources,
                texts=pool.texts(wanted.texts) if wanted.texts else {},
                records=pool.records(wanted.records) if wanted.records else {},
                relations=pool.relations(wanted.relations) if wanted.relations else {},
            )

        worded = pooled.with_later(pool)
        return run_choice(self._choose(Matches.of(worded, meaning), self._draft(worded)), given)

    async def nearest_of_all(self, meaning: Meaning) -> list[int]:
        """Return the nearest of all that the caller may see, page by page: nothing hides them."""
        if meaning.hits is None:
            return []
        own = await self._rows.read(lambda c: self._pool(c).own())
        best: list[tuple[float, int]] = []
        for start in range(0, len(own), OWN):
            page = own[start : start + OWN]
            best += await self._rows.read(partial(self._compared, meaning.hits, page))
            best = sorted(best, reverse=True)[:LOOK]
        return [row for _, row in best]

    def _compared(
        self, hits: VectorHits, rows: list[int], connection: SqlConnection
    ) -> list[tuple[float, int]]:
        return self._pool(connection).compared(rows, hits, LOOK)

    def _pool(self, connection: SqlConnection, former: Pool | None = None) -> Pool:
        return Pool(self._rows, connection, self.filter, former)

    def _view(self, columns: Columns, pool: Pool) -> View:
        """Return the view of a memory; the ledger decides what lies in a session or a time."""
        asked = pool.being_asked()
        if self.filter.is_open:
            return columns.without(asked)
        return columns.within(set(pool.own()).difference(asked))


def _nearest(pool: Pool, hits: VectorHits) -> list[int]:
    """Return the nearest rows; the index holds everybody's vectors, which may hide the caller's."""
    nearest = pool.nearest(hits, LOOK)
    if len(nearest) >= ENOUGH or len(hits.hits) < LOOK:
        return nearest
    own = pool.own(OWN + 1)
    if len(own) > OWN:
        raise BehindOthersError
    return [row for _, row in pool.compared(own, hits, LOOK)]


class Searches:
    """One tenant's searches; what is searched repeatedly stays in memory."""

    def __init__(self, rows: TenantRows, held: Held) -> None:
        """`held`: the budgets of what stays in memory, which all tenants share."""
        self._rows = rows
        self._full_text = FullText(rows, held)
        self._working_sets = WorkingSets(rows, held.records)
        self._embedder = ""

    def expect(self, embedder: str) -> None:
        """Set the embedder of future questions."""
        if embedder != self._embedder:
            self._embedder = embedder
            self._working_sets.hold_only(embedder)

    async def prepare(self, embedder: str) -> None:
        """Read ahead what questions need once another embedder serves."""
        await self._working_sets.prepare(embedder)

    def forget_held(self) -> None:
        """Clear everything in memory that may have been erased."""
        self._working_sets.clear()

    async def waits(self, search: Search) -> bool:
        """Return whether some of what is searched waits for its vector."""
        asked = msgspec.structs.asdict(Filter.of(self._rows.tenant, search))
        row = await self._rows.one("has_waiting", **asked)
        return bool(row and row["waiting"])

    async def find(
        self, search: Search, look: AskVectors, draft: Drafter[D], choose: Chooser[D, T]
    ) -> T:
        """Ask every channel, and choose from the results, while they are being read.

        Args:
            search: What to look for, and where.
            look: Asks the vectors; again if the nearest are others'.
            draft: Makes what needs no vector; in a small memory while the vector is made.
            choose: Makes the choice; it yields what else it needs of some rows.
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
        """Return the draft for a whole memory; None if it has become too large."""
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
