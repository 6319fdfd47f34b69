"""One search: what each of its reads finds, by words and topics and around the nearest vectors."""

from collections.abc import Sequence
from functools import partial
from typing import Generic, TypeVar

import msgspec
import numpy as np

from local.ledger.columns import Columns, View
from local.ledger.entries import ECHO, Candidate
from local.ledger.search import (
    Chooser,
    DetailRequest,
    Details,
    Drafter,
    Matches,
    Meaning,
    Search,
    StemCounts,
    WordMatches,
    run_choice,
)
from local.ledger.sqlite.candidates import Filter, Pool
from local.ledger.sqlite.database import SqlConnection
from local.ledger.sqlite.fulltext import FullText
from local.ledger.sqlite.rows import TenantRows
from local.protocol.vectors import VectorHits
from local.text.words import stems

BY_WORDS = 70
LOOK = 50
ENOUGH = 20
"""Of the nearest vectors, or the best rows, so many must be visible; else we look further."""
FURTHER_LOOK = 1_500
OWN = 3_000
"""Records compared in one read, where the nearest of the index are others'."""

D = TypeVar("D")
T = TypeVar("T")
Drafted = tuple[WordMatches, D]


class BehindOthersError(Exception):
    """Of the nearest vectors too few are the caller's."""


class PoolMatches(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates that the ledger finds without vectors."""

    pool: Pool
    columns: Columns
    topics: list[int]
    phrases: list[list[int]]
    counts: StemCounts


class SearchRun(Generic[D, T]):
    """Its methods that take a connection are reads."""

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
        """What is made of a whole memory before the question's vector is there."""
        pool = self._pool(connection)
        worded = WordMatches(
            view=self._view(columns, pool),
            topics=pool.by_topics(self._search.topics),
            phrases=self._full_text.phrases(connection, self._search, self.filter),
        )
        return worded, self._draft(worded)

    def of_all(self, meaning: Meaning, drafted: Drafted[D], connection: SqlConnection) -> T:
        """What is chosen of a whole memory."""
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
        """Whether some of what is asked for was retired since, which no memory in columns has."""
        return bool(self._pool(connection).retired_since())

    def pool_by_words(self, connection: SqlConnection) -> PoolMatches:
        """What the words and the topics of a question find, and how many records have them."""
        search, filter_ = self._search, self.filter
        pool = self._pool(connection)
        found = self._full_text.search(connection, search, filter_, BY_WORDS)
        words = pool.first(found, BY_WORDS)
        if len(found) >= BY_WORDS and len(words) < BY_WORDS:
            # The best are others', retired, or of a session or a time that was not asked for.
            found = self._full_text.search(connection, search, filter_, FURTHER_LOOK, narrow=True)
            words = pool.first(found, BY_WORDS)
        counts = self._full_text.counts(connection, search, filter_)
        topics, retired = pool.by_topics(search.topics), pool.retired_since()
        active = [row for row in words if row not in set(retired)]
        words = _by_own_counts([pool.candidates[row] for row in active], counts)
        pool.add([*words, *topics, *retired])
        columns = Columns(only=frozenset(stems(search.terms)))
        columns.add(pool.candidates[row] for row in sorted(pool.candidates))
        return PoolMatches(
            pool=pool,
            columns=columns,
            topics=topics,
            phrases=self._full_text.phrases(connection, search, filter_),
            counts=counts,
        )

    def of_pooled(
        self,
        pooled: PoolMatches,
        meaning: Meaning,
        nearest: list[int] | None,
        connection: SqlConnection,
    ) -> T:
        """What is chosen of candidates, with those that vectors and relations lead to.

        `nearest` are the rows of the caller's own where the hits are too many of others.

        Raises:
            BehindOthersError: They are.
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

        worded = _worded(pooled, pool)
        return run_choice(self._choose(Matches.of(worded, meaning), self._draft(worded)), given)

    async def nearest_of_all(self, meaning: Meaning) -> list[int]:
        """The nearest of everything that the caller may see, page by page: nothing hides them."""
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
        """The ledger decides what of a memory lies in a session or a time."""
        asked = pool.being_asked()
        if self.filter.is_open:
            return columns.without(asked)
        return columns.within(set(pool.own()).difference(asked))


def _by_own_counts(found: Sequence[Candidate], counts: StemCounts) -> list[int]:
    """Their rows, best first, as if there were no others: BM25 weighs words by everybody's."""
    columns = Columns(only=counts.having.keys())
    columns.add(found)
    scores = np.zeros(len(found))
    for stem, having in counts.having.items():
        posted = columns.postings(stem)
        rarity = np.log1p(counts.total / max(having, 1.0))
        scores[posted.positions] += rarity * posted.counts / (posted.counts + 1)
    return [row for _, row in sorted(zip(-scores, (one.row for one in found), strict=True))]


def _worded(pooled: PoolMatches, pool: Pool) -> WordMatches:
    """What the words found, with the candidates that came since."""
    known = pooled.pool.candidates
    pooled.columns.add(one for row, one in pool.candidates.items() if row not in known)
    return WordMatches(
        view=pooled.columns.linked(pool.links),
        topics=pooled.topics,
        phrases=pooled.phrases,
        counts=pooled.counts,
    )


def _nearest(pool: Pool, hits: VectorHits) -> list[int]:
    """The index holds everybody's vectors: the caller's own may lie behind others'."""
    nearest = pool.nearest(hits, LOOK)
    if len(nearest) >= ENOUGH or len(hits.hits) < LOOK:
        return nearest
    own = pool.own(OWN + 1)
    if len(own) > OWN:
        raise BehindOthersError
    return [row for _, row in pool.compared(own, hits, LOOK)]
