"""Runs searches: queries every channel, and chooses the best of their results.

A small memory is scored as a whole; of a large one, only the records found by words and vectors.
Either way, once the memory is held in columns, a search takes two reads: one while the question is
being embedded, and one when its vector has arrived.
"""

import asyncio
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec

from local2.language.spelling import meant_by
from local2.ledger.columns import ECHO, Columns
from local2.ledger.engines import Database, FullText
from local2.ledger.operations.candidates import WIDER_LIMIT, Filter, Pool, PoolMatches
from local2.ledger.operations.transactions import TenantRows, Transaction
from local2.ledger.operations.vectors import nearest_rows
from local2.ledger.operations.working_sets import Budgets, WorkingSets
from local2.ledger.search import (
    AskVectors,
    Chooser,
    DetailRequest,
    Details,
    Drafter,
    Matches,
    Search,
    VectorResult,
    WordMatches,
    run_choice,
)
from local2.protocol.vectors import VectorHits

NEAREST = 50
"""Number of nearest hits requested from the vector index."""
MIN_VISIBLE = 20
"""Minimum number of visible hits among them; with fewer, the search continues."""
WIDER_NEAREST = 200
"""Number of nearest vectors in a database that searches them: some are of a session that is left
out, or were retired."""
OWN_RECORDS = 3_000
"""Number of own records compared in one read, if too many of the nearest hits are others'."""
ATTEMPTS = 3
"""How often a search is run while records that it has found are retired. The last answer lacks
them, and perhaps what replaced them."""

D = TypeVar("D")
T = TypeVar("T")
Drafted = tuple[WordMatches, D]


class OtherEmbedderError(Exception):
    """The question's vector is by another embedder than those of the records."""

    def __init__(self, embedder: str) -> None:
        super().__init__(embedder)
        self.embedder = embedder


class RetiredMeanwhileError(Exception):
    """A candidate was retired before it was read; what replaced it may not be a candidate."""


class HiddenByOthersError(Exception):
    """Too few of the nearest hits are visible to the caller, because others' records are nearer."""


