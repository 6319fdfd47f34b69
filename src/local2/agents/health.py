"""The status, health and readiness of a tenant's memory, on the bus and as gauges.

The agent also answers while the stack does not serve, for example after it has lost its lease; the
answer then contains the reason.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import get_args

from local2.bus.connection import BusMessage, Connection
from local2.bus.dead_letters import count_letters
from local2.bus.participant import Participant
from local2.bus.streams import count_turns
from local2.errors import BusError, IndexDamagedError, StorageError, VectorError
from local2.ledger.records import Counts, TaskKind
from local2.memory.intake.waiting_turns import why_incomplete
from local2.memory.tenant import Memories, Memory
from local2.protocol.envelope import encode, seal, utc_now
from local2.protocol.maintenance import (
    ConsolidationStatus,
    Health,
    LiveStack,
    MemoryStatus,
    NextIndex,
    Readiness,
    TaskCounts,
)
from local2.protocol.services import HEALTH, READY
from local2.protocol.vectors import VectorStatus
from local2.telemetry import GaugeReading

WORKER_PATIENCE = 3.0
"""Seconds to wait for the vector worker's part of the status; the caller waits ten for all."""

NOT_SERVING_DELAY = 0.5
"""Seconds that a stack which does not serve waits before it answers. Another stack may serve the
bus, and the caller uses the first answer."""
GAUGES_PATIENCE = 5.0
"""Seconds that gauges wait for the vector worker and JetStream; Prometheus waits ten by default."""
NOT_SERVED = "Nothing is served: the stack starts, or has lost its lease on the bus; see its log."
GAUGES: Mapping[str, str] = {
    "local2_ready": "1 if tools are served and the ledger is readable.",
    "local2_degraded": "1 if memory.health reports a reason.",
    "local2_records": "Records in the ledger.",
    "local2_index_waiting": "Records waiting for their vectors.",
    "local2_index_lag_seconds": "Seconds that records have waited without any being indexed.",
    "local2_index_vectors": "Vectors in the index.",
    "local2_tasks_waiting": "Tasks waiting in the backlog, by kind.",
    "local2_tasks_set_aside": "Tasks set aside after repeated failures, by kind.",
    "local2_turns_waiting": "Turns and ratings that are not in the ledger yet.",
    "local2_dead_letters": "Messages that could not be stored.",
    "local2_stacks": "Stacks that share the ledger and live.",
}

TurnsProblem = Callable[[], str | None]
"""Returns why JetStream stores no turns, or None."""


def degradations(status: MemoryStatus) -> list[str]:
    """Say what is broken or delayed, as text for people."""
    aside = [
        f"{tasks.aside} tasks of kind {tasks.kind} are set aside: {', '.join(tasks.errors)}"
        for tasks in status.set_aside
    ]
    waiting = [why_incomplete(status.turns_waiting)] if status.turns_waiting else []
    return [*filter(None, (status.problem, status.turns_problem)), *waiting, *aside]


async def status_of(
    bus: Connection, memory: Memory, turns_problem: TurnsProblem, problem: str | None = None
) -> MemoryStatus:
    """Read the status of one memory from its ledger, its vector worker and JetStream.

    `problem` is reported unless a more serious one is found.
    """
    indexer = memory.indexer
    counts, to_anonymise = Counts(records=0, indexed=0, waiting=0), 0
    tasks: Sequence[TaskCounts] = ()
    consolidation: ConsolidationStatus | None = None
    next_index: NextIndex | None = None
    stacks: list[LiveStack] = []
    ledger_problem: str | None = None
    dead_letters = turns = 0
    # A turn is stored, then read for facts, which are indexed: counted in this order, none of it is
    # missed while it goes on.
    turns_waiting = await memory.turns.count()
    try:
        turns = await count_turns(bus, memory.tenant)
        dead_letters = await count_letters(bus, memory.tenant)
    except BusError as error:
        problem = problem or str(error)
    try:
        tasks = await memory.ledger.backlog.counts()
        counts = await memory.ledger.counts()
        to_anonymise = await memory.retention.due()
        consolidation = await memory.consolidation.status()
        next_index = await memory.reembedding.status()
        stacks = await memory.ledger.live_stacks()
    except StorageError as error:  # the status has what was read until then
        problem = ledger_problem = str(error)
    worker: VectorStatus | None = None
    failure: str | None = None
    try:
        async with asyncio.timeout(WORKER_PATIENCE):
            worker = await memory.vectors.status()
        await indexer.check_count(worker.count)
    except IndexDamagedError as error:
        indexer.report_damage(str(error))
    except (StorageError, VectorError) as error:
        failure = str(error)
    except TimeoutError:
        silent = f"The vector worker did not answer within {WORKER_PATIENCE:g} s"
        failure = f"{silent}: it is busy, or hangs."
    problem = problem or indexer.failure or failure or (worker.problem if worker else None)
    unread = sum(counted.waiting for counted in tasks if counted.kind == "extract")
    return MemoryStatus(
        records=counts.records,
        indexed=counts.indexed,
        waiting=counts.waiting,
        vectors_available=indexer.problem is None,
        in_index=worker.count if worker else None,
        embedder=worker.embedder if worker else None,
        problem=problem or indexer.refilling or (indexer.delay if counts.waiting else None),
        ledger_problem=ledger_problem,
        dead_letters=dead_letters,
        turns_problem=turns_problem(),
        turns_waiting=turns_waiting,
        unread=unread + turns,
        waiting_since=indexer.last_progress if counts.waiting else None,
        set_aside=[counted for counted in tasks if counted.aside],
        consolidation=consolidation,
        consolidation_hours=memory.consolidation.hours,
        next=next_index,
        to_anonymise=to_anonymise,
        models=memory.models.status(),
        stacks=stacks,
    )


