"""The memory as tools and agents use it: standing facts by key, episodes by meaning."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from local.database import Database
from local.errors import BusError, InvalidArgumentsError, VectorError
from local.memory.indexer import Indexer, Vectors
from local.memory.ledger import Ledger
from local.memory.ranking import Hit, SearchResult, by_meaning, by_words, ranked
from local.memory.records import (
    TENANT_OWNED,
    Kind,
    NewRecord,
    Rating,
    Written,
    checked_topic,
    content_id,
    owner_of_topic,
)
from local.protocol import subjects
from local.protocol.caller import Caller
from local.protocol.envelope import new_id, utc_now
from local.protocol.payloads import Json, MemoryChange
from local.protocol.vectors import VectorHit
from local.settings import MemorySettings

FIRST_LOOK = 40
"""Hits asked of the index at first; the owner's and the active ones are picked out afterwards."""
FURTHER_LOOK = 8
LAST_LOOK = 3_000
EPISODE: Kind = "episode"

Announce = Callable[[str, MemoryChange], Awaitable[None]]
Clock = Callable[[], datetime]

log = structlog.get_logger()


class _Meaning(NamedTuple):
    """What the index found; `problem` says why that may not be all."""

    hits: list[Hit]
    problem: str | None = None


class Memory:
    """Everything remembered; `of` a caller it is a MemoryService. One ledger and index a tenant."""

    def __init__(
        self,
        database: Database,
        vectors: Vectors,
        settings: MemorySettings,
        *,
        announce: Announce,
        clock: Clock = utc_now,
    ) -> None:
        self.ledger = Ledger(database, "default")
        self.indexer = Indexer(self.ledger, vectors)
        self.vectors = vectors
        self.settings = settings
        self.announce = announce
        self.clock = clock

    def of(self, caller: Caller) -> "MemoryService":
        """The memory as this caller may see and change it."""
        if caller.tenant != self.ledger.tenant:
            raise InvalidArgumentsError(f"The tenant {caller.tenant!r} is not served here.")
        return MemoryService(self, caller)


