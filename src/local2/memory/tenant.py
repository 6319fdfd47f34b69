"""Wire the memory of each tenant, and give each caller access to it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime

import msgspec

from local2.admission import FairSlots
from local2.errors import ForbiddenError, InvalidArgumentsError
from local2.ledger.ledger import Ledger
from local2.ledger.records import TaskKind
from local2.llm.models import StructuredModel
from local2.memory.access_log import AccessLog
from local2.memory.answer_log import AnswerLog, ShownAnswer
from local2.memory.backlog import Backlog
from local2.memory.changes import Announce, Changes
from local2.memory.erasure import NoStreams, Outside, Streams
from local2.memory.extraction.extractor import Extractor
from local2.memory.extraction.job import Extraction
from local2.memory.indexing import Indexer
from local2.memory.intake.echoes import Announced, EchoFinder, KnownTools
from local2.memory.intake.waiting_turns import WaitingTurns
from local2.memory.recall.recaller import Closeness, Recaller, RecallModels, Retrieval
from local2.memory.recall.synthesis import Synthesis
from local2.memory.scopes import Weights
from local2.memory.service import MemoryService, Shared
from local2.memory.upkeep.consolidation import Consolidation
from local2.memory.upkeep.reembedding import Reembedding
from local2.memory.upkeep.retention import Retention
from local2.memory.upkeep.supersession import Judge, Supersession
from local2.memory.vector_index import LedgerVectors, Vectors
from local2.protocol.envelope import Caller, Clock, utc_now
from local2.protocol.maintenance import ModelStatus
from local2.settings import MemorySettings
from local2.tenants.directory import Roles


class Models(msgspec.Struct, frozen=True, kw_only=True):
    """Optional models beside the embedder. `status` says what they do at present."""

    recall: RecallModels = RecallModels()
    extractor: Extractor | None = None
    judge: Judge | None = None
    synthesizer: StructuredModel | None = None
    status: Callable[[], ModelStatus | None] = lambda: None


class Memory:
    """The memory of one tenant; `of` gives a caller access to it."""

    def __init__(
        self,
        ledger: Ledger,
        vectors: Vectors,
        settings: MemorySettings,
        *,
        announce: Announce,
        own_tools: frozenset[str] = frozenset(),
        announced: Announced = lambda _tool: None,
        models: Models | None = None,
        streams: Streams | None = None,
        turns: WaitingTurns | None = None,
        searches: FairSlots | None = None,
    ) -> None:
        """Wire the parts.

        The results of `own_tools` are not recorded; `announced` returns how a tool of another team
        was announced. `streams` hold messages until they are stored; `turns` knows whether any
        wait. `searches` are slots for searches that all tenants share.
        """
        self.models = models = models or Models()
        self.ledger_vectors: LedgerVectors | None = None
        """None where the vector worker keeps the vectors."""
        if ledger.vectors is not None:
            vectors = self.ledger_vectors = LedgerVectors(ledger, ledger.vectors, vectors)
        self.tenant = ledger.tenant
        self.ledger = ledger
        self.backlog = Backlog(ledger.backlog)
        self.indexer = Indexer(
            ledger.index, vectors, self.backlog, patience=settings.starting_timeout
        )
        self.reembedding = Reembedding(ledger, vectors, self.backlog, self.indexer)
        self.vectors = vectors
        self.turns = turns or WaitingTurns()
        self.settings = settings
        self.clock: Clock = utc_now
        self.answer_log = AnswerLog(since=utc_now())
        self.tools = KnownTools(own_tools, self.answer_log, announced)
        self.changes = Changes(self.backlog, announce)
        self.accesses = AccessLog(ledger.upkeep, ledger.showings, self._now)
        self.consolidation = Consolidation(
            ledger,
            self.changes,
            self.accesses,
            settings=settings,
            clock=self._now,
            judge=models.judge,
        )
        if models.extractor is not None:
            self.backlog.add_job(Extraction(ledger, self.changes, models.extractor))
        retrieval = Retrieval(ledger, self.indexer, vectors)
        if models.judge is not None:
            closeness = Closeness(top_k=settings.judge_top_k, distance=settings.judge_distance)
            self.backlog.add_job(
                Supersession(ledger, retrieval, self.changes, models.judge, closeness)
            )
        self.recaller = Recaller(
            retrieval,
            models=models.recall,
            weights=Weights.of(settings),
            feedback_weight=settings.feedback_weight,
            min_score=settings.min_score,
            clock=self._now,
            turns=self.turns,
            slots=searches,
        )
        self.retention = Retention(ledger, settings, announce, self._now)
        self._shared = Shared(
            ledger=ledger,
            settings=settings,
            clock=self._now,
            changes=self.changes,
            echoes=EchoFinder(ledger, self.answer_log, self.tools),
            recaller=self.recaller,
            synthesis=Synthesis(models.synthesizer, within=settings.synthesis_timeout),
            consolidation=self.consolidation,
            accesses=self.accesses,
            backlog=self.backlog,
            outside=Outside(
                backlog=self.backlog,
                indexer=self.indexer,
                vectors=vectors,
                streams=streams or NoStreams(),
                recaller=self.recaller,
            ),
            turns=self.turns,
        )

    def of(self, caller: Caller) -> MemoryService:
        """The memory as seen by this caller.

        Raises:
            InvalidArgumentsError: The caller belongs to another tenant.
        """
        if caller.tenant != self.tenant:
            raise InvalidArgumentsError(f"The tenant {caller.tenant!r} is not served here.")
        return MemoryService(self._shared, caller)

    def _now(self) -> datetime:
        return self.clock()  # looked up at each call, because tests replace it


class Memories:
    """The memories of all tenants. `roles` decide who may do what; without them, anybody may."""

    def __init__(self, *memories: Memory, roles: Roles | None = None) -> None:
        self._roles = roles
        self._by_tenant = {memory.tenant: memory for memory in memories}
        self._worker: str | None = None

    def __iter__(self) -> Iterator[Memory]:
        return iter(tuple(self._by_tenant.values()))

    def add(self, memory: Memory) -> None:
        """Serve another tenant."""
        self._by_tenant[memory.tenant] = memory
        if self._worker is not None:
            memory.indexer.worker_started(self._worker)

    def worker_started(self, worker: str) -> None:
        """Tell all memories that a vector worker has started; each then compares its index."""
        self._worker = worker
        for memory in self:
            memory.indexer.worker_started(worker)

    def storing_turn(self, tenant: str) -> AbstractContextManager[None]:
        """The context in which a turn of this tenant is stored."""
        memory = self._by_tenant.get(tenant)
        return memory.turns.storing() if memory else nullcontext()

    def turn_published(self, tenant: str) -> None:
        """Note that a turn of this tenant was published, which another stack may store."""
        if (memory := self._by_tenant.get(tenant)) is not None:
            memory.turns.may_wait()

    def wake(self, tenant: str, kind: TaskKind) -> None:
        """Wake the job that does tasks of this kind: some of the tenant's wait."""
        if (memory := self._by_tenant.get(tenant)) is not None:
            memory.backlog.wake(kind)

    def note_answer(self, tenant: str, answer: ShownAnswer) -> None:
        """Note what another stack has answered."""
        if (memory := self._by_tenant.get(tenant)) is not None:
            memory.answer_log.note(answer)

    def remove(self, tenant: str) -> None:
        """Stop serving a tenant."""
        self._by_tenant.pop(tenant, None)

    def of(self, caller: Caller) -> MemoryService:
        """The memory of the caller's tenant, as seen by the caller.

        Raises:
            InvalidArgumentsError: The tenant is not served here.
        """
        return self.of_tenant(caller.tenant).of(caller)

    async def admit(self, caller: Caller, action: str) -> MemoryService:
        """The memory for a call of a tool or service, if the caller's role may use it.

        Raises:
            ForbiddenError: The role may not use it. The refusal is recorded in the audit trail.
            InvalidArgumentsError: The tenant is not served here.
        """
        if self._roles is None or caller.role is None:
            return self.of(caller)
        memory = self.of_tenant(caller.tenant)
        try:
            self._roles.check(caller.role, action)
        except ForbiddenError as error:
            await memory.ledger.audit.deny(action, caller, str(error), memory.clock())
            raise
        writes = self._roles.scopes(caller.role)
        return memory.of(msgspec.structs.replace(caller, writes=writes))

    def permitted_actions(self, caller: Caller) -> frozenset[str] | None:
        """The tools and services that the caller's role permits; None means all."""
        return None if self._roles is None else self._roles.actions(caller.role)

    def of_tenant(self, name: str) -> Memory:
        """A tenant's memory.

        Raises:
            InvalidArgumentsError: The tenant is not served here.
        """
        if name not in self._by_tenant:
            raise InvalidArgumentsError(f"The tenant {name!r} is not served here.")
        return self._by_tenant[name]
