"""Asks all channels for a question at once: words, meaning, topic keys, relations."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np
import structlog

from local.database import Connection
from local.errors import Local2Error
from local.memory.indexer import Indexer, Vectors
from local.memory.places import Reach
from local.memory.recall.candidates import Candidate, Filter, Floats, Pool, matrix, vector_of
from local.memory.recall.fulltext import FullText
from local.memory.recall.query import Query
from local.memory.rows import TenantRows
from local.protocol.vectors import VectorHits

BY_WORDS = 70
LOOK = 50
ENOUGH = 20
"""Of the nearest vectors, or the best rows, so many must be visible; else we look further."""
FURTHER_LOOK = 1_500
TURNS_TO_SEND = 5
"""Turns of the event loop until a question has left for the worker; a thread that reads the ledger
meanwhile takes the interpreter from it for most of a millisecond."""

T = TypeVar("T")

log = structlog.get_logger()


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates, and what the channels say of them.

    `words` is the BM25 of a row, higher is better. `related` says which rows a row is related to.
    `question` is the query's vector, float32, empty where there is none, and `embedder` made it.
    `problem` says why the vectors could not be asked, `waiting` that some records have none yet.
    """

    candidates: list[Candidate]
    words: dict[int, float]
    topics: frozenset[int]
    related: dict[int, list[int]]
    question: bytes
    embedder: str
    min_score: float
    waiting: bool
    problem: str | None

    def compared(self) -> list[bool]:
        """Whether each candidate has a vector that the question's can be compared with."""
        return [bool(self.question) and c.embedder == self.embedder for c in self.candidates]

    def cosines(self) -> Floats:
        """Of the question with each candidate; 0 where they cannot be compared."""
        cosines = np.zeros(len(self.candidates), np.float32)
        having = np.flatnonzero(self.compared()).tolist()
        if having:
            vectors = [self.candidates[i].vector or b"" for i in having]
            cosines[having] = matrix(vectors) @ vector_of(self.question)
        return cosines


class _Worded(msgspec.Struct, frozen=True, kw_only=True):
    """What the ledger finds without vectors."""

    words: dict[int, float]
    topics: frozenset[int]
    candidates: dict[int, Candidate]


class _Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What the vector worker answered, or why it did not; `last` if it will not be asked again."""

    waiting: bool
    hits: VectorHits | None = None
    problem: str | None = None
    last: bool = False


class _BehindOthersError(Exception):
    """Of the nearest vectors too few are the caller's."""


class Retrieval:
    """The channels of one tenant."""

    def __init__(self, rows: TenantRows, indexer: Indexer, vectors: Vectors) -> None:
        self._rows = rows
        self._indexer = indexer
        self._vectors = vectors
        self._full_text = FullText(rows)

    async def find(
        self, query: Query, reach: Reach, filter_: Filter, select: Callable[[Connection, Found], T]
    ) -> T:
        """Ask every channel, and have `select` choose from what they found, while it is being read.

        Raises:
            StorageError: The ledger cannot be read. A missing vector worker is no error.
        """
        looked, worded = await asyncio.gather(
            self._look(query.text, LOOK, filter_), self._worded(query, reach, filter_)
        )
        selected = partial(self._selected, filter_, worded, select)
        try:
            return await self._rows.read(partial(selected, looked))
        except _BehindOthersError:
            further = await self._look(query.text, FURTHER_LOOK, filter_)
            hits = looked.hits if further.hits is None else further.hits
            further = msgspec.structs.replace(further, hits=hits, last=True)
            return await self._rows.read(partial(selected, further))

    async def _waits(self, filter_: Filter) -> bool:
        if self._indexer.caught_up:
            return False
        row = await self._rows.one(
            "has_waiting",
            places=filter_.places,
            only_session=filter_.only_session,
            but_session=filter_.but_session,
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
        except Local2Error as error:
            log.warning("search_degraded", reason=str(error))
            return _Looked(waiting=waiting, problem=str(error))
        return _Looked(waiting=waiting, hits=hits)

    async def _worded(self, query: Query, reach: Reach, filter_: Filter) -> _Worded:
        """Done while the vector worker embeds the question."""
        for _ in range(TURNS_TO_SEND):
            await asyncio.sleep(0)
        return await self._rows.read(partial(self._by_words, query, reach, filter_))

    def _by_words(
        self, query: Query, reach: Reach, filter_: Filter, connection: Connection
    ) -> _Worded:
        pool = Pool(self._rows, connection, filter_)
        words = self._full_text.search(connection, query, reach, filter_, BY_WORDS)
        topics = pool.by_topics(query.topics)
        pool.add([*words, *topics])
        if len(words) >= BY_WORDS and len(words.keys() & pool.candidates.keys()) < ENOUGH:
            # The best are others', retired, or of a session or a time that was not asked for.
            words = self._full_text.search(
                connection, query, reach, filter_, FURTHER_LOOK, narrow=True
            )
            words = {row: words[row] for row in pool.first(list(words), BY_WORDS)}
            pool.add(list(words))
        return _Worded(words=words, topics=frozenset(topics), candidates=pool.candidates)

    def _selected(
        self,
        filter_: Filter,
        worded: _Worded,
        select: Callable[[Connection, Found], T],
        looked: _Looked,
        connection: Connection,
    ) -> T:
        pool = Pool(self._rows, connection, filter_, worded.candidates)
        hits = looked.hits
        if hits is not None:
            self._add_nearest(pool, hits, last=looked.last)
        related = pool.related()
        pool.add([row for others in related.values() for row in others])
        found = Found(
            candidates=list(pool.candidates.values()),
            words=worded.words,
            topics=worded.topics,
            related=related,
            question=hits.question if hits else b"",
            embedder=hits.embedder if hits else "",
            min_score=hits.min_score if hits else 0.0,
            waiting=looked.waiting,
            problem=looked.problem,
        )
        return select(connection, found)

    def _add_nearest(self, pool: Pool, hits: VectorHits, *, last: bool) -> None:
        """The index holds everybody's vectors: the caller's own may lie behind others'."""
        nearest = pool.nearest(hits, LOOK)
        if len(nearest) < ENOUGH and len(hits.hits) == LOOK:
            own = pool.nearest_own(hits, LOOK)
            if own is None and not last:
                raise _BehindOthersError
            nearest = nearest if own is None else own
        pool.add(nearest)
