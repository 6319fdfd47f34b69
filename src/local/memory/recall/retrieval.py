"""Asks all channels for a question at once: words, meaning, topic keys, relations."""

import asyncio
from functools import partial

import msgspec
import numpy as np
import structlog

from local.database import Connection
from local.errors import VectorError
from local.memory.indexer import Indexer, Vectors
from local.memory.places import Reach
from local.memory.recall.candidates import Candidate, Filter, Floats, Pool, matrix, vector_of
from local.memory.recall.fulltext import FullText
from local.memory.recall.query import Query
from local.memory.rows import TenantRows
from local.protocol.vectors import VectorHits

BY_WORDS = 70
WINDOWED = 10
"""So many times more where a time window will leave most of them out."""
LOOK = 50
ENOUGH = 20
"""Of the nearest vectors so many must be the caller's; else a further look is taken."""
FURTHER_LOOK = 1_500

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


class Retrieval:
    """The channels of one tenant."""

    def __init__(self, rows: TenantRows, indexer: Indexer, vectors: Vectors) -> None:
        self._rows = rows
        self._indexer = indexer
        self._vectors = vectors
        self._full_text = FullText(rows)

    async def find(self, query: Query, reach: Reach, filter_: Filter) -> Found:
        """Ask every channel, and fetch what they found.

        Raises:
            StorageError: The ledger cannot be read. A missing vector worker is no error.
        """
        # Asked first: what is indexed during the search may be missing from the answer, too.
        waiting = await self._waits(filter_)
        (hits, problem), worded = await asyncio.gather(
            self._look(query.text, LOOK),
            self._rows.read(partial(self._by_words, query, reach, filter_)),
        )
        candidates, related, enough = await self._rows.read(
            partial(self._by_meaning, filter_, worded, hits)
        )
        if not enough:
            further, problem = await self._look(query.text, FURTHER_LOOK)
            candidates, related, _ = await self._rows.read(
                partial(self._by_meaning, filter_, worded, further or hits)
            )
        return Found(
            candidates=list(candidates.values()),
            words=worded.words,
            topics=worded.topics,
            related=related,
            question=hits.question if hits else b"",
            embedder=hits.embedder if hits else "",
            min_score=hits.min_score if hits else 0.0,
            waiting=waiting,
            problem=problem,
        )

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

    async def _look(self, text: str, limit: int) -> tuple[VectorHits | None, str | None]:
        """The nearest vectors, or why they cannot be asked for."""
        if (problem := self._indexer.problem) is not None:
            return None, problem
        try:
            return await self._vectors.search(text, limit, tenant=self._rows.tenant), None
        except VectorError as error:
            log.warning("search_degraded", reason=str(error))
            return None, str(error)

    def _by_words(
        self, query: Query, reach: Reach, filter_: Filter, connection: Connection
    ) -> _Worded:
        """Done while the vector worker embeds the question."""
        pool = Pool(self._rows, connection, filter_)
        windowed = filter_.since is not None or filter_.until is not None
        limit = BY_WORDS * WINDOWED if windowed else BY_WORDS
        words = self._full_text.search(connection, query, reach, limit)
        topics = pool.by_topics(query.topics)
        return _Worded(
            words=words,
            topics=frozenset(topics),
            candidates=pool.with_neighbours([*words, *topics]),
        )

    def _by_meaning(
        self, filter_: Filter, worded: _Worded, hits: VectorHits | None, connection: Connection
    ) -> tuple[dict[int, Candidate], dict[int, list[int]], bool]:
        """All candidates, their relations, and whether the nearest of the caller's are there."""
        pool = Pool(self._rows, connection, filter_)
        nearest, enough = self._nearest(pool, hits) if hits else ([], True)
        candidates = worded.candidates | pool.with_neighbours(nearest, known=worded.candidates)
        related = pool.related(candidates.values())
        linked = [row for others in related.values() for row in others]
        return candidates | pool.with_neighbours(linked, known=candidates), related, enough

    def _nearest(self, pool: Pool, hits: VectorHits) -> tuple[list[int], bool]:
        """The index holds everybody's vectors: the caller's own may lie behind others'."""
        nearest = pool.nearest(hits)
        if len(nearest) >= ENOUGH or len(hits.hits) < LOOK:
            return nearest, True
        own = pool.nearest_own(hits, LOOK)
        if own is not None:
            return own, True
        return nearest, len(hits.hits) > LOOK
