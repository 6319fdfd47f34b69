"""Housekeeper: says whether ledger and index of a tenant agree, and rebuilds the index."""

from collections.abc import Callable

from local.bus.connection import Connection, Message
from local.bus.participant import Participant
from local.client.dead_letters import count_letters
from local.errors import BusError, IndexDamagedError, Local2Error, StorageError, VectorError
from local.ledger.records import Counts
from local.ledger.tasks import TaskCounts
from local.memory.tenant import Memory
from local.protocol import subjects
from local.protocol.codec import decode, encode
from local.protocol.envelope import seal
from local.protocol.payloads import MemoryStatus, TasksSetAside
from local.protocol.vectors import VectorStatus, WorkerReady

NAME = "housekeeper"


class Housekeeper(Participant):
    """Serves `memory.status` and `memory.reindex`; hears when a vector worker has started."""

    def __init__(
        self,
        bus: Connection,
        memory: Memory,
        turns_problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        super().__init__(bus, name=NAME, description="Keeps the vector index equal to the ledger.")
        self._memory = memory
        self._turns_problem = turns_problem
        self.serve(subjects.MEMORY_STATUS, self._tell_status, queue=NAME)
        self.serve(subjects.MEMORY_REINDEX, self._reindex, queue=NAME)
        self.serve(subjects.VECTOR_READY, self._worker_started, inner=True)

    async def _worker_started(self, message: Message) -> None:
        self._memory.indexer.worker_started(decode(message.data, WorkerReady).payload.worker)

    async def _tell_status(self, message: Message) -> None:
        await self._answer(message, None)

    async def _reindex(self, message: Message) -> None:
        try:
            await self._memory.indexer.rebuild()
        except Local2Error as error:
            await self._answer(message, str(error))
        else:
            await self._answer(message, None)

    async def _status(self, problem: str | None) -> MemoryStatus:
        indexer = self._memory.indexer
        counts = Counts(records=0, indexed=0, waiting=0)
        tasks: list[TaskCounts] = []
        try:
            counts = await self._memory.ledger.counts()
            tasks = await self._memory.ledger.backlog.counts()
        except StorageError as error:
            problem = str(error)
        dead_letters = 0
        try:
            dead_letters = await count_letters(self.bus)
        except BusError as error:
            problem = problem or str(error)
        worker: VectorStatus | None = None
        try:
            worker = await self._memory.vectors.status(tenant=self._memory.tenant)
            await indexer.held(worker.count)
        except IndexDamagedError as error:
            indexer.damaged(str(error))
        except (StorageError, VectorError) as error:
            problem = problem or str(error)
        problem = problem or (worker.problem if worker else None)
        return MemoryStatus(
            records=counts.records,
            indexed=counts.indexed,
            waiting=counts.waiting,
            vectors_available=indexer.problem is None,
            in_index=worker.count if worker else None,
            embedder=worker.embedder if worker else None,
            problem=problem or indexer.refilling or (indexer.delay if counts.waiting else None),
            dead_letters=dead_letters,
            turns_problem=self._turns_problem(),
            waiting_since=indexer.moved_at if counts.waiting else None,
            set_aside=[
                TasksSetAside(kind=each.kind, aside=each.aside, errors=list(each.errors))
                for each in tasks
                if each.aside
            ],
        )

    async def _answer(self, message: Message, problem: str | None) -> None:
        if message.reply:
            status = await self._status(problem)
            await self.bus.publish(message.reply, encode(seal(status, type="status", source=NAME)))
