"""Recall: analyse the question, query all channels, rank, drop duplicates, rerank.

The vector index and the ledger are queried concurrently: by meaning, words, keys and relations.
An unavailable channel costs quality, not the answer; `degraded` and `rerank_used` report it.
"""

from collections.abc import Collection
from datetime import datetime
from functools import partial
from typing import Self, TypeVar, get_args

import msgspec
import structlog

from local2.admission import FairSlots
from local2.errors import IndexDamagedError, InvalidArgumentsError, Local2Error
from local2.ledger.ledger import Ledger
from local2.ledger.records import TENANT_OWNED, Record, checked_text
from local2.ledger.search import (
    Choice,
    Chooser,
    DetailRequest,
    Drafter,
    Matches,
    Search,
    VectorResult,
)
from local2.memory.indexing import Indexer
from local2.memory.intake.waiting_turns import WaitingTurns, why_incomplete
from local2.memory.recall.expansion import Expander
from local2.memory.recall.query import analyse
from local2.memory.recall.ranking import Draft, Trace, rank
from local2.memory.recall.reranker import Reranker, RerankError
from local2.memory.recall.results import (
    RecallItem,
    first_items,
    labelled_text,
    with_former_values,
    with_relations,
)
from local2.memory.scopes import Weights, own_places, reach
from local2.memory.vector_index import Vectors
from local2.protocol.envelope import Caller, Clock
from local2.protocol.memories import Kind, Scope, SourceKind
from local2.protocol.memory_tools import Recall
from local2.protocol.times import in_utc, time_of
from local2.settings import SlotLimits
from local2.vectors.embedder import known

D = TypeVar("D")
T = TypeVar("T")
RECALLED_KINDS: tuple[SourceKind, ...] = get_args(SourceKind)
SEARCH_LIMITS = SlotLimits(requests=20, tenant_requests=16, user_requests=2)
"""Limits on concurrent searches. More would take as long in total, and each would be slower."""
SHARED_SEARCH_LIMITS = SlotLimits(requests=20, tenant_requests=2, user_requests=2)
"""Limits where tenants share a stack. A tenant waits while a batch of another tenant's questions is
embedded, and a batch of 16 takes long (decision 0016)."""
NOT_INDEXED = "Some memories are not indexed yet."

log = structlog.get_logger()


