"""The memory of one caller, as tools, agents and Python programs use it.

`MemoryService` recalls, consolidates, and has the four operations of the reference. Everything else
is in its parts, such as `facts`.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from local2.background import together
from local2.home import other_homes
from local2.ledger.ledger import Ledger
from local2.ledger.operations.showings import Showing, ShownRecord
from local2.ledger.records import TENANT_OWNED, Actor
from local2.memory.access_log import AccessLog
from local2.memory.audit import Audit
from local2.memory.backlog import Backlog
from local2.memory.browsing import Browsing
from local2.memory.changes import Changes
from local2.memory.erasure import Erasure, Outside
from local2.memory.explaining import explain
from local2.memory.facts import Facts
from local2.memory.graph import graph_around
from local2.memory.intake.documents import Documents
from local2.memory.intake.echoes import EchoFinder
from local2.memory.intake.intake import Intake
from local2.memory.intake.waiting_turns import WaitingTurns
from local2.memory.items import CallerItems
from local2.memory.long_outputs import LongOutputs
from local2.memory.portability import Portability
from local2.memory.recall.recaller import Recaller, RecallRequest, RecallResult
from local2.memory.recall.synthesis import Synthesis
from local2.memory.relations import Relations
from local2.memory.scopes import EQUAL_WEIGHTS, owner_of, visible_places
from local2.memory.search_results import ScopedResults, SearchResult, search_result
from local2.memory.sessions import PreseededMemories, Sessions
from local2.memory.showings import find_showings
from local2.memory.upkeep.consolidation import Consolidated, Consolidation
from local2.protocol.envelope import Caller, Clock, new_id
from local2.protocol.explaining import Explain, Explained
from local2.protocol.graph import Graph, ShowGraph
from local2.protocol.memories import EPISODIC, NO_OTHERS, Kind, Others, Scope
from local2.protocol.memory_tools import Answer
from local2.protocol.payloads import Json
from local2.protocol.showings import FindShowings, ShowingsPage
from local2.settings import MemorySettings

MAX_USERS = 10
"""Maximum number of other users that are named."""
FACTS: tuple[Kind, ...] = ("fact",)
DEFAULT_TOP_K, CANDIDATE_FACTOR = 6, 2
"""Default number of results per scope, and by how much more candidates a reranker gets."""


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one tenant's memory that all callers use."""

    ledger: Ledger
    settings: MemorySettings
    clock: Clock
    changes: Changes
    echoes: EchoFinder
    recaller: Recaller
    synthesis: Synthesis
    consolidation: Consolidation
    accesses: AccessLog
    backlog: Backlog
    outside: Outside
    turns: WaitingTurns


