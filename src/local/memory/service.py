"""The memory as tools and agents use it: standing facts by key, everything else by search."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import msgspec

from local.errors import InvalidArgumentsError
from local.ledger.door import Ledger
from local.ledger.records import (
    TENANT_OWNED,
    Fact,
    Rating,
    Record,
    Written,
    read_ahead,
    with_metadata,
)
from local.llm.structured import StructuredModel
from local.memory.batches import Vectors
from local.memory.changes import Announce, Changes
from local.memory.documents import Documents
from local.memory.echoes import Echoes
from local.memory.episodes import (
    EPISODE,
    SearchResult,
    checked_metadata,
    new_episode,
    search_result,
)
from local.memory.facts import Facts
from local.memory.indexer import Indexer
from local.memory.intake import Intake
from local.memory.judge import Judge
from local.memory.known_tools import Announced, KnownTools
from local.memory.outputs import ToolOutputs
from local.memory.places import ALIKE, Weights
from local.memory.recall.recaller import Ask, Recalled, Recaller, RecallModels
from local.memory.recall.retrieval import Closeness, Retrieval
from local.memory.recall.synthesis import Item as SynthesisItem
from local.memory.recall.synthesis import Synthesis
from local.memory.served import Served
from local.memory.sessions import Sessions
from local.memory.supersession import Supersession
from local.memory.turn_records import Turn, records_of_turn
from local.protocol.conversation import ChatMessage as Message
from local.protocol.conversation import IngestReport as Ingested
from local.protocol.envelope import Caller, utc_now
from local.protocol.memories import Answer
from local.protocol.payloads import Json
from local.settings import MemorySettings

Clock = Callable[[], datetime]


class Models(msgspec.Struct, frozen=True, kw_only=True):
    """Models beside the embedder; the memory does without each of them."""

    recall: RecallModels = RecallModels()
    judge: Judge | None = None
    synthesizer: StructuredModel | None = None


class Memory:
    """Everything remembered; `of` a caller it is a MemoryService. One ledger and index a tenant."""

    def __init__(  # noqa: PLR0913 - what a memory consists of
        self,
        ledger: Ledger,
        vectors: Vectors,
        settings: MemorySettings,
        *,
        announce: Announce,
        announced: Announced = lambda _tool: None,
        clock: Clock = utc_now,
        models: Models | None = None,
    ) -> None:
        models = models or Models()
        self.ledger = ledger
        self.indexer = Indexer(ledger.index, vectors, patience=settings.starting_timeout)
        self.vectors = vectors
        self.settings = settings
        self.clock = clock
        self.served = Served(since=clock())
        self.tools = KnownTools(self.served, announced)
        self.echoes = Echoes(ledger, self.served, self.tools)
        self.changes = Changes(self.indexer, announce)
        self.synthesis = Synthesis(models.synthesizer, within=settings.synthesis_timeout)
        retrieval = Retrieval(ledger, self.indexer, vectors)
        self.supersession = self._supersession(retrieval, models.judge)
        self.recaller = Recaller(
            retrieval,
            models=models.recall,
            weights=Weights.of(settings),
            feedback_weight=settings.feedback_weight,
            min_score=settings.min_score,
            clock=lambda: self.clock(),  # noqa: PLW0108 - a test sets another one
        )

    def _supersession(self, retrieval: Retrieval, judge: Judge | None) -> Supersession | None:
        if judge is None:
            return None
        closeness = Closeness(
            top_k=self.settings.judge_top_k, distance=self.settings.judge_distance
        )
        return Supersession(self.ledger, retrieval, self.changes, judge, closeness)

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
        self.outputs = ToolOutputs(memory.ledger, caller.user or TENANT_OWNED)
        self.documents = Documents(
            memory.ledger, memory.changes, agent=caller.agent, clock=memory.clock
        )
        self.intake = Intake(memory.ledger, memory.changes, memory.tools, caller, memory.clock)
        self.sessions = Sessions(memory.ledger, caller, memory.settings, memory.clock)
        self.caller = caller

    @property
    def facts(self) -> Facts:
        """What the caller states, judged by whoever judges now."""
        memory = self._memory
        return Facts(memory.ledger, memory.changes, memory.supersession, self.caller, memory.clock)

    async def write_topic(self, topic: str, content: str) -> str:
        """Make `content` the value of a standing fact; returns the id of the active version."""
        return (await self.put_topic(topic, content)).id

    async def put_topic(self, topic: str, content: str) -> Written:
        """As `write_topic`, and says whether it was new and what it replaced.

        Raises:
            InvalidArgumentsError: The key breaks the rule for topics, or the content is blank.
        """
        return await self.facts.put_topic(topic, content)

    async def recall_topic(self, topic: str) -> str | None:
        """The value of a standing fact, or None. Exact: neither index nor embedder is asked."""
        record = await self.topic(topic)
        return record.content if record else None

    async def topic(self, topic: str) -> Record | None:
        """The active version of a standing fact, with its key as it was first written.

        Raises:
            InvalidArgumentsError: The key breaks the rule for topics.
        """
        return await self.facts.topic(topic)

    async def remember_fact(self, fact: Fact) -> Written:
        """Keep a fact for as long as nothing contradicts it; see Facts."""
        return await self.facts.put(fact)

    async def history(self, topic_or_id: str) -> list[Record]:
        """Every version of a fact, newest first: by its topic key or by any version's id."""
        return await self.facts.history(topic_or_id)

    async def write_episodic(self, content: str, metadata: Json | None = None) -> str:
        """Remember an episode; returns its id, the same one for the same content and query_id."""
        return (await self.put_episode(content, metadata)).id

    async def put_episode(self, content: str, metadata: Json | None = None) -> Written:
        """As `write_episodic`, and says whether it was new.

        Args:
            content: The text to be found by its meaning.
            metadata: Kept with it, up to 4,096 bytes as JSON. `session_id`, `query_id` and
                `timestamp_utc` (ISO 8601) have their meaning; the rest is the caller's own.

        Raises:
            InvalidArgumentsError: The content is blank, an id is none, `timestamp_utc` is no time,
                or the metadata are too large or have a name that only the memory fills in.
        """
        checked = checked_metadata(metadata or {})
        record = new_episode(content, checked, self.caller, self._memory.clock())
        (written,) = await self._ledger.turns.store([record])
        await self._memory.changes.written([written], [record])
        return written

    async def put_turn(self, turn: Turn) -> Written:
        """Remember a turn: the episode, and its messages and tool results beside it.

        Another answer to the same question of the same query id takes the older one's place.
        """
        records_of = partial(
            records_of_turn, turn, self.caller, self.intake.why_not, self._memory.tools.may_be_own
        )
        made = await asyncio.to_thread(lambda: list(map(read_ahead, records_of())))
        reading = await self._memory.echoes.read(turn.query, turn.answer, turn.tool_calls, made[0])
        records = [with_metadata(record, reading.of(record)) for record in made]
        written = await self._ledger.turns.store(records, derived_from=reading.sources)
        await self._memory.changes.written(written, records)
        return written[0]

    async def ingest(self, messages: Sequence[Message], session_id: str | None = None) -> Ingested:
        """Remember a conversation word for word; see Intake."""
        return await self.intake.ingest(messages, session_id)

    async def recall(self, ask: Ask) -> Recalled:
        """Find whatever was remembered and answers a question; see Recaller."""
        return await self._memory.recaller.recall(self.caller, ask)

    async def synthesize(self, query: str, recalled: Recalled) -> Answer:
        """An answer that rests on what was recalled alone; empty if that does not answer."""
        items = [SynthesisItem.of(item.record) for item in recalled.items]
        return await self._memory.synthesis.answer(query, items)

    async def search_episodic(self, query: str, top_k: int | None = None) -> SearchResult:
        """Find the caller's episodes: those near in meaning, and those with the question's words.

        Args:
            query: What to look for, in any words.
            top_k: How many at most; None means the setting.
        """
        settings = self._memory.settings
        ask = Ask(
            query=query,
            top_k=top_k or settings.top_k,
            kinds=(EPISODE,),
            weights=ALIKE,
        )
        return search_result(await self.recall(ask))

    async def rate(
        self,
        query_id: str,
        score: float,
        comment: str | None = None,
        *,
        session_id: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Rate the answer that stood `at` a time, by default now, from -1 to 1.

        Without a session it is the newest of the query id in any of the caller's.
        """
        rating = Rating(
            owner=self._owner,
            query_id=query_id,
            session_id=session_id,
            score=score,
            comment=comment,
            event_time=at or self._memory.clock(),
        )
        await self._ledger.turns.rate(rating)

    @property
    def _owner(self) -> str:
        return self.caller.user or TENANT_OWNED