class HealthAgent(Participant):
    """Serves `memory.health` and `memory.ready`; `gauges` returns their figures for Prometheus."""

    def __init__(
        self,
        bus: Connection,
        memories: Memories,
        *,
        serves: Callable[[], bool],
        turns_problem: TurnsProblem = lambda: None,
    ) -> None:
        super().__init__(
            bus, name="health", description="Reports whether the memory serves, and its state."
        )
        self._memories = memories
        self._serves = serves
        self._turns_problem = turns_problem
        self.serve(READY.subject, partial(self._reply, self.readiness))
        self.serve(HEALTH.subject, partial(self._reply, self.health))

    async def readiness(self, tenant: str) -> Readiness:
        """Find out whether the memory's tools are served and its ledger is readable."""
        if not self._serves():
            return Readiness(ready=False, reasons=[NOT_SERVED])
        ledger = self._memories.of_tenant(tenant).ledger
        try:
            await ledger.records.usage()  # reads one row
            stacks = await ledger.live_stacks()
        except StorageError as error:
            return Readiness(ready=False, reasons=[str(error)])
        return Readiness(ready=True, stacks=[stack.name for stack in stacks])

    async def health(self, tenant: str) -> Health:
        """Find out what is broken or delayed in a tenant's memory."""
        readiness = await self.readiness(tenant)
        if not readiness.ready:
            return Health(status="unavailable", reasons=readiness.reasons)
        reasons = degradations(await self._status(self._memories.of_tenant(tenant)))
        return Health(status="degraded" if reasons else "ok", reasons=reasons)

    async def gauges(self) -> list[GaugeReading]:
        """Read the gauges that GAUGES documents, for each tenant."""
        return list(chain(*await asyncio.gather(*map(self._gauges_of, self._memories))))

    async def _gauges_of(self, memory: Memory) -> list[GaugeReading]:
        labels = {"tenant": memory.tenant}
        ready = (await self.readiness(memory.tenant)).ready
        readings = [GaugeReading(name="local2_ready", value=ready, labels=labels)]
        if not ready:
            return readings
        try:
            tasks = {counted.kind: counted for counted in await memory.ledger.backlog.counts()}
            for kind in get_args(TaskKind):  # kinds without tasks, too
                counted = tasks.get(kind)
                for name, value in (
                    ("local2_tasks_waiting", counted.waiting if counted else 0),
                    ("local2_tasks_set_aside", counted.aside if counted else 0),
                ):
                    readings.append(
                        GaugeReading(name=name, value=value, labels={**labels, "kind": kind})
                    )
            async with asyncio.timeout(GAUGES_PATIENCE):
                status = await self._status(memory)
                turns = await count_turns(self.bus, memory.tenant)
        except (BusError, StorageError, TimeoutError):  # of this tenant; others have their gauges
            return [*readings, GaugeReading(name="local2_degraded", value=1, labels=labels)]
        since = status.waiting_since
        values = {
            "local2_degraded": bool(degradations(status)),
            "local2_records": status.records,
            "local2_index_waiting": status.waiting,
            "local2_index_lag_seconds": (utc_now() - since).total_seconds() if since else 0,
            "local2_index_vectors": status.in_index,
            "local2_dead_letters": status.dead_letters,
            "local2_turns_waiting": turns,
            "local2_stacks": len(status.stacks) or 1,
        }
        readings += [
            GaugeReading(name=name, value=value, labels=labels)
            for name, value in values.items()
            if value is not None
        ]
        return readings

    async def _status(self, memory: Memory) -> MemoryStatus:
        return await status_of(self.bus, memory, self._turns_problem)

    async def _reply(
        self, read: Callable[[str], Awaitable[Readiness | Health]], message: BusMessage
    ) -> None:
        answer = await read(message.tenant)
        if not self._serves():
            await asyncio.sleep(NOT_SERVING_DELAY)
        await self.bus.answer(message, encode(seal(answer, type="health", source="health")))
