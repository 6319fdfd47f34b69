"""Recall: analyse the question, ask all channels, rank, leave out repetitions, rerank.

The vectors and the ledger are asked at once: meaning, words, topic keys, relations. There is always
an answer: what is missing costs quality, and `degraded` or `rerank_used` report it.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar, get_args

import msgspec
import structlog

from local.admission import FairSlots
from local.errors import IndexDamagedError, InvalidArgumentsError, Local2Error
from local.ledger.door import Ledger
from local.ledger.records import TENANT_OWNED, Record, checked_text
from local.ledger.search import Choice, Chooser, DetailRequest, Drafter, Matches, Meaning, Search
from local.memory.recall.items import RecallItem, first_items, labelled_text, with_relations
from local.memory.recall.query import Expander, Query, analyse
from local.memory.recall.ranking import Draft, rank
from local.memory.recall.reranker import Reranker, RerankError
from local.memory.scopes import Reach, Weights, own_places, reach
from local.memory.upkeep.indexing import Indexer
from local.memory.vectors import Vectors
from local.protocol.envelope import Caller, Clock
from local.protocol.memories import Kind, Scope, SourceKind
from local.protocol.reading import in_utc
from local.settings import SlotLimits

D = TypeVar("D")
T = TypeVar("T")
RECALLED_KINDS: tuple[SourceKind, ...] = get_args(SourceKind)
SEARCHES = SlotLimits(requests=20, tenant_requests=16, user_requests=2)
"""More searches at once would not be faster in total, and each would be slower."""
SEARCHES_OF_TENANTS = SlotLimits(requests=20, tenant_requests=2, user_requests=2)
"""Where tenants share a stack: one waits while a batch of another's questions is embedded, and 16
take long (decision 0067)."""
RERANKED = 20
NOT_INDEXED = "Some memories are not indexed yet."

log = structlog.get_logger()


class Closeness(msgspec.Struct, frozen=True, kw_only=True):
    """The nearest few in meaning, within a cosine distance."""

    top_k: int
    distance: float


class Retrieval:
    """The channels of one tenant."""

    def __init__(self, ledger: Ledger, indexer: Indexer, vectors: Vectors) -> None:
        self._ledger = ledger
        self._indexer = indexer
        self._vectors = vectors

    async def aliases(self, text: str, caller: Caller) -> list[str]:
        """Return other names, known to the caller, of what a question names."""
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
        """Return the records before a row nearest to a text; None while some have no vector."""

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
        """Return the nearest vectors, or why they cannot be searched."""
        await self._indexer.settled()
        # This comes first: a record that is indexed during the search may be missing from the
        # answer, too.
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


class RecallRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to recall."""

    query: str
    top_k: int
    kinds: Collection[Kind] = RECALLED_KINDS
    scope: Scope = "any"
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    """The moment that "last week" refers to, and after which nothing has happened yet. What was
    retired since is found."""
    min_relevance: float = 0.0
    """The share of the best item's score, before a reranker, that an item needs."""
    rerank: bool = True
    candidates: int | None = None
    """The number from which a reranker selects, if that is more than are wanted; None: it sorts the
    best 20 in any case."""
    repetitions: bool = False
    """Whether to return all of several equal texts."""
    weights: Weights | None = None
    """Instead of the configured ones."""
    source: str | None = None
    """The beginning of the senders' ids of wanted records; None for any."""


class RecallResult(msgspec.Struct, frozen=True, kw_only=True):
    """Items, best first. `reason` is what is degraded: some were found by their words only.

    `min_score` is the cosine below which an item without any of the words is left out.
    """

    items: list[RecallItem]
    degraded: bool
    rerank_used: bool
    reason: str | None = None
    min_score: float = 0.0


class RecallModels(msgspec.Struct, frozen=True, kw_only=True):
    """Models that improve recall where they are configured."""

    reranker: Reranker | None = None
    expander: Expander | None = None