class MemoryService:
    """The memory of one caller, made for one request. What a method stored is on disk."""

    def __init__(self, shared: Shared, caller: Caller) -> None:
        self.caller = caller
        self._shared = shared

    @property
    def facts(self) -> Facts:
        shared = self._shared
        return Facts(shared.ledger, shared.changes, self.caller, shared.clock)

    @property
    def relations(self) -> Relations:
        return Relations(self._shared.ledger, self.caller, self._shared.clock)

    @property
    def intake(self) -> Intake:
        shared = self._shared
        return Intake(shared.ledger, shared.changes, shared.echoes, self.caller, shared.clock)

    @property
    def documents(self) -> Documents:
        shared = self._shared
        return Documents(shared.ledger, shared.changes, caller=self.caller, clock=shared.clock)

    @property
    def items(self) -> CallerItems:
        shared = self._shared
        return CallerItems(
            shared.ledger, shared.changes, shared.recaller, self.caller, shared.clock
        )

    @property
    def sessions(self) -> Sessions:
        shared = self._shared
        return Sessions(shared.ledger, self.caller, shared.settings, shared.clock, shared.turns)

    @property
    def outputs(self) -> LongOutputs:
        return LongOutputs(self._shared.ledger, owner_of(self.caller))

    @property
    def portability(self) -> Portability:
        shared = self._shared
        return Portability(shared.ledger, shared.backlog, self.caller, shared.clock)

    @property
    def erasure(self) -> Erasure:
        return Erasure(self._shared.ledger, self._shared.outside, self.caller, self._shared.clock)

    @property
    def browsing(self) -> Browsing:
        return Browsing(self._shared.ledger, self.caller, of_all=False)

    @property
    def browsing_of_all(self) -> Browsing:
        return Browsing(self._shared.ledger, self.caller, of_all=True)

    @property
    def audit(self) -> Audit:
        return Audit(self._shared.ledger, self._shared.changes, self.caller)

    async def write_topic(self, topic: str, content: str) -> str:
        """Set the value of a standing fact; return the id of the active version.

        Raises:
            InvalidArgumentsError: The key violates the rule for topics, or the content is blank.
        """
        return (await self.facts.store_topic(topic, content)).id

    async def recall_topic(self, topic: str) -> str | None:
        """The value of a standing fact, or None. Needs neither index nor embedder.

        Raises:
            InvalidArgumentsError: The key violates the rule for topics.
        """
        record = await self.facts.topic(topic)
        return record.content if record else None

    async def write_episodic(self, content: str, metadata: Json | None = None) -> str:
        """Store a note; return its id, which is the same for the same content and query_id.

        Raises:
            InvalidArgumentsError: See `Intake.store_episode`.
        """
        return (await self.intake.store_episode(content, metadata)).id

    async def search_episodic(self, query: str, top_k: int | None = None) -> SearchResult:
        """Find episodes and notes by meaning and words; `top_k`: None means the setting.

        Facts are none, but what they say may replace what those say.
        """
        request = RecallRequest(
            query=query,
            top_k=top_k or self._shared.settings.top_k,
            kinds=EPISODIC,
            compared=FACTS,
            weights=EQUAL_WEIGHTS,
            with_later=True,
        )
        return search_result(await self.recall(request), self.caller)

    async def recall(self, request: RecallRequest) -> RecallResult:
        """Find all kinds of memories that answer a question; see Recaller."""
        recalled = await self._shared.recaller.recall(self.caller, request)
        self._shared.accesses.add(item.record.row for item in recalled.items)
        if self._shared.settings.recall_log_days:
            recall = Showing(
                owner=owner_of(self.caller),
                agent=self.caller.agent,
                session_id=self.caller.session_id,
                query_id=self.caller.query_id,
                question=request.query,
                shown_at=self._shared.clock(),
                records=tuple(ShownRecord(item.record.id, item.score) for item in recalled.items),
            )
            self._shared.accesses.log(recall)
        return recalled

    async def explain(self, asked: Explain) -> Explained:
        """Say why a question finds some memories, and not another one."""
        return await explain(self._shared.ledger, self._shared.recaller, self.caller, asked)

    async def graph(self, wanted: ShowGraph) -> Graph:
        """Show how things and memories are related."""
        return await graph_around(self._shared.ledger, self.caller, wanted)

    async def shown(self, wanted: FindShowings) -> ShowingsPage:
        """Find which memories were shown, by recalls and before answers."""
        return await find_showings(self._shared.ledger, self._shared.accesses, self.caller, wanted)

    async def others(self) -> Others:
        """Who else may know, for the user who runs the stack; others learn of nobody."""
        if not self.caller.has_unnamed:
            return NO_OTHERS
        users = await self._shared.ledger.records.users(MAX_USERS)
        data_dir = self._shared.settings.data_dir.absolute()
        homes = await asyncio.to_thread(other_homes, data_dir, data_dir.parent)
        return Others(
            users=[user for user in users if user not in {TENANT_OWNED, self.caller.user}],
            homes=list(map(str, homes)),
        )

    async def consolidate(self, *, dry_run: bool) -> Consolidated:
        """Consolidate the caller's own facts and the tenant's, or only report the changes."""
        caller = self.caller
        actor = Actor(agent=caller.agent, user=owner_of(caller), run=new_id())
        places = visible_places(caller, FACTS)
        return await self._shared.consolidation.consolidate_places(places, actor, dry_run=dry_run)

    async def search_tenant(self, query: str, top_k: int = DEFAULT_TOP_K) -> RecallResult:
        """Search the documents and facts that everybody in the tenant may see."""
        return await self._search("tenant", query, top_k)

    async def search_agent(self, query: str, top_k: int = DEFAULT_TOP_K) -> RecallResult:
        """Search the facts of the calling agent.

        Raises:
            InvalidArgumentsError: The caller is not an agent.
        """
        return await self._search("agent", query, top_k)

    async def search_scopes(
        self,
        query: str,
        scopes: Sequence[Scope] = ("tenant", "agent"),
        *,
        fast_mode: bool = False,
        top_k: int = DEFAULT_TOP_K,
    ) -> ScopedResults:
        """Search several scopes concurrently; `text()` of the result is for prompts.

        Args:
            query: A question or keywords.
            scopes: The order in which results are returned.
            fast_mode: Skip the reranker.
            top_k: Maximum number of results per scope.

        Raises:
            InvalidArgumentsError: A scope needs an identity that the caller lacks.
        """
        wanted = tuple(dict.fromkeys(scopes))
        searches = (self._search(scope, query, top_k, rerank=not fast_mode) for scope in wanted)
        found = await together(searches)
        return ScopedResults(
            query=query, caller=self.caller, scopes=dict(zip(wanted, found, strict=True))
        )

    async def _search(
        self, scope: Scope, query: str, top_k: int, *, rerank: bool = True
    ) -> RecallResult:
        count = CANDIDATE_FACTOR * top_k
        return await self.recall(
            RecallRequest(
                query=query,
                top_k=top_k,
                scope=scope,
                rerank=rerank,
                candidates=count,
                with_later=True,
            )
        )

    async def top_memories(self) -> PreseededMemories:
        """The most important memories that the caller may see; no question is needed.

        `section()` of the result is for prompts.
        """
        return await self.sessions.top_memories()

    async def synthesize(self, query: str, recalled: RecallResult) -> Answer:
        """Answer the question from the recalled items alone; empty if they do not answer it."""
        return await self._shared.synthesis.answer(query, recalled.items)