class MemoryService:
    """One caller's memory. What it writes is on disk when a method returns."""

    def __init__(self, memory: Memory, caller: Caller) -> None:
        self._memory = memory
        self._ledger = memory.ledger
        self.caller = caller

    async def write_topic(self, topic: str, content: str) -> str:
        """Make `content` the value of a standing fact; returns the id of the active version."""
        return (await self.put_topic(topic, content)).id

    async def put_topic(self, topic: str, content: str) -> Written:
        """As `write_topic`, and says whether it was new and what it replaced.

        Raises:
            InvalidArgumentsError: The key breaks the rule for topics, or the content is blank.
        """
        record = NewRecord(
            id=new_id(),
            kind="fact",
            owner=owner_of_topic(checked_topic(topic), self.caller.user),
            topic=topic,
            content=_not_blank(content),
            agent=self.caller.agent,
            session_id=self.caller.session_id,
            event_time=self._memory.clock(),
        )
        written = await self._ledger.put_topic(record)
        await self._tell(written, record)
        return written

    async def recall_topic(self, topic: str) -> str | None:
        """The value of a standing fact, or None. Exact: neither index nor embedder is asked."""
        owner = owner_of_topic(checked_topic(topic), self.caller.user)
        record = await self._ledger.topic(owner, topic)
        return record.content if record else None

    async def write_episodic(self, content: str, metadata: Json | None = None) -> str:
        """Remember an episode; returns its id, the same one for the same content and query_id."""
        return (await self.put_episode(content, metadata)).id

    async def put_episode(self, content: str, metadata: Json | None = None) -> Written:
        """As `write_episodic`, and says whether it was new.

        Args:
            content: The text to be found by its meaning.
            metadata: Kept with it. `session_id`, `query_id` and `timestamp_utc` (ISO 8601) have
                their meaning; the rest is the caller's own.

        Raises:
            InvalidArgumentsError: The content is blank, or `timestamp_utc` is no time.
        """
        extra = dict(metadata or {})
        query_id = extra.pop("query_id", None)
        owner = self._owner
        record = NewRecord(
            id=content_id(EPISODE, owner, query_id, _not_blank(content)),
            kind=EPISODE,
            owner=owner,
            content=content,
            agent=self.caller.agent,
            session_id=extra.pop("session_id", None) or self.caller.session_id,
            query_id=query_id,
            event_time=_moment(extra.pop("timestamp_utc", None)) or self._memory.clock(),
            metadata=extra,
        )
        written = await self._ledger.add(record)
        await self._tell(written, record)
        return written

    async def search_episodic(self, query: str, top_k: int | None = None) -> SearchResult:
        """Find the caller's episodes by meaning, those not indexed yet by their words.

        Without the vector worker every episode is searched by its words, and the result says so.

        Args:
            query: What to look for, in any words.
            top_k: How many hits at most; None means the setting.
        """
        _not_blank(query)
        limit = top_k or self._memory.settings.top_k
        # Asked first: what is indexed during the search may be missing from the answer, too.
        waiting = await self._ledger.has_waiting(kind=EPISODE, owner=self._owner)
        search = self._by_meaning(query, limit)
        if waiting:
            meaning, words = await asyncio.gather(search, self._by_words(query, waiting_only=True))
        else:
            meaning, words = await search, []
        if meaning.problem is not None:
            words = await self._by_words(query, waiting_only=False)
            hits = self._ranked(meaning.hits + words, limit)
            return SearchResult(hits=hits, degraded=True, reason=meaning.problem)
        return SearchResult(
            hits=self._ranked(meaning.hits + words, limit),
            degraded=waiting,
            reason="Some memories are not indexed yet." if waiting else None,
        )

    async def rate(self, query_id: str, score: float, comment: str | None = None) -> None:
        """Rate the answer to a query, from -1 to 1; the rating travels with its episode."""
        rating = Rating(
            query_id=query_id, score=score, comment=comment, event_time=self._memory.clock()
        )
        await self._ledger.rate(rating)

    @property
    def _owner(self) -> str:
        return self.caller.user or TENANT_OWNED

    async def _by_meaning(self, query: str, top_k: int) -> "_Meaning":
        """Ask the index, and further down while too few of its hits are the caller's."""
        if (problem := self._memory.indexer.problem) is not None:
            return _Meaning([], problem)
        limit = max(FIRST_LOOK, 4 * top_k)
        configured = self._memory.settings.min_score
        try:
            while True:
                found = await self._memory.vectors.search(query, limit, tenant=self._ledger.tenant)
                min_score = found.min_score if configured is None else configured
                hits = await self._confirmed(found.hits, min_score)
                exhausted = len(found.hits) < limit or found.hits[-1].cosine < min_score
                if len(hits) >= top_k or exhausted:
                    return _Meaning(hits)
                if limit >= LAST_LOOK:
                    return _Meaning(hits, "Too many memories of others are nearer.")
                limit = min(limit * FURTHER_LOOK, LAST_LOOK)
        except VectorError as error:
            log.warning("search_degraded", reason=str(error))
            return _Meaning([], str(error))

    async def _confirmed(self, found: Sequence[VectorHit], min_score: float) -> list[Hit]:
        ids = [hit.id for hit in found if hit.cosine >= min_score]
        records = await self._ledger.active(ids, kind=EPISODE, owner=self._owner)
        return by_meaning(found, records, min_score=min_score)

    async def _by_words(self, query: str, *, waiting_only: bool) -> list[Hit]:
        records = await self._ledger.search_text(
            query, kind=EPISODE, owner=self._owner, limit=FIRST_LOOK, waiting_only=waiting_only
        )
        return by_words(query, records)

    def _ranked(self, hits: list[Hit], top_k: int) -> list[Hit]:
        weight = self._memory.settings.feedback_weight
        return ranked(hits, feedback_weight=weight, top_k=top_k)

    async def _tell(self, written: Written, record: NewRecord) -> None:
        """Let the indexer and everybody who listens know what is new."""
        if not written.was_new:
            return
        self._memory.indexer.wake()
        try:
            await self._announce(written, record)
        except BusError as error:  # what is written stays written, whether or not anybody hears
            log.warning("change_not_announced", id=written.id, reason=str(error))

    async def _announce(self, written: Written, record: NewRecord) -> None:
        saved = MemoryChange(id=written.id, kind=record.kind, topic=record.topic)
        await self._memory.announce(subjects.MEMORY_SAVED, saved)
        if written.superseded is not None:
            replaced = MemoryChange(
                id=written.superseded,
                kind=record.kind,
                topic=record.topic,
                superseded_by=written.id,
            )
            await self._memory.announce(subjects.MEMORY_SUPERSEDED, replaced)


def _not_blank(text: str) -> str:
    if not text or text.isspace():
        raise InvalidArgumentsError(
            "The text is blank.", remedy="Say what to remember or look for."
        )
    return text


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidArgumentsError(f"timestamp_utc: {text!r} is not an ISO 8601 time.") from error