class Closeness(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a nearest-neighbour search: a number of records and a cosine distance."""

    top_k: int
    distance: float


class Retrieval:
    """Queries all search channels of one tenant."""

    def __init__(self, ledger: Ledger, indexer: Indexer, vectors: Vectors) -> None:
        self._ledger = ledger
        self._indexer = indexer
        self._vectors = vectors

    @property
    def is_multilingual(self) -> bool:
        """Whether the embedder is known to understand many languages."""
        return self._indexer.embedder is not None and known(self._indexer.embedder).multilingual

    async def aliases(self, text: str, caller: Caller) -> list[str]:
        """Other names of the entities that a question names, as far as the caller knows."""
        return await self._ledger.knowledge.aliases_in(text, own_places(caller))

    async def find(self, search: Search, draft: Drafter[D], choose: Chooser[D, T]) -> T:
        """Query every channel and choose from the matches; see the ledger's `Searches.find`.

        Raises:
            StorageError: The ledger cannot be read. A missing vector worker is not an error.
        """
        ask_vectors = partial(self._search_vectors, search)
        if self._indexer.embedder is not None:
            self._ledger.searches.expect(self._indexer.embedder)
        return await self._ledger.searches.find(search, ask_vectors, draft, choose)

    async def nearest(
        self, search: Search, closeness: Closeness, *, before: int
    ) -> list[Record] | None:
        """The nearest records with a row below `before`.

        None if the vectors are unavailable or some records have no vector yet.
        """

        def choose(found: Matches, _: None) -> Choice[list[Record] | None]:
            if found.problem is not None or found.waiting:
                return None
            least = 1 - closeness.distance
            cosines = zip(found.view.rows, found.cosines().tolist(), strict=True)
            near = [(cosine, row) for row, cosine in cosines if row < before and cosine >= least]
            rows = [row for _, row in sorted(near, reverse=True)[: closeness.top_k]]
            records = (yield DetailRequest(records=rows)).records
            return [records[row] for row in rows if row in records]

        return await self.find(search, lambda _: None, choose)

    async def _search_vectors(self, search: Search, limit: int) -> VectorResult:
        """The nearest vectors, or the reason why they cannot be searched."""
        await self._indexer.wait_for_start(self._indexer.patience)
        # Checked before the search: a record indexed while it runs may be missing from the hits.
        waiting = not self._indexer.is_caught_up and await self._ledger.searches.has_waiting(search)
        if (problem := self._indexer.problem) is not None:
            return VectorResult(waiting=waiting, problem=problem)
        try:
            hits = await self._vectors.search(search.text, limit)
            if limit and not hits.hits:
                await self._indexer.check_count(0)
        except IndexDamagedError as error:
            self._indexer.report_damage(str(error))
            return VectorResult(waiting=waiting, problem=self._indexer.problem)
        except Local2Error as error:
            # A dead worker becomes a reason here. Without hits, words decide alone, and items have
            # no later statements.
            log.warning("search_degraded", reason=str(error))
            return VectorResult(waiting=waiting, problem=str(error))
        problem = self._indexer.problem or (self._indexer.refilling if waiting else None)
        return VectorResult(waiting=waiting, hits=hits, problem=problem)


class RecallRequest(msgspec.Struct, frozen=True, kw_only=True):
    query: str
    top_k: int
    kinds: Collection[Kind] = RECALLED_KINDS
    compared: Collection[Kind] = ()
    """Other kinds that are ranked with these, to mark what they replace; none becomes an item."""
    scope: Scope = "any"
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    """Answer as of this moment: "last week" counts from it, later records are hidden, and records
    that were retired after it are found."""
    min_relevance: float = 0.0
    """Minimum score, as a fraction of the best item's score before reranking."""
    continues: bool = False
    """Whether the query is a message that continues a conversation, and not a search."""
    rerank: bool = True
    candidates: int | None = None
    """Number of results from which the reranker selects `top_k`. None: it sorts as many as it reads
    (`Reranker.count`), even if no more than `top_k` were found."""
    repetitions: bool = False
    """Whether to return every record of several with the same text."""
    with_later: bool = False
    """Whether items carry later statements about the same thing."""
    weights: Weights | None = None
    """Scope weights that replace the configured ones."""
    source: str | None = None
    """Prefix of the ids that senders gave to the wanted records; None for any."""

    @classmethod
    def of(cls, args: Recall) -> Self:
        """The request that the arguments of the tool make.

        Raises:
            InvalidArgumentsError: A time is not valid.
        """
        return cls(
            query=args.query,
            top_k=args.top_k,
            kinds=args.source_kinds or RECALLED_KINDS,
            scope=args.scope,
            since=time_of(args.since, "since") if args.since else None,
            until=time_of(args.until, "until", ends=True) if args.until else None,
            as_of=time_of(args.as_of, "as_of", ends=True) if args.as_of else None,
            min_relevance=args.min_relevance,
            continues=args.continues,
            rerank=args.enable_rerank,
            with_later=True,
        )


class RecallResult(msgspec.Struct, frozen=True, kw_only=True):
    """The items, best first.

    `degraded`: some records could be found by their words only, turns wait to be stored, or the
    reranker failed; `reason` says why. `min_score`: the cosine below which records without a word
    of the question are left out.
    """

    items: list[RecallItem]
    degraded: bool
    rerank_used: bool
    reason: str | None = None
    min_score: float = 0.0


class RecallModels(msgspec.Struct, frozen=True, kw_only=True):
    """Optional models that improve recall."""

    reranker: Reranker | None = None
    expander: Expander | None = None


class Recaller:
    """Recall within one tenant."""

    def __init__(
        self,
        retrieval: Retrieval,
        *,
        weights: Weights,
        feedback_weight: float,
        min_score: float | None,
        models: RecallModels,
        clock: Clock,
        turns: WaitingTurns,
        slots: FairSlots | None = None,
    ) -> None:
        """`slots`: shared by all tenants; None for limits of its own."""
        self._retrieval = retrieval
        self._weights = weights
        self._feedback_weight = feedback_weight
        self._clock = clock
        self._models = models
        self._turns = turns
        self._slots = slots or FairSlots(SEARCH_LIMITS)
        self.min_score = min_score

    async def recall(
        self, caller: Caller, request: RecallRequest, trace: Trace | None = None
    ) -> RecallResult:
        """The records that answer the question, out of those that the caller may see.

        `trace`: follows the recall, to explain its result.

        Raises:
            InvalidArgumentsError: The question is blank, the scope needs an identity that the
                caller lacks, or `since` is after `until` or `as_of`.
            StorageError: The ledger cannot be read.
            OverloadedError: Too many searches are waiting.
        """
        within = reach(
            request.scope,
            {*request.kinds, *request.compared},
            caller,
            request.weights or self._weights,
        )
        now = in_utc(request.as_of, "as_of") if request.as_of else self._clock()
        since, until = _time_range(request)
        # Days begin and end in the time zone of `as_of`, if it has one.
        local_now = request.as_of if request.as_of and request.as_of.tzinfo else now
        text = checked_text(request.query, "query")
        query = analyse(text, local_now, multilingual=self._retrieval.is_multilingual)
        if self._models.expander is not None:
            expansion = await self._models.expander.expand(text)
            query = query.expanded(expansion.keywords, expansion.topics)
        query = msgspec.structs.replace(query, continues=request.continues)
        query = query.expanded(await self._retrieval.aliases(query.text, caller))
        search = Search(
            text=query.text,
            terms=query.terms,
            optional=query.optional,
            phrases=query.phrases,
            topics=query.topics,
            places=within.places,
            only_session=within.only_session,
            excluded_session=within.excluded_session,
            since=since,
            until=until,
            as_of=now if request.as_of else None,
            source=request.source,
            owner=caller.user or TENANT_OWNED,
            current_query_id=caller.query_id,
        )
        if trace is not None:
            trace.search = search
        draft = partial(Draft, query, within, now, self._feedback_weight)
        choose = partial(self._choose, request, trace)
        with self._slots.admitted(caller.principal):
            async with self._slots.slot(caller.principal):
                # Asked before the search, which may miss a turn that is stored while it runs.
                waiting = await self._turns.count()
                recalled = await self._retrieval.find(search, draft, choose)
        if waiting:
            reason = recalled.reason or why_incomplete(waiting)
            recalled = msgspec.structs.replace(recalled, degraded=True, reason=reason)
        return await self._rerank(request, recalled)

    def _choose(
        self, request: RecallRequest, trace: Trace | None, found: Matches, draft: Draft
    ) -> Choice[RecallResult]:
        min_score = found.min_score if self.min_score is None else self.min_score
        ranking = yield from rank(found, draft, min_score=min_score, trace=trace)
        ranked = ranking.best_first() if trace is None else trace.follow(ranking)
        reranker = self._models.reranker if request.rerank else None
        to_rerank = 0 if reranker is None else request.candidates or reranker.count
        wanted = max(to_rerank, request.top_k)
        items = yield from first_items(
            ranked,
            wanted,
            kinds=request.kinds,
            repetitions=request.repetitions,
            later=ranking.later if request.with_later else None,
            trace=trace,
        )
        least = request.min_relevance * max((item.score for item in items), default=0.0)
        near = [item for item in items if item.score >= least]
        if trace is not None:
            kept = {item.record.row for item in near}
            far = (item.record.row for item in items if item.record.row not in kept)
            trace.leave_out(far, "below_min_relevance")
            trace.finish(ranked)
        if draft.query.about_past:
            near = (yield from with_former_values(near))[:wanted]
        items = yield from with_relations(near)
        return RecallResult(
            items=items,
            degraded=found.waiting or found.problem is not None,
            reason=found.problem or (NOT_INDEXED if found.waiting else None),
            rerank_used=False,
            min_score=min_score,
        )

    async def _rerank(self, request: RecallRequest, recalled: RecallResult) -> RecallResult:
        items = recalled.items
        is_useful = len(items) > (0 if request.candidates is None else request.top_k)
        if self._models.reranker is not None and request.rerank and is_useful:
            texts = [labelled_text(item.record) for item in items]
            try:
                order = await self._models.reranker.rank(request.query, texts)
            except RerankError as error:
                log.debug("rerank_failed", reason=str(error))
                reason = recalled.reason or error.message
                recalled = msgspec.structs.replace(recalled, degraded=True, reason=reason)
            else:
                items = [
                    items[position]
                    if score is None
                    else msgspec.structs.replace(items[position], score=score)
                    for position, score in order
                ]
                recalled = msgspec.structs.replace(recalled, rerank_used=True)
        return msgspec.structs.replace(recalled, items=items[: request.top_k])


def _time_range(request: RecallRequest) -> tuple[datetime | None, datetime | None]:
    """The beginning and the end of the searched time."""
    named = (("until", request.until), ("as_of", request.as_of))
    ends = [(in_utc(end, name), name) for name, end in named if end]
    since = request.since and in_utc(request.since, "since")
    until, end = min(ends, default=(None, ""))
    if since and until and since > until:
        first, last = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (since, until))
        raise InvalidArgumentsError(
            f"since ({first}) is after {end} ({last}), so no time is left to search.",
            remedy="Exchange the two, or leave one of them out.",
        )
    return since, until
