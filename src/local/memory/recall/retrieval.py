"""Asks all channels for a question at once: words, meaning, topic keys, relations."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
import structlog

from local.errors import IndexDamagedError, Local2Error
from local.ledger.columns import Columns, View
from local.ledger.entries import ECHO
from local.ledger.found import Counts, Found, Worded
from local.ledger.sqlite.candidates import Filter, Pool
from local.ledger.sqlite.database import Connection
from local.ledger.sqlite.fulltext import FullText
from local.ledger.sqlite.rows import TenantRows
from local.ledger.sqlite.working_sets import WorkingSets
from local.memory.batches import Vectors
from local.memory.indexer import Indexer
from local.memory.places import Reach
from local.memory.recall.query import Query
from local.protocol.vectors import VectorHits
from local.text.keywords import stems

BY_WORDS = 70
LOOK = 50
ENOUGH = 20
"""Of the nearest vectors, or the best rows, so many must be visible; else we look further."""
FURTHER_LOOK = 1_500
OWN = 3_000
"""Records compared in one read, where the nearest of the index are others'."""
TURNS_TO_SEND = 5
"""Turns of the event loop until a question has left for the worker; a thread that reads the ledger
meanwhile takes the interpreter from it for most of a millisecond."""

D = TypeVar("D")
T = TypeVar("T")

log = structlog.get_logger()