class SearchRun(Generic[D, T]):
    """One search, in a few reads; its methods take a transaction."""

    def __init__(  # noqa: PLR0917 - the search, and how its results are chosen
        self,
        rows: TenantRows,
        full_text: FullText,
        search: Search,
        filter_: Filter,
        draft: Drafter[D],
        choose: Chooser[D, T],
        *,
        may_run_again: bool,
    ) -> None:
        """`may_run_again`: whether to raise RetiredMeanwhileError rather than leave a record out.

        Others write between two reads of a search, and between two statements of a read.
        """
        self._may_run_again = may_run_again
        self._rows = rows
        self._full_text = full_text
        self._search = search
        self.filter = filter_
        self._draft = draft
        self._choose = choose

    def draft_whole(self, tx: Transaction, columns: Columns) -> Drafted[D]:
        """The draft for a whole memory, made before the question's vector arrives."""
        pool = Pool(tx, self.filter)
        # What the search may find: the ledger applies the conditions.
        asked = pool.pending_question()
        if self.filter.is_open:
            view = columns.without(asked)
        else:
            view = columns.within(set(pool.own_rows()).difference(asked))
        worded = WordMatches(
            view=view,
            topics=pool.rows_of_topics(self._search.topics),
            phrases=pool.rows_of_phrases(self._search.phrases),
            meant=meant_by(self._search.terms, view.stating, self._search.optional),
        )
        return worded, self._draft(worded)

    def choose_from_whole(self, tx: Transaction, meaning: VectorResult, drafted: Drafted[D]) -> T:
        """The choice from a whole memory."""
        worded, draft = drafted
        pool = Pool(tx, self.filter)

        def details_of(wanted: DetailRequest) -> Details:
            found = pool.details(
                wanted,
                related=pool.related(wanted.related) if wanted.related else {},
                sources=pool.sources(wanted.sources) if wanted.sources else {},
            )
            return self._checked(found, wanted)

        return run_choice(self._choose(Matches.of(worded, meaning), draft), details_of)

    def has_retired_since(self, tx: Transaction) -> bool:
        """Whether searched records were retired after `as_of`: the columns lack them."""
        return bool(Pool(tx, self.filter).retired_rows())

    def pool_by_words(self, tx: Transaction) -> PoolMatches:
        """The candidates by words and topics."""
        pool = Pool(tx, self.filter)
        return self._full_text.pool(tx, self._search, self.filter, pool)

    def choose_from_pool(
        self,
        tx: Transaction,
        pooled: PoolMatches,
        meaning: VectorResult,
        nearest: list[int] | None,
    ) -> T:
        """Add the candidates by vectors and relations; return the choice from all candidates.

        `nearest` are the caller's own nearest rows, if they have been determined; they replace the
        hits.

        Raises:
            HiddenByOthersError: Too few of the hits are visible, and `nearest` is None.
        """
        pool = Pool(tx, self.filter, pooled.pool)
        if meaning.hits is not None:
            pool.add(_nearest(pool, meaning.hits) if nearest is None else nearest)
        related = pool.related(list(pool.candidates))
        pool.add([other.row for others in related.values() for other in others])
        sources = pool.sources([c.row for c in pool.candidates.values() if c.echo == ECHO])
        pool.add([row for found in sources.values() for row, _ in found])

        def details_of(wanted: DetailRequest) -> Details:
            found = pool.details(
                wanted,
                related={row: related[row] for row in wanted.related if row in related},
                sources=sources,
            )
            return self._checked(found, wanted)

        worded = pooled.with_later(pool)
        choice = self._choose(Matches.of(worded, meaning), self._draft(worded))
        return run_choice(choice, details_of)

    def choose_with_nearest(self, tx: Transaction, pooled: PoolMatches, meaning: VectorResult) -> T:
        """Choose as `choose_from_pool` does, from the nearest vectors in the database.

        Raises:
            HiddenByOthersError: Too few of them match the filter.
        """
        if meaning.hits is None:
            return self.choose_from_pool(tx, pooled, meaning, [])
        rows = nearest_rows(tx, self.filter, meaning.hits, WIDER_NEAREST)
        nearest = Pool(tx, self.filter, pooled.pool).take_first(rows, NEAREST)
        if len(nearest) < MIN_VISIBLE and len(rows) == WIDER_NEAREST:
            raise HiddenByOthersError
        return self.choose_from_pool(tx, pooled, meaning, nearest)

    async def nearest_of_all(self, meaning: VectorResult) -> list[int]:
        """Compare all records that the caller may see, page by page; return the nearest rows."""
        if (hits := meaning.hits) is None:
            return []

        def compared(tx: Transaction, rows: list[int]) -> list[tuple[float, int]]:
            return Pool(tx, self.filter).compare_vectors(rows, hits, NEAREST)

        own = await self._rows.read(lambda tx: Pool(tx, self.filter).own_rows())
        best: list[tuple[float, int]] = []
        for start in range(0, len(own), OWN_RECORDS):
            best += await self._rows.read(compared, own[start : start + OWN_RECORDS])
            best = sorted(best, reverse=True)[:NEAREST]
        return [row for _, row in best]

    def _checked(self, found: Details, wanted: DetailRequest) -> Details:
        if self._may_run_again and any(row not in found.records for row in wanted.records):
            raise RetiredMeanwhileError
        return found


def _nearest(pool: Pool, hits: VectorHits) -> list[int]:
    """The nearest visible rows; the index holds all owners' vectors.

    Raises:
        HiddenByOthersError: Too few hits are visible, and there are too many records to compare.
    """
    nearest = pool.take_nearest(hits, NEAREST)
    if len(nearest) >= MIN_VISIBLE or len(hits.hits) < NEAREST:
        return nearest
    own = pool.own_rows(OWN_RECORDS + 1)
    if len(own) > OWN_RECORDS:
        raise HiddenByOthersError
    return [row for _, row in pool.compare_vectors(own, hits, NEAREST)]