class Recaller:
    """Recall within one tenant."""

    def __init__(  # noqa: PLR0913 - what recall consists of
        self,
        retrieval: Retrieval,
        *,
        weights: Weights,
        feedback_weight: float,
        min_score: float | None,
        models: RecallModels,
        clock: Clock,
        slots: FairSlots | None = None,
    ) -> None:
        """`slots`: those of every tenant."""
        self._retrieval = retrieval
        self._weights = weights
        self._feedback_weight = feedback_weight
        self._clock = clock
        self._models = models
        self._slots = slots or FairSlots(SEARCHES)
        self.min_score = min_score

    async def recall(self, caller: Caller, ask: RecallRequest) -> RecallResult:
        """Find what answers the question and the caller may see.

        `as_of` hides what happened later, and finds what was retired later.

        Raises:
            InvalidArgumentsError: The question is blank, the scope needs an identity that the
                caller lacks, or the time ends before it begins.
            StorageError: The ledger cannot be read.
            OverloadedError: Too many searches wait.
        """
        within = reach(ask.scope, ask.kinds, caller, ask.weights or self._weights)
        now = in_utc(ask.as_of, "as_of") if ask.as_of else self._clock()
        since, until = _times(ask)
        here = ask.as_of if ask.as_of and ask.as_of.tzinfo else now  # days are those of its zone
        query = await self._analysed(checked_text(ask.query, "query"), here)
        query = query.expanded(await self._retrieval.aliases(query.text, caller), ())
        search = _search(query, within, since, until, now if ask.as_of else None)
        search = msgspec.structs.replace(search, source=ask.source)
        draft = partial(Draft, query, within, now, self._feedback_weight)
        choose = partial(self._choose, ask)
        with self._slots.admitted(caller.principal):
            async with self._slots.slot(caller.principal):
                recalled = await self._retrieval.find(search, draft, choose)
        return await self._reranked(ask, recalled)

    async def _analysed(self, text: str, now: datetime) -> Query:
        query = analyse(text, now)
        if self._models.expander is None:
            return query
        expansion = await self._models.expander.expand(text)
        return query.expanded(expansion.keywords, expansion.topics)

    def _choose(self, ask: RecallRequest, found: Matches, draft: Draft) -> Choice[RecallResult]:
        min_score = found.min_score if self.min_score is None else self.min_score
        ranked = yield from rank(found, draft, min_score=min_score)
        more = (ask.candidates or RERANKED) if self._reranks(ask) else 0
        wanted = max(more, ask.top_k)
        items = yield from first_items(ranked, wanted, repetitions=ask.repetitions)
        items = yield from with_relations(_relevant(items, ask.min_relevance))
        return RecallResult(
            items=items,
            degraded=found.waiting or found.problem is not None,
            reason=found.problem or (NOT_INDEXED if found.waiting else None),
            rerank_used=False,
            min_score=min_score,
        )

    def _reranks(self, ask: RecallRequest) -> bool:
        return ask.rerank and self._models.reranker is not None

    async def _reranked(self, ask: RecallRequest, recalled: RecallResult) -> RecallResult:
        items = recalled.items
        selects = len(items) > (0 if ask.candidates is None else ask.top_k)
        if self._models.reranker is not None and ask.rerank and selects:
            try:
                order = await self._models.reranker.rank(
                    ask.query, [labelled_text(item.record) for item in items]
                )
            except RerankError as error:
                log.debug("rerank_failed", reason=str(error))
            else:
                items = [_scored(items[position], score) for position, score in order]
                recalled = msgspec.structs.replace(recalled, rerank_used=True)
        return msgspec.structs.replace(recalled, items=items[: ask.top_k])


def _times(ask: RecallRequest) -> tuple[datetime | None, datetime | None]:
    """Return when the searched time begins, and when it ends."""
    ends = [in_utc(end, name) for name, end in (("until", ask.until), ("as_of", ask.as_of)) if end]
    since, until = ask.since and in_utc(ask.since, "since"), min(ends, default=None)
    if since and until and since > until:
        raise InvalidArgumentsError(f"since: {since} is after {until}, where the time ends.")
    return since, until


def _search(
    query: Query,
    within: Reach,
    since: datetime | None,
    until: datetime | None,
    as_of: datetime | None,
) -> Search:
    """Return what the ledger needs to know of a question and of the caller."""
    return Search(
        text=query.text,
        terms=query.terms,
        phrases=query.phrases,
        topics=query.topics,
        places=within.places,
        only_session=within.only_session,
        but_session=within.but_session,
        since=since,
        until=until,
        as_of=as_of,
        owner=within.caller.user or TENANT_OWNED,
        asking=within.caller.query_id,
    )


def _relevant(items: Sequence[RecallItem], min_relevance: float) -> list[RecallItem]:
    """Return the items with at least such a share of the best one's score."""
    least = min_relevance * max((item.score for item in items), default=0.0)
    return [item for item in items if item.score >= least]


def _scored(item: RecallItem, score: float | None) -> RecallItem:
    return item if score is None else msgspec.structs.replace(item, score=score)