class _Pooled(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates that the ledger finds without vectors."""

    pool: Pool
    columns: Columns
    topics: list[int]
    phrases: list[list[int]]
    counts: Counts


class _Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What the vector worker answered, or why it did not.

    `nearest` are the rows of the caller's own where its hits are too many of others.
    """

    waiting: bool
    hits: VectorHits | None = None
    problem: str | None = None
    nearest: list[int] | None = None

    def found(self, worded: Worded, **channels: Any) -> Found:
        hits = self.hits
        return Found(
            view=worded.view,
            phrases=worded.phrases,
            topics=worded.topics,
            counts=worded.counts,
            **channels,
            question=hits.question if hits else b"",
            embedder=hits.embedder if hits else "",
            min_score=hits.min_score if hits else 0.0,
            waiting=self.waiting,
            problem=self.problem,
        )


class _BehindOthersError(Exception):
    """Of the nearest vectors too few are the caller's."""


class Retrieval:
    """The channels of one tenant."""

    def __init__(self, rows: TenantRows, indexer: Indexer, vectors: Vectors) -> None:
        self._rows = rows
        self._indexer = indexer
        self._vectors = vectors
        self._full_text = FullText(rows)
        self._working_sets = WorkingSets(rows)

    async def find(
        self,
        query: Query,
        reach: Reach,
        filter_: Filter,
        draft: Callable[[Worded], D],
        select: Callable[[Connection, Found, D], T],
    ) -> T:
        """Ask every channel, and have `select` choose from what they found, while it is being read.

        A small memory is looked at whole, of a large one what its words and vectors point to.

        Args:
            query: The question.
            reach: Where to look.
            filter_: The same, as the ledger takes it.
            draft: What can be made of it without the question's vector; while that is made, if the
                memory is small.
            select: Chooses; called in the ledger's reader, as `draft`.

        Raises:
            StorageError: The ledger cannot be read. A missing vector worker is no error.
        """
        if await self._working_sets.fits(reach.places):
            drafting = self._drafted(query, reach, filter_, draft)
            looked, drafted = await asyncio.gather(self._look(query.text, 0, filter_), drafting)
            if drafted is not None:
                return await self._rows.read(
                    partial(self._of_all, filter_, looked, drafted, select)
                )
        looked, pooled = await asyncio.gather(
            self._look(query.text, LOOK, filter_), self._pooled(query, reach, filter_)
        )
        selected = partial(self._selected, filter_, pooled, draft, select)
        with suppress(_BehindOthersError):
            return await self._rows.read(partial(selected, looked))
        further = await self._look(query.text, FURTHER_LOOK, filter_)
        if further.hits is not None:
            with suppress(_BehindOthersError):
                return await self._rows.read(partial(selected, further))
        nearest = await self._nearest_of_all(filter_, looked)
        return await self._rows.read(
            partial(selected, msgspec.structs.replace(looked, nearest=nearest))
        )

    async def _drafted(
        self, query: Query, reach: Reach, filter_: Filter, draft: Callable[[Worded], D]
    ) -> tuple[Worded, D] | None:
        """Of a whole memory, done while the vector worker embeds the question."""
        await _question_has_left()
        columns = await self._working_sets.of(reach.places)
        if columns is None:
            return None

        def drafted(connection: Connection) -> tuple[Worded, D]:
            pool = Pool(self._rows, connection, filter_)
            worded = Worded(
                view=_view(columns, pool, filter_),
                topics=pool.by_topics(query.topics),
                phrases=self._full_text.phrases(connection, query, reach),
            )
            return worded, draft(worded)

        return await self._rows.read(drafted)

    async def _waits(self, filter_: Filter) -> bool:
        if self._indexer.caught_up:
            return False
        row = await self._rows.one(
            "has_waiting",
            places=filter_.places,
            only_session=filter_.only_session,
            but_session=filter_.but_session,
            asking=filter_.asking,
        )
        return bool(row and row["waiting"])

    async def _look(self, text: str, limit: int, filter_: Filter) -> _Looked:
        """The nearest vectors, or why they cannot be asked for."""
        await self._indexer.settled()
        # Asked first: what is indexed during the search may be missing from the answer, too.
        waiting = await self._waits(filter_)
        if (problem := self._indexer.problem) is not None:
            return _Looked(waiting=waiting, problem=problem)
        try:
            hits = await self._vectors.search(text, limit, tenant=self._rows.tenant)
            if limit and not hits.hits:
                await self._indexer.held(0)
        except IndexDamagedError as error:
            self._indexer.damaged(str(error))
            return _Looked(waiting=waiting, problem=self._indexer.problem)
        except Local2Error as error:
            log.warning("search_degraded", reason=str(error))
            return _Looked(waiting=waiting, problem=str(error))
        problem = self._indexer.problem or (self._indexer.refilling if waiting else None)
        return _Looked(waiting=waiting, hits=hits, problem=problem)

    async def _pooled(self, query: Query, reach: Reach, filter_: Filter) -> _Pooled:
        """Done while the vector worker embeds the question."""
        await _question_has_left()
        return await self._rows.read(partial(self._by_words, query, reach, filter_))

    def _by_words(
        self, query: Query, reach: Reach, filter_: Filter, connection: Connection
    ) -> _Pooled:
        pool = Pool(self._rows, connection, filter_)
        words = self._full_text.search(connection, query, reach, filter_, BY_WORDS)
        topics = pool.by_topics(query.topics)
        pool.add([*words, *topics])
        if len(words) >= BY_WORDS and len(pool.candidates.keys() & set(words)) < ENOUGH:
            # The best are others', retired, or of a session or a time that was not asked for.
            words = self._full_text.search(
                connection, query, reach, filter_, FURTHER_LOOK, narrow=True
            )
            pool.add(pool.first(words, BY_WORDS))
        columns = Columns(only=frozenset(stems(query.terms)))
        columns.add(pool.candidates.values())
        return _Pooled(
            pool=pool,
            columns=columns,
            topics=topics,
            phrases=self._full_text.phrases(connection, query, reach),
            counts=self._full_text.counts(connection, query, reach),
        )

    def _of_all(
        self,
        filter_: Filter,
        looked: _Looked,
        drafted: tuple[Worded, D],
        select: Callable[[Connection, Found, D], T],
        connection: Connection,
    ) -> T:
        worded, draft = drafted
        pool = Pool(self._rows, connection, filter_)
        found = looked.found(worded, related=pool.related, sources=pool.sources)
        return select(connection, found, draft)

    def _selected(  # noqa: PLR0913, PLR0917 - what is looked at, and for what
        self,
        filter_: Filter,
        pooled: _Pooled,
        draft: Callable[[Worded], D],
        select: Callable[[Connection, Found, D], T],
        looked: _Looked,
        connection: Connection,
    ) -> T:
        pool = Pool(self._rows, connection, filter_, pooled.pool)
        if looked.hits is not None:
            pool.add(_nearest(pool, looked.hits) if looked.nearest is None else looked.nearest)
        related = pool.related(list(pool.candidates))
        pool.add([row for others in related.values() for row in others])
        sources = pool.sources([c.row for c in pool.candidates.values() if c.echo == ECHO])
        pool.add([row for echo in sources.values() for row in echo.sources])
        columns = pooled.columns
        known = pooled.pool.candidates
        columns.add(one for row, one in pool.candidates.items() if row not in known)
        worded = Worded(
            view=columns.linked(pool.links),
            topics=pooled.topics,
            phrases=pooled.phrases,
            counts=pooled.counts,
        )
        found = looked.found(
            worded,
            related=lambda rows: {row: related[row] for row in rows if row in related},
            sources=lambda _: sources,
        )
        return select(connection, found, draft(worded))

    async def _nearest_of_all(self, filter_: Filter, looked: _Looked) -> list[int]:
        """The nearest of everything that the caller may see, page by page: nothing hides them."""
        if looked.hits is None:
            return []
        hits = looked.hits
        own = await self._rows.read(lambda c: Pool(self._rows, c, filter_).own())
        best: list[tuple[float, int]] = []
        for start in range(0, len(own), OWN):
            page = own[start : start + OWN]
            best += await self._rows.read(partial(self._compared, filter_, hits, page))
            best = sorted(best, reverse=True)[:LOOK]
        return [row for _, row in best]

    def _compared(
        self, filter_: Filter, hits: VectorHits, rows: list[int], connection: Connection
    ) -> list[tuple[float, int]]:
        return Pool(self._rows, connection, filter_).compared(rows, hits, LOOK)


def _nearest(pool: Pool, hits: VectorHits) -> list[int]:
    """The index holds everybody's vectors: the caller's own may lie behind others'."""
    nearest = pool.nearest(hits, LOOK)
    if len(nearest) >= ENOUGH or len(hits.hits) < LOOK:
        return nearest
    own = pool.own(OWN + 1)
    if len(own) > OWN:
        raise _BehindOthersError
    return [row for _, row in pool.compared(own, hits, LOOK)]


def _view(columns: Columns, pool: Pool, filter_: Filter) -> View:
    """The ledger decides what of a memory lies in a session or a time."""
    asked = pool.being_asked()
    if filter_.is_open:
        return columns.without(asked)
    return columns.within(set(pool.own()).difference(asked))


async def _question_has_left() -> None:
    for _ in range(TURNS_TO_SEND):
        await asyncio.sleep(0)