class Searches:
    """One tenant's searches; memories that are searched repeatedly stay in RAM."""

    def __init__(self, database: Database, rows: TenantRows, budgets: Budgets) -> None:
        """`budgets`: the limits of what is held in RAM, which all tenants share."""
        self._rows = rows
        self._searches_vectors = database.searches_vectors
        self._full_text = database.full_text(budgets)
        self._working_sets = WorkingSets(rows, budgets.records)
        self._embedder = ""

    def expect(self, embedder: str) -> None:
        """Set the embedder of future questions."""
        if embedder != self._embedder:
            self._embedder = embedder
            self._working_sets.hold_only(embedder)

    async def prepare(self, embedder: str) -> None:
        """Read in advance what searches need once another embedder serves."""
        await self._working_sets.prepare(embedder)

    def forget_held(self) -> None:
        """Drop everything in RAM that may have been erased."""
        self._working_sets.clear()

    async def has_waiting(self, search: Search) -> bool:
        """Whether some of the searched records wait for their vectors."""
        asked = msgspec.structs.asdict(Filter.of(self._rows.tenant, search))
        row = await self._rows.one("has_waiting", **asked)
        return bool(row and row["waiting"])

    async def may_find(self, search: Search, row: int) -> bool:
        """Whether a record fulfils the conditions of a search."""
        filter_ = Filter.of(self._rows.tenant, search)
        return await self._rows.read(lambda tx: bool(Pool(tx, filter_).take_first([row], 1)))

    async def find(
        self, search: Search, ask_vectors: AskVectors, draft: Drafter[D], choose: Chooser[D, T]
    ) -> T:
        """Query every channel, and return the choice from the results.

        Args:
            search: What to search for, and where.
            ask_vectors: Embeds the question, and queries the vector index unless the database
                searches vectors itself; called again if too many hits are others'.
            draft: Computes what does not need the question's vector; in a small memory, while the
                question is being embedded. Called off the event loop.
            choose: Makes the choice, and yields requests for details. Called off the event loop.

        Raises:
            StorageError: The ledger cannot be read.
        """
        left = ATTEMPTS
        while True:
            left -= 1
            filter_ = Filter.of(self._rows.tenant, search, self._embedder)
            run = SearchRun(
                self._rows,
                self._full_text,
                search,
                filter_,
                draft,
                choose,
                may_run_again=left > 0,
            )
            try:
                return await self._find(run, ask_vectors)
            except OtherEmbedderError as error:
                self.expect(error.embedder)
            except RetiredMeanwhileError:
                pass

    async def _find(self, run: SearchRun[D, T], ask_vectors: AskVectors) -> T:
        filter_ = run.filter
        retired = filter_.as_of is not None and await self._rows.read(run.has_retired_since)
        if not retired and await self._working_sets.fits(filter_.words):
            drafting = self._working_sets.read(filter_.words, filter_.embedder, run.draft_whole)
            meaning, drafted = await asyncio.gather(ask_vectors(0), drafting)
            _require_same_embedder(meaning, filter_)
            if drafted is not None:  # otherwise the memory has become too large
                return await self._rows.read(run.choose_from_whole, meaning, drafted)
        limit = 0 if self._searches_vectors else NEAREST
        meaning, pooled = await asyncio.gather(
            ask_vectors(limit), self._rows.read(run.pool_by_words)
        )
        _require_same_embedder(meaning, filter_)
        if self._searches_vectors:
            with suppress(HiddenByOthersError):
                return await self._rows.read(run.choose_with_nearest, pooled, meaning)
        else:
            with suppress(HiddenByOthersError):
                return await self._rows.read(run.choose_from_pool, pooled, meaning, None)
            wider = await ask_vectors(WIDER_LIMIT)
            _require_same_embedder(wider, filter_)
            if wider.hits is not None:
                with suppress(HiddenByOthersError):
                    return await self._rows.read(run.choose_from_pool, pooled, wider, None)
        nearest = await run.nearest_of_all(meaning)
        return await self._rows.read(run.choose_from_pool, pooled, meaning, nearest)


def _require_same_embedder(meaning: VectorResult, filter_: Filter) -> None:
    """Raise if the question's vector cannot be compared with those of the records."""
    if meaning.hits is not None and meaning.hits.embedder != filter_.embedder:
        raise OtherEmbedderError(meaning.hits.embedder)
