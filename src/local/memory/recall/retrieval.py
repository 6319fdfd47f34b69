"""Asks the vectors and the ledger for a question at once: meaning, words, topic keys, relations."""

from functools import partial
from typing import TypeVar

import msgspec
import structlog

from local.errors import IndexDamagedError, Local2Error
from local.ledger.door import Ledger
from local.ledger.records import Record
from local.ledger.search import Choice, Chooser, DetailRequest, Drafter, Matches, Meaning, Search
from local.memory.scopes import own_places
from local.memory.upkeep.indexing import Indexer
from local.memory.vectors import Vectors
from local.protocol.envelope import Caller

D = TypeVar("D")
T = TypeVar("T")

log = structlog.get_logger()


class Closeness(msgspec.Struct, frozen=True, kw_only=True):
    """What is near in meaning: the nearest few, within a cosine distance."""

    top_k: int
    distance: float


class Retrieval:
    """The channels of one tenant."""

    def __init__(self, ledger: Ledger, indexer: Indexer, vectors: Vectors) -> None:
        self._ledger = ledger
        self._indexer = indexer
        self._vectors = vectors

    async def aliases(self, text: str, caller: Caller) -> list[str]:
        """What else the caller knows those to be called whom a question names."""
        return await self._ledger.knowledge.aliases_in(text, own_places(caller))

    async def find(self, search: Search, draft: Drafter[D], choose: Chooser[D, T]) -> T:
        """Ask every channel, and choose from what they found; see the ledger's `Searches.find`.

        Raises:
            StorageError: The ledger cannot be read. A missing vector worker is no error.
        """
        look = partial(self._look, search)
        if self._indexer.embedder is not None:
            self._ledger.searches.expect(self._indexer.embedder)
        return await self._ledger.searches.find(search, look, draft, choose)

    async def nearest(
        self, search: Search, closeness: Closeness, *, before: int
    ) -> list[Record] | None:
        """The nearest to a text of the records before a row; None while some have no vector."""

        def choose(found: Matches, _: None) -> Choice[list[Record] | None]:
            if found.problem is not None or found.waiting:
                return None
            near = [
                (cosine, row)
                for row, cosine in zip(found.view.rows, found.cosines().tolist(), strict=True)
                if row < before and cosine >= 1 - closeness.distance
            ]
            rows = [row for _, row in sorted(near, reverse=True)[: closeness.top_k]]
            records = (yield DetailRequest(records=rows)).records
            return [records[row] for row in rows if row in records]

        return await self.find(search, lambda _: None, choose)

    async def _look(self, search: Search, limit: int) -> Meaning:
        """The nearest vectors, or why they cannot be asked for."""
        await self._indexer.settled()
        # Asked first: what is indexed during the search may be missing from the answer, too.
        waiting = not self._indexer.caught_up and await self._ledger.searches.waits(search)
        if (problem := self._indexer.problem) is not None:
            return Meaning(waiting=waiting, problem=problem)
        try:
            hits = await self._vectors.search(search.text, limit, tenant=self._ledger.tenant)
            if limit and not hits.hits:
                await self._indexer.held(0)
        except IndexDamagedError as error:
            self._indexer.damaged(str(error))
            return Meaning(waiting=waiting, problem=self._indexer.problem)
        except Local2Error as error:
            log.warning("search_degraded", reason=str(error))
            return Meaning(waiting=waiting, problem=str(error))
        problem = self._indexer.problem or (self._indexer.refilling if waiting else None)
        return Meaning(waiting=waiting, hits=hits, problem=problem)
